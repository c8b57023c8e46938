package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

const liveLab = "/namespaces/default/clusters/lab/sessions/live/"

// live is a server with a running cluster whose dashboard is handler, and who may use it.
func live(t *testing.T, auth access.Mode, handler http.HandlerFunc) *fixture {
	t.Helper()
	api := kubernetes(t, runningCluster("default", "lab")...)
	return start(t, func(o *Options, _ *gatedStore) {
		withRunningClusters(t, o, true, api, handler)
		a := must.Get(access.New(access.Config{Auth: auth}, api, silent.Logger()))(t)
		o.Access = a
	})
}

// A page of another site may change nothing, here or at a running cluster, whether or not it has its visitor's cookies.
func TestOtherSitesChangeNothing(t *testing.T) {
	for _, auth := range []access.Mode{access.Off, access.Kubernetes} {
		var reached atomic.Int64
		f := live(t, auth, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
		who := []string{"Authorization: Bearer ann", "Content-Type: text/plain"}
		for _, from := range [][]string{
			{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"},
			{"Sec-Fetch-Site: same-site", "Origin: https://other.example"},
			{"Origin: http://evil.example"}, // a browser says no more where there is no HTTPS
			{"Origin: null"},
		} {
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
				for _, path := range []string{liveLab + "api/jobs/", lab + "latest/api/jobs/", "/login", "/logout"} {
					got := f.ask(t, method, path, append(from, who...)...)
					says.True(t, got.status == http.StatusForbidden && len(got.header.Values("Set-Cookie")) == 0,
						"%s: %s %s from %q: %d %.200s", auth, method, path, from, got.status, got.body)
				}
			}
		}
		n := reached.Load()
		says.True(t, n <= 0, "%s: %d requests of other sites reached the running cluster", auth, n)
		// What is no page of another site's does.
		for _, from := range []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "Origin: " + f.URL,
			"User-Agent: ray"} {
			before := reached.Load()
			if got := f.ask(t, http.MethodPost, liveLab+"api/jobs/",
				append(who, from)...); got.status != http.StatusOK || reached.Load() != before+1 {
				t.Errorf("%s: from %s: %d %.200s", auth, from, got.status, got.body)
			}
		}
	}
}

// Ray refuses what browsers send itself, and must be able to see that one did.
func TestRunningClustersSeeWhereRequestsComeFrom(t *testing.T) {
	var seen http.Header
	f := live(t, access.Off, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() })
	sent := []string{
		"Origin: " + f.URL, "Referer: " + f.URL + liveLab, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors",
		"Sec-Fetch-Dest: empty",
		"User-Agent: Mozilla/5.0",
	}
	f.ask(t, http.MethodPost, liveLab+"api/jobs/", sent...)
	for _, h := range sent {
		name, value, _ := strings.Cut(h, ": ")
		says.True(t, seen.Get(name) == value, "%s is %q, want %q", name, seen.Get(name), value)
	}
}

// A WebSocket is no fetch: browsers let any page open one anywhere, and send cookies with it.
func TestOtherSitesOpenNoWebSockets(t *testing.T) {
	f := live(t, access.Off, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	for _, path := range []string{liveLab + "api/jobs/a/logs/tail", lab + "latest/api/jobs/a/logs/tail"} {
		says.Equal(t, handshake(t, f, path, "Origin: http://evil.example"), http.StatusForbidden,
			"%s from another site", path)
		says.Equal(t, handshake(t, f, path, "Sec-Fetch-Site: cross-site"), http.StatusForbidden,
			"%s from another site", path)
	}
	for _, own := range []string{"Origin: " + f.URL, "User-Agent: ray"} {
		says.Equal(t, handshake(t, f, liveLab+"api/jobs/a/logs/tail", own), http.StatusSwitchingProtocols, own)
	}
}

// handshake asks for a WebSocket and gives the status.
func handshake(t *testing.T, f *fixture, path, header string) int {
	t.Helper()
	conn := must.Get(net.Dial("tcp", f.Listener.Addr().String()))(t)
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn,
		"GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\n%s\r\n\r\n", path, f.Listener.Addr(), header); err != nil {
		t.Fatal(err)
	}
	resp := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	return resp.StatusCode
}

