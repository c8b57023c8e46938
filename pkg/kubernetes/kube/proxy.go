package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// newTransport returns the transport of requests to dashboards, directly or through the API server. The time until an
// answer begins is limited, but not the time of a whole answer: a log may be followed.
func newTransport(rc *rest.Config, throughAPIServer bool) (http.RoundTripper, error) {
	direct := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		// A head may be hostile, and many requests may wait for its headers. Ray's have some hundred bytes; Go's own
		// limit is 10 MiB.
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        time.Minute,
		MaxIdleConnsPerHost:    16,
		DisableCompression:     true, // answers are passed on as they are
	}
	if !throughAPIServer {
		return direct, nil
	}
	tls, err := rest.TLSConfigFor(rc)
	if err != nil {
		return nil, err
	}
	direct.TLSClientConfig = tls
	if direct.Proxy = rc.Proxy; direct.Proxy == nil { // no proxy-url in the kubeconfig
		direct.Proxy = http.ProxyFromEnvironment
	}
	// With TLS settings of its own a transport speaks HTTP/1.1 only, as it must: dashboards upgrade connections.
	return rest.HTTPWrappersForConfig(rc, direct)
}

// apiServer returns the address of the API server if dashboards are requested through it, else nil.
func apiServer(rc *rest.Config, throughAPIServer bool) *url.URL {
	if !throughAPIServer {
		return nil
	}
	u, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return nil // the client could not have been made
	}
	if u.Path == "" {
		u.Path = "/" // else what is joined to it is relative
	}
	return u
}

// WriteError is a request that would change a running cluster.
type WriteError struct{ Method string }

func (e *WriteError) Error() string {
	return fmt.Sprintf("%s requests would change the running cluster and are not passed on", e.Method)
}

// Forward passes a request on to the dashboard of a running cluster, and its answer back as it comes; connections may
// be upgraded. path is the path at the dashboard, escaped, and begins with a slash. fail answers what cannot be passed
// on; it is called before anything was written, with ErrPath, a *WriteError, an *http.MaxBytesError, why the cluster
// cannot be asked, or the trouble on the way. What a request that changes something brings is passed on as it comes,
// however r's server limits the time to read it.
//
// The caller's credentials and cookies stay here, and of the dashboard's answer only what browser.ClusterAnswer leaves
// comes back: the dashboard belongs to whoever runs the cluster. Headers that are set on w stay beside those.
func (c *Clusters) Forward(w http.ResponseWriter, r *http.Request, namespace, name, path string, fail func(error)) {
	s, cluster := c.find(namespace, name)
	if cluster == nil {
		fail(fmt.Errorf("%w: %s/%s", errNoCluster, namespace, name))
		return
	}
	if err := c.whyUnreachable(cluster); err != nil {
		fail(err)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
		if !c.config.AllowWrites {
			fail(&WriteError{Method: r.Method})
			return
		}
		var err error
		if r, err = c.limitUpload(w, r); err != nil {
			fail(err)
			return
		}
	} else {
		r = withoutBody(r)
	}
	h, err := s.head(r.Context(), cluster)
	if err != nil {
		fail(err)
		return
	}
	target, err := joinPath(h.url, path)
	if err != nil {
		fail(err)
		return
	}
	proxy := httputil.ReverseProxy{
		Transport:     inert{s.transport},
		FlushInterval: -1, // logs are followed line by line
		Rewrite:       func(p *httputil.ProxyRequest) { rewrite(p, h, target) },
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			s.heads.Delete(cluster.UID) // the next request looks the head up again
			if errors.Is(err, context.Canceled) {
				panic(http.ErrAbortHandler) // the client has gone
			}
			fail(fmt.Errorf("ask the dashboard of RayCluster %s/%s: %w", namespace, name, err))
		},
	}
	proxy.ServeHTTP(w, r)
}

// limitUpload is a request whose body has the limits of what may be brought to a running cluster.
func (c *Clusters) limitUpload(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	limit := int64(c.config.MaxUpload)
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	// Servers that cannot move the deadline keep to their own.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.config.UploadTimeout))
	limited := *r
	limited.Body = http.MaxBytesReader(w, r.Body, limit)
	return &limited, nil
}

