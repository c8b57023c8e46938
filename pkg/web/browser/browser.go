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

// Config is what the server cannot know about itself.
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

// Rules are the configuration in force.
type Rules struct {
	hosts map[string]bool
	// guarded is true where callers must sign in: browsers send no cookie to a name that is not the server's.
	guarded bool
	origins *http.CrossOriginProtection
}

// New checks the configuration. guarded says whether callers must sign in.
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

// Check refuses requests to names that are not the server's, and requests of other sites' pages that change something
// or open a connection. A GET may be a link from anywhere: a handler that changes something on GET asks OwnPage.
func (r *Rules) Check(req *http.Request) error {
	if err := r.checkHost(req); err != nil {
		return err
	}
	if req.Header.Get("Upgrade") != "" { // browsers let any page open a WebSocket anywhere
		return r.OwnPage(req)
	}
	return otherSite(r.origins.Check(req))
}

// OwnPage refuses requests of other sites' pages, whatever their method.
func (r *Rules) OwnPage(req *http.Request) error {
	changes := *req
	changes.Method = http.MethodPost
	return otherSite(r.origins.Check(&changes))
}

// Subresource refuses requests that other sites' pages make by themselves. Following a link is allowed.
func (r *Rules) Subresource(req *http.Request) error {
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

func otherSite(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOtherSite, err)
	}
	return nil
}

// checkHost protects against DNS rebinding: a site whose name leads to this server's address could read what is here,
// because to a browser its pages and the server's are the same site. Addresses, and names known only within a cluster
// or machine, cannot be taken over that way.
//
// The names of an Ingress are not known unless they are configured. Without them, an unknown name is refused only to
// callers that need no credentials and connect from this machine: that is what `kubectl port-forward` and a server on a
// laptop look like.
func (r *Rules) checkHost(req *http.Request) error {
	host := strings.ToLower(req.Host)
	if host == "" { // HTTP/1.0: no browser
		return nil
	}
	name := strings.TrimSuffix(strings.Trim(withoutPort(host), "[]"), ".")
	if internal(name) || r.hosts[host] || r.hosts[name] {
		return nil
	}
	if len(r.hosts) == 0 && (r.guarded || !fromThisMachine(req)) {
		return nil
	}
	return fmt.Errorf("%w: %.200q. If it is one of the server's, start it with --allowed-hosts=%.200s", ErrHost,
		req.Host, withoutPort(host))
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// internal says whether a name is an address, or a name that the DNS of the internet does not know.
func internal(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
		return true
	}
	zones := []string{".localhost", ".svc", ".cluster.local", ".internal"}
	return slices.ContainsFunc(zones, func(zone string) bool { return strings.HasSuffix(name, zone) })
}

// fromThisMachine is false for the proxy of a service mesh: that uses other loopback addresses.
func fromThisMachine(req *http.Request) bool {
	addr, err := netip.ParseAddrPort(req.RemoteAddr)
	return err == nil && (addr.Addr().Unmap() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) ||
		addr.Addr() == netip.IPv6Loopback())
}
