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
)

// newTransport carries requests to dashboards. Answers may take for ever (a log that is followed), their beginning may not.
func newTransport(rc *rest.Config, throughAPIServer bool) (http.RoundTripper, error) {
	direct := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   16,
	}
	if !throughAPIServer {
		return direct, nil
	}
	tls, err := rest.TLSConfigFor(rc)
	if err != nil {
		return nil, err
	}
	direct.TLSClientConfig = tls
	// HTTP/1.1 only: dashboards upgrade connections.
	return rest.HTTPWrappersForConfig(rc, direct)
}

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

// Forward passes a request on to the dashboard of a running cluster, and its answer back as it comes; connections may be upgraded. path is
// the path at the dashboard, escaped, and begins with a slash. fail answers what cannot be passed on; it is called before anything was
// written, with ErrNoCluster, ErrPath, a *WriteError or the trouble on the way.
//
// The caller's credentials and cookies stay here, and the dashboard's cookies do not come back: the dashboard belongs to whoever runs the
// cluster. Headers that are set on w stay beside the dashboard's.
func (c *Clusters) Forward(w http.ResponseWriter, r *http.Request, namespace, name, path string, fail func(error)) {
	s, cluster := c.find(namespace, name)
	if cluster == nil {
		fail(fmt.Errorf("%w: %s/%s", ErrNoCluster, namespace, name))
		return
	}
	if !c.writes && r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
		fail(&WriteError{Method: r.Method})
		return
	}
	h, err := s.head(r.Context(), cluster)
	if err != nil {
		fail(err)
		return
	}
	target, err := below(h.url, path)
	if err != nil {
		fail(err)
		return
	}
	proxy := httputil.ReverseProxy{
		Transport:     s.transport,
		FlushInterval: -1, // logs are followed line by line
		Rewrite:       func(p *httputil.ProxyRequest) { rewrite(p, h, target) },
		ModifyResponse: func(resp *http.Response) error {
			for _, name := range kept {
				resp.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			s.forget(cluster)
			if errors.Is(err, context.Canceled) {
				panic(http.ErrAbortHandler) // the client has gone
			}
			fail(fmt.Errorf("ask the dashboard of RayCluster %s/%s: %w", namespace, name, err))
		},
	}
	proxy.ServeHTTP(w, r)
}

// kept are headers of answers that the history server sets itself, or not at all.
var kept = []string{"Set-Cookie", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy", "Strict-Transport-Security"}

// passed are the headers of requests that go on to a dashboard. No others do: the history server's client may have sent its credentials, a
// proxy in front of it a user's identity, and to the API server in between some (Impersonate-User) are commands.
var passed = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Cache-Control": true, "Content-Length": true, "Content-Type": true,
	"If-Match": true, "If-Modified-Since": true, "If-None-Match": true, "If-Range": true, "If-Unmodified-Since": true, "Range": true,
	"User-Agent": true, // Ray refuses some requests of browsers
	"Connection": true, "Upgrade": true, "Sec-Websocket-Extensions": true, "Sec-Websocket-Key": true, "Sec-Websocket-Protocol": true, "Sec-Websocket-Version": true,
}

func rewrite(p *httputil.ProxyRequest, h head, target *url.URL) {
	out := p.Out
	for name := range out.Header {
		if !passed[name] {
			out.Header.Del(name)
		}
	}
	if h.token != "" {
		// Not Authorization: that is the API server's where it is in between. Ray takes both (ray/_private/authentication).
		out.Header.Set("X-Ray-Authorization", "Bearer "+h.token)
	}
	target.RawQuery = out.URL.RawQuery
	out.URL = target
	out.Host = ""
}

// ErrPath is a path that could lead out of a dashboard.
var ErrPath = errors.New("the path holds dots or escapes that are not passed on")

// below puts an escaped path below base. A path with "." or ".." in it is refused: the API server, or whatever is in between, might take
// it for a way out.
func below(base *url.URL, path string) (*url.URL, error) {
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