// withoutBody is a request that brings nothing: Ray reads no body of requests that only read, and those of upload are
// the only limits.
func withoutBody(r *http.Request) *http.Request {
	without := *r
	without.Body, without.ContentLength, without.TransferEncoding = http.NoBody, 0, nil
	return &without
}

// inert takes out of a dashboard's answers what could act on those who read them.
type inert struct{ http.RoundTripper }

// errRedirect is an answer that would send the client elsewhere.
var errRedirect = errors.New("it redirects to another server, which is not followed")

// RoundTrip implements http.RoundTripper. It removes everything from the answer's headers that could act on the
// caller's browser for another site. A redirect is an error: it might lead anywhere.
func (t inert) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r.WithContext(onlyEnds{r.Context()}))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.StatusCode != http.StatusNotModified {
		_ = resp.Body.Close()
		return nil, errRedirect
	}
	browser.FilterClusterHeaders(resp.Header, resp.StatusCode)
	// A copy: trailers, which come with the body's end, are written into the original.
	answer := *resp
	answer.Trailer = nil
	return &answer, nil
}

// onlyEnds is a context without values. What would be passed on of informational answers (103) is asked for by one, and
// passing it on takes away the headers that were set for the answer.
type onlyEnds struct{ context.Context }

func (onlyEnds) Value(any) any { return nil }

// passed are the request headers that are forwarded to a dashboard. No others are: the history server's client may have
// sent its credentials in one, a proxy in front of it a user's identity, and for the API server in between some
// (Impersonate-User) are commands.
var passed = map[string]bool{
	// Ray refuses changes by browsers: it recognises browsers by these headers.
	"User-Agent": true, "Origin": true, "Referer": true, "Sec-Fetch-Dest": true, "Sec-Fetch-Mode": true,
	"Sec-Fetch-Site": true, "Sec-Fetch-User": true,
	"Access-Control-Request-Headers": true, "Access-Control-Request-Method": true,
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Cache-Control": true, "Content-Length": true,
	"Content-Type": true,
	"If-Match":     true, "If-Modified-Since": true, "If-None-Match": true, "If-Range": true,
	"If-Unmodified-Since": true,
	"Range":               true,
	"Connection":          true, "Upgrade": true, "Sec-Websocket-Extensions": true, "Sec-Websocket-Key": true,
	"Sec-Websocket-Protocol": true, "Sec-Websocket-Version": true,
}

// rewrite makes a caller's request one to a head, at the address target. Only the headers in passed reach the head: the
// caller's token and cookies are for this server.
func rewrite(p *httputil.ProxyRequest, h head, target *url.URL) {
	out := p.Out
	for name := range out.Header {
		if !passed[name] {
			out.Header.Del(name)
		}
	}
	if !strings.EqualFold(out.Header.Get("Upgrade"), "websocket") {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	if h.token != "" {
		// Not Authorization: that is the API server's where it is in between. Ray takes both
		// (ray/_private/authentication).
		out.Header.Set("X-Ray-Authorization", "Bearer "+h.token)
	}
	target.RawQuery = out.URL.RawQuery
	out.URL = target
	out.Host = ""
}

// ErrPath is a path that could lead out of a dashboard.
var ErrPath = errors.New("the path contains dots or escapes that are not forwarded")

// joinPath returns base with an escaped path behind its own. A path with "." or ".." in it is ErrPath: the API server,
// or whatever is in between, might take it for a way out.
func joinPath(base *url.URL, path string) (*url.URL, error) {
	unescaped, err := url.PathUnescape(path)
	if err != nil || strings.Contains(unescaped, "\\") {
		return nil, ErrPath
	}
	for segment := range strings.SplitSeq(unescaped, "/") {
		if segment == "." || segment == ".." {
			return nil, ErrPath
		}
	}
	out := *base
	out.Path = strings.TrimSuffix(base.Path, "/") + "/" + strings.TrimPrefix(unescaped, "/")
	out.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + "/" + strings.TrimPrefix(path, "/")
	return &out, nil
}