// What a running cluster's head sends is its owner's: nothing of it acts on the server's own origin, whatever it tries.
func TestRunningClustersActNowhere(t *testing.T) {
	f := live(t, access.Off, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Service-Worker-Allowed": "/", "Clear-Site-Data": `"*"`,
			"Cache-Control": "public, max-age=31536000, immutable", "Set-Cookie": "session_name=x",
			"Content-Security-Policy": "default-src *", "Access-Control-Allow-Origin": "*",
			"Refresh": "0; url=https://evil.example/", "Link": "</x.js>; rel=preload",
			"X-Anything": "new", "Content-Type": "text/javascript", "Content-Disposition": "attachment",
			"Trailer": "Clear-Site-Data",
		} {
			w.Header().Set(name, value)
		}
		switch r.URL.Path {
		case "/api/early":
			w.WriteHeader(http.StatusEarlyHints)
		case "/api/away":
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(http.StatusFound)
		}
		_, _ = io.WriteString(w, "alert(1)")
		w.Header().Set("Clear-Site-Data", `"*"`)
		w.Header().Set(http.TrailerPrefix+"Set-Cookie", "a=b")
	})
	for _, path := range []string{"api/jobs/x", "api/early", "static/js/other.js"} {
		got := f.ask(t, http.MethodGet, liveLab+path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
			"Cache-Control":           "no-store", "X-Content-Type-Options": "nosniff",
			"X-Frame-Options": "SAMEORIGIN", "Content-Disposition": "attachment", "X-Accel-Buffering": "no",
			"Content-Type": "application/octet-stream",
		} {
			values := got.header.Values(name)
			says.True(t, len(values) == 1 && values[0] == want, "%s: %s is %q, want %q", path, name, values, want)
		}
		for _, name := range []string{"Service-Worker-Allowed", "Clear-Site-Data", "Set-Cookie",
			"Access-Control-Allow-Origin", "Refresh", "Link", "X-Anything", "Trailer"} {
			if values := got.header.Values(name); len(values) > 0 {
				t.Errorf("%s: %s came through: %q", path, name, values)
			}
		}
	}
	if got := f.ask(t, http.MethodGet, liveLab+"api/away"); got.status != http.StatusBadGateway ||
		got.header.Get("Location") != "" || !strings.Contains(got.body, "another server") {
		t.Errorf("a redirect: %d to %q: %s", got.status, got.header.Get("Location"), got.body)
	}
}

// An index.html of the running cluster's own would be a page here.
func TestRunningClustersHaveNoPages(t *testing.T) {
	asked := false
	api := kubernetes(t, runningCluster("default", "lab")...)
	f := start(t, func(o *Options, _ *gatedStore) {
		o.DashboardDir = t.TempDir()
		withRunningClusters(t, o, false, api,
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	})
	got := f.ask(t, http.MethodGet, liveLab, asBrowser)
	says.True(t, got.status == http.StatusNotFound && !asked && strings.Contains(got.body, "make dashboard"),
		"%d, asked %v: %s", got.status, asked, got.body)
}

func TestRedirectsStayHere(t *testing.T) {
	f := start(t, nil)
	for _, session := range []string{"https:evil.example", "javascript:alert(1)", "%2f%2fevil.example", "..",
		"%5cevil.example", "a:b?x=1"} {
		path := "/namespaces/a/clusters/b/sessions/" + session
		got := f.ask(t, http.MethodGet, path)
		location := got.header.Get("Location")
		if location == "" {
			continue
		}
		base, err := url.Parse("http://history.example" + path)
		must.OK(t, err)
		to, err := base.Parse(location)
		says.True(t, err == nil && to.Host == "history.example" && to.Scheme == "http" &&
			!strings.HasPrefix(to.Path, "//"), "%s leads to %s (%v)", path, location, to)
	}
}

// With people's names asked for, nothing that one of them saw may be kept for the next.
func TestNothingIsKeptWhereIdentityMatters(t *testing.T) {
	f := live(t, access.Kubernetes, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
	f.waitDescribed(t)
	for _, path := range []string{lab + name + "/api/jobs/a", lab + old + "/api/jobs/a", lab + name + "/",
		liveLab + "api/x", "/clusters", "/homepage", lab + "nope/api/jobs/a", "/nowhere"} {
		if got := f.ask(t, http.MethodGet, path, "Authorization: Bearer ann"); got.header.Get(
			"Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control is %q (%d)", path, got.header.Get("Cache-Control"), got.status)
		}
	}
}

// The store's own words may hold signatures and names: they are for the log.
func TestStoreErrorsAreForTheLog(t *testing.T) {
	f := start(t, func(_ *Options, store *gatedStore) {
		store.ListFault = func(string) error { return errors.New("GET https://acc.blob.example/c?sig=SECRET: refused") }
	})
	for _, path := range []string{"/readyz", "/clusters", "/homepage", "/", "/enter_cluster/default/lab/" + name,
		lab + "latest/api/jobs/a", lab + "latest/session_status", lab + "latest/"} {
		for _, as := range []string{asBrowser, asProgram} {
			f.ask(t, http.MethodGet, path, as).lacks(t, "SECRET", "acc.blob")
		}
	}
	says.All(t, f.log.String(), "refused")
}

// A name that leads to this machine today may be another site's: its pages would read everything here as their own.
func TestHosts(t *testing.T) {
	for _, tc := range []struct {
		allowed []string
		auth    access.Mode
		yes, no []string
	}{
		{
			yes: []string{"127.0.0.1:8080", "[::1]", "localhost:30080", "LOCALHOST", "a.localhost", "historyserver",
				"historyserver.default.svc", "historyserver.default.svc.cluster.local:80", "10.1.2.3"},
			no: []string{"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.nip.example",
				"evil.example.", "svc.example"},
		},
		{
			allowed: []string{"history.example.com", "h.example:8443"}, auth: access.Kubernetes,
			yes: []string{"history.example.com", "HISTORY.example.com:443", "h.example:8443", "127.0.0.1"},
			no:  []string{"evil.example", "h.example", "x.history.example.com"},
		},
		{auth: access.Kubernetes, yes: []string{"history.example.com"}}, // its pages have nobody's cookie
	} {
		f := start(t, func(o *Options, _ *gatedStore) {
			a := must.Get(access.New(access.Config{Auth: tc.auth}, kubernetes(t), logrus.New()))(t)
			o.Access, o.Browser.AllowedHosts = a, tc.allowed
		})
		for _, group := range []struct {
			hosts  []string
			status int
		}{{tc.yes, http.StatusOK}, {tc.no, http.StatusForbidden}} {
			for _, host := range group.hosts {
				if got := f.askHost(t, host); got.status != group.status || group.status == http.StatusForbidden &&
					!strings.Contains(got.body, "--allowed-hosts") {
					t.Errorf("allowed %v: %s: %d %s", tc.allowed, host, got.status, got.body)
				}
			}
		}
	}
}

// askHost asks for the health check, which needs no caller, by a name.
func (f *fixture) askHost(t *testing.T, host string) answer {
	t.Helper()
	return f.ask(t, http.MethodGet, "/healthz", "Host: "+host)
}

// Ray's clients bring a job's working directory, which has more than other requests.
func TestUploadsReachRunningClusters(t *testing.T) {
	var came int64
	f := live(t, access.Off, func(_ http.ResponseWriter, r *http.Request) { came, _ = io.Copy(io.Discard, r.Body) })
	for _, tc := range []struct{ size, status int }{{3 << 20, http.StatusOK},
		{5 << 20, http.StatusRequestEntityTooLarge}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.URL+liveLab+"api/packages/gcs/x.zip",
			strings.NewReader(strings.Repeat("x", tc.size)))
		must.OK(t, err)
		// else a client that is refused may still send when the connection ends
		req.Header.Set("Expect", "100-continue")
		resp, err := (&http.Transport{ExpectContinueTimeout: time.Minute}).RoundTrip(req)
		must.OK(t, err)
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		says.True(t, resp.StatusCode == tc.status && (tc.status != http.StatusOK || came == int64(tc.size)) &&
			(tc.status == http.StatusOK || strings.Contains(string(body), "--live-writes-max-body")),
			"%d bytes: %d, %d came: %s", tc.size, resp.StatusCode, came, body)
	}
}

