// Package browser holds all rules about browsers: which host names the server answers to, which requests pages of other
// sites may make, where redirects may lead, and which parts of a running cluster's answers reach a browser.
//
// A browser sends its user's cookies with the requests of every site's pages, and it reaches servers that only its
// user's network reaches. The rules do not apply to programs: they send none of the headers that the rules check.
package browser

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Config is what the server cannot find out about itself.
type Config struct {
	// AllowedHosts are the names by which browsers reach the server, with a port if it is not the scheme's default.
	AllowedHosts []string
}

// AddFlags binds the configuration to flags.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.AllowedHosts, "allowed-hosts", nil,
		"host names that browsers use for the server, such as history.example.com or history.example.com:8443. "+
			"Requests to other host names are refused, except to IP addresses and names within a cluster. By default "+
			"only connections from 127.0.0.1 are checked, and only with --auth=off")
}

// Rules are the rules about browsers with a server's configuration.
type Rules struct {
	hosts map[string]bool // of Config.AllowedHosts, in lower case
	// guarded says that callers must sign in. Then a foreign host name is of no use to an attacker, because browsers do
	// not send the server's cookies to it.
	guarded bool
	origins *http.CrossOriginProtection
}

// New makes the rules of a configuration, and checks it. guarded says whether callers must sign in.
func New(c Config, guarded bool) (*Rules, error) {
	r := &Rules{hosts: map[string]bool{}, guarded: guarded, origins: http.NewCrossOriginProtection()}
	for _, host := range c.AllowedHosts {
		r.hosts[strings.ToLower(host)] = true
		for _, scheme := range []string{"https://", "http://"} {
			if err := r.origins.AddTrustedOrigin(scheme + host); err != nil {
				return nil, fmt.Errorf("--allowed-hosts=%s: want a name such as history.example.com or "+
					"history.example.com:8443", host)
			}
		}
	}
	return r, nil
}

// Reasons for refusing a request.
var (
	// ErrHost is a request to a name that is not known to be the server's.
	ErrHost = errors.New("the server does not serve this host name")
	// ErrOtherSite is a request that a page of another site made.
	ErrOtherSite = errors.New("a page of another site sent this request")
)

// Check refuses requests to host names that are not the server's, and requests of other sites' pages that may change
// something or open a WebSocket. Any page may link here, so it allows GET: a handler that changes something on GET has
// to call CheckOwnPage.
func (r *Rules) Check(req *http.Request) error {
	if err := r.checkHost(req); err != nil {
		return err
	}
	if req.Header.Get("Upgrade") != "" { // browsers let any page open a WebSocket anywhere
		return r.CheckOwnPage(req)
	}
	return asOtherSite(r.origins.Check(req))
}

// CheckOwnPage refuses requests of other sites' pages, whatever their method.
func (r *Rules) CheckOwnPage(req *http.Request) error {
	asPost := *req // origins.Check allows every GET
	asPost.Method = http.MethodPost
	return asOtherSite(r.origins.Check(&asPost))
}

// CheckSubresource refuses requests that other sites' pages make without their user's doing, such as for images. It
// allows that a user follows a link of such a page.
func (r *Rules) CheckSubresource(req *http.Request) error {
	if FromOtherSite(req) && (req.Header.Get("Sec-Fetch-Mode") != "navigate" ||
		req.Header.Get("Sec-Fetch-Dest") != "document") {
		return ErrOtherSite
	}
	return nil
}

// FromOtherSite says whether the browser says that a page of another site made the request. Over plain HTTP browsers do
// not say so, except on localhost.
func FromOtherSite(req *http.Request) bool {
	site := req.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// ByHTTPS says whether the browser reached the server, or a proxy before it, by HTTPS.
func ByHTTPS(req *http.Request) bool {
	return req.TLS != nil || req.Header.Get("X-Forwarded-Proto") == "https"
}

// asOtherSite makes an error an ErrOtherSite; nil stays nil.
func asOtherSite(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOtherSite, err)
	}
	return nil
}

// checkHost refuses requests to host names that are not the server's, against DNS rebinding: if a site has its name
// resolve to this server's address, a browser takes the server for that site, whose pages can read what is here.
// Addresses, and names that are known only within a cluster or machine, cannot be used for that.
//
// The server does not know the name of its Ingress unless it is configured. Without configured names, it refuses a name
// only if callers need no credentials and the request comes from this machine, which is how `kubectl port-forward` and
// a server on a laptop are reached.
func (r *Rules) checkHost(req *http.Request) error {
	host := strings.ToLower(req.Host)
	if host == "" { // the client is no browser, but an old one of HTTP/1.0
		return nil
	}
	name := strings.TrimSuffix(strings.Trim(withoutPort(host), "[]"), ".")
	if isInternalName(name) || r.hosts[host] || r.hosts[name] {
		return nil
	}
	if len(r.hosts) == 0 && (r.guarded || !fromThisMachine(req)) {
		return nil
	}
	return fmt.Errorf("%w: %.200q. If it is one of the server's, start it with --allowed-hosts=%.200s", ErrHost,
		req.Host, withoutPort(host))
}

// withoutPort returns a host without its port, if it has one.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// isInternalName says whether a host is an IP address, or a name that the DNS of the internet cannot resolve.
func isInternalName(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
		return true
	}
	zones := []string{".localhost", ".svc", ".cluster.local", ".internal"}
	return slices.ContainsFunc(zones, func(zone string) bool { return strings.HasSuffix(name, zone) })
}

// fromThisMachine says whether a request was sent from 127.0.0.1 or ::1. The proxy of a service mesh, which passes on
// requests of other machines, uses other loopback addresses.
func fromThisMachine(req *http.Request) bool {
	addr, err := netip.ParseAddrPort(req.RemoteAddr)
	return err == nil && (addr.Addr().Unmap() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) ||
		addr.Addr() == netip.IPv6Loopback())
}