// A list that Kubernetes holds up is not the store's fault.
func TestTheListNamesKubernetes(t *testing.T) {
	api := interceptor.NewClient(kubernetes(t), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, ok := obj.(*authorizationv1.SubjectAccessReview); ok {
				return errors.New("too many requests")
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	f := start(t, func(o *Options, _ *gatedStore) {
		a := must.Get(access.New(access.Config{Auth: access.Kubernetes}, api, silent.Logger()))(t)
		o.Access = a
	})
	for _, path := range []string{"/", "/homepage", "/clusters"} {
		got := f.ask(t, http.MethodGet, path, asBrowser, "Authorization: Bearer ann")
		got.wants(t, http.StatusServiceUnavailable, "Kubernetes does not answer").lacks(t, "credentials are right")
	}
}

// Where requests are not passed on, a running cluster of which nothing is stored says why there is nothing.
func TestARunningClusterWithNothingStored(t *testing.T) {
	api := kubernetes(t, runningCluster("default", "new")...)
	f := start(t, func(o *Options, _ *gatedStore) { withStoredClusters(t, o, api) })
	f.waitDescribed(t)
	f.ask(t, http.MethodGet, "/clusters").has(t, `"name":"new"`).lacks(t, "livePath")
	for path, want := range map[string]string{"new": "--live=proxy", "none": "mistyped"} {
		f.ask(t, http.MethodGet, "/namespaces/default/clusters/"+path+"/sessions/live/api/jobs/a").wants(t,
			http.StatusGone, want)
	}
}

// TestRunningClustersMayBeMissing: programs are told when Kubernetes does not say which clusters run.
func TestRunningClustersMayBeMissing(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) {
		o.Live = kube.New(kube.Config{Live: kube.Storage}, kubernetes(t), nil, silent.Logger()) // it is never asked
	})
	f.waitDescribed(t)
	if got := f.ask(t, http.MethodGet, "/clusters"); got.status != http.StatusOK ||
		!strings.Contains(got.header.Get("Warning"), "running clusters may be missing") {
		t.Errorf("%d %v", got.status, got.header)
	}
}

// An upload's time is not that of other requests: a deadline that is set reaches the connection through all that wraps
// an answer.
func TestDeadlinesCanBeMoved(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) {
		o.Routes = append(o.Routes, dashboard.Route{Method: http.MethodGet, Path: "/api/deadline",
			Serve: func(w http.ResponseWriter, _ *dashboard.Request) {
				_, _ = fmt.Fprint(w, http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour)))
			}})
	})
	got := f.ask(t, http.MethodGet, lab+"latest/api/deadline", "Accept-Encoding: zstd, gzip")
	says.True(t, got.body == "<nil>", "%d %s", got.status, got.body)
}
