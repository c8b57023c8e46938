package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/openid"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
	"github.com/rayhistory/historyserver/pkg/layout"
	storedmetrics "github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/panels"
)

// kubernetes is an API server that holds objects, knows the tokens ann and bob, and lets ann get RayClusters in
// namespace default and bob in namespace secret.
func kubernetes(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kube.AddToScheme, access.AddToScheme} {
		must.OK(t, add(scheme))
	}
	namespaces := map[string]string{"ann": "default", "bob": "secret", "carol": "none"}
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object,
				opts ...client.CreateOption) error {
				switch review := obj.(type) {
				case *authenticationv1.TokenReview:
					_, known := namespaces[review.Spec.Token]
					review.Status = authenticationv1.TokenReviewStatus{Authenticated: known,
						User: authenticationv1.UserInfo{Username: review.Spec.Token}}
					return nil
				case *authorizationv1.SubjectAccessReview:
					review.Status.Allowed = review.Spec.ResourceAttributes.Namespace == namespaces[review.Spec.User]
					return nil
				}
				return c.Create(ctx, obj, opts...)
			},
		})
}

// runningCluster is a RayCluster and its head's service.
func runningCluster(namespace, name string) []client.Object {
	c := &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		UID: types.UID("uid-" + name)}}
	c.CreationTimestamp = metav1.NewTime(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))
	c.Spec.RayVersion = "2.55.1"
	return []client.Object{c, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-head-svc",
			OwnerReferences: []metav1.OwnerReference{{UID: c.UID}}},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1",
			Selector: map[string]string{"ray.io/cluster": name, "ray.io/node-type": "head"},
			Ports:    []corev1.ServicePort{{Name: "dashboard", Port: 8265}}},
	}}
}

// withRunningClusters has the server know clusters whose dashboards all are handler.
func withRunningClusters(t *testing.T, o *Options, writes bool, api client.WithWatch, handler http.Handler) {
	t.Helper()
	head := httptest.NewServer(handler)
	t.Cleanup(head.Close)
	transport := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	front := must.Get(url.Parse(head.URL))(t)
	transport.Proxy = func(*http.Request) (*url.URL, error) { return front, nil } // every address leads to the stub
	follow(t, o, kube.New(kube.Config{Live: kube.Proxy, AllowWrites: writes, MaxUpload: 4 << 20}, api, transport,
		silent.Logger()))
}

// withStoredClusters has the server know running clusters, of which it shows what is stored.
func withStoredClusters(t *testing.T, o *Options, api client.WithWatch) {
	t.Helper()
	follow(t, o, kube.New(kube.Config{Live: kube.Storage}, api, nil, silent.Logger()))
}

// follow returns when it is known what runs, so that requests do not wait for it.
func follow(t *testing.T, o *Options, clusters *kube.Clusters) {
	o.Live = clusters
	o.Live.Start()
	t.Cleanup(o.Live.Close)
	o.Live.List(t.Context())
}

// guarded is a server with a stored and a running cluster in each of two namespaces, default and secret, for the users
// ann and bob.
func guarded(t *testing.T) (*fixture, *Server) {
	t.Helper()
	return guardedBy(t, access.Config{Auth: access.Kubernetes, CacheFor: time.Minute})
}

// guardedBy is guarded with other ways to know callers.
func guardedBy(t *testing.T, config access.Config) (*fixture, *Server) {
	t.Helper()
	api := kubernetes(t, append(runningCluster("secret", "classified"), runningCluster("default", "shown")...)...)
	var server *Server
	f := start(t, func(o *Options, store *gatedStore) {
		ref := layout.Session{Namespace: "secret", Cluster: "classified", Name: name}
		put(t, store, layout.MarkerKey(root, ref), "")
		for n := range 30 { // more than are looked at for a suggestion
			put(t, store, layout.MarkerKey(root, layout.Session{Namespace: fmt.Sprintf("a-%d", n), Cluster: "lab",
				Name: name}), "")
		}
		put(t, store, layout.LogKey(root, ref, rayid.Node{1}, "classified.log"), "classified content\n")
		put(t, store, layout.MetadataKey(root, ref, layout.End), `{"end":"2026-11-20T23:25:00Z"}`)
		put(t, store, layout.SnapshotKey(root, ref, "/api/jobs/"),
			`[{"submission_id":"raysubmit_classified","status":"FAILED"}]`)
		putOutcome(t, store, ref, "classified cause")
		withRunningClusters(t, o, true, api,
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "classified live") }))
		a := must.Get(access.New(config, api, silent.Logger()))(t)
		a.Start()
		t.Cleanup(a.Close)
		o.Access = a
		withPack(t, o, store, packs.Facts{
			Ref: ref, Seen: time.Now(), Start: began, End: began.Add(time.Hour), LastWrite: began.Add(time.Hour),
			Summary: packs.Summary{OwnerKind: catalog.RayCluster, OwnerName: "classified", Outcome: "failed"},
			Findings: []packs.Finding{{Kind: "task_failed", Severity: "error", Signature: "classified failure",
				Title: "classified failure", Count: 1}},
			Jobs:  []packs.Job{{Name: "classified job", Status: "FAILED"}},
			Hours: &packs.Hours{Amounts: packs.Amounts{Node: 1234, CPU: 1234}},
		})
		withNotes(o, store)
		must.Get(o.Notes.Change(t.Context(), ref, func(n *notes.Note) error {
			n.Pinned, n.Text = true, "classified note"
			return nil
		}))(t)
		o.Metrics = storedmetrics.NewDatabases(store, root, 1<<20, o.Registerer)
		o.Routes = append(o.Routes, dashboard.New(dashboard.Options{
			Log: silent.Logger(), MaxLimit: 10000,
			Services: dashboard.Services{Panels: panels.New(store, root, o.Metrics)},
		}).Routes()...)
		o.PromQL = promapi.New(promapi.Options{MaxSamples: 1000, Timeout: time.Minute, Concurrent: 2,
			Wait: time.Second})
	})
	server = f.Config.Handler.(*Server)
	f.waitDescribed(t)
	return f, server
}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

// openIDs has ann and bob sign in with a provider, what they see said by Kubernetes.
func openIDs(p *openid.Provider) access.Config {
	return access.Config{Auth: access.OIDC, CacheFor: time.Minute, OIDC: access.OIDCConfig{
		Issuer: p.URL, ClientID: openid.ClientID, ClientSecret: openid.ClientSecret,
		RedirectURL: "http://history.example/oidc/callback",
		Scopes:      []string{"openid"}, UsernameClaim: "email", GroupsClaim: "groups", SessionFor: time.Hour,
	}}
}

// signIn signs somebody in as a browser does, and gives the browser's cookies.
func signIn(t *testing.T, f *fixture, p *openid.Provider, user string) string {
	t.Helper()
	p.SignIn(map[string]any{"email": user})
	var started answer
	must.Happen(t, "that the provider is found", func() bool {
		started = f.ask(t, http.MethodGet, "/oidc/start")
		return started.status == http.StatusSeeOther
	})
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, started.header.Get("Location"), nil))(t)
	resp := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	_ = resp.Body.Close()
	secret, _, _ := strings.Cut(started.header.Get("Set-Cookie"), ";")
	back := f.ask(t, http.MethodGet, strings.TrimPrefix(resp.Header.Get("Location"), "http://history.example"),
		"Cookie: "+secret)
	session, _, _ := strings.Cut(back.header.Get("Set-Cookie"), ";")
	must.True(t, back.status == http.StatusSeeOther && strings.HasPrefix(session, "history_session="), "%d %v %s",
		back.status, back.header, back.body)
	return session
}

// Every route that the router has, so that none can be forgotten, as the wrong user and as nobody.
func TestNoRouteLeaks(t *testing.T) {
	t.Run("Kubernetes", func(t *testing.T) {
		f, server := guarded(t)
		noRouteLeaks(t, f, server, "Authorization: Bearer ann", "")
	})
	t.Run("OpenID Connect, programs", func(t *testing.T) {
		p := openid.Start(t)
		f, server := guardedBy(t, openIDs(p))
		signIn(t, f, p, "ann") // now the provider is known
		noRouteLeaks(t, f, server, "Authorization: Bearer "+p.Token(map[string]any{"email": "ann"}), "")
	})
	t.Run("OpenID Connect, browsers", func(t *testing.T) {
		p := openid.Start(t)
		f, server := guardedBy(t, openIDs(p))
		noRouteLeaks(t, f, server, "", signIn(t, f, p, "ann"))
	})
}

// noRouteLeaks asks for what is bob's as ann, who is known by a header or a cookie.
func noRouteLeaks(t *testing.T, f *fixture, server *Server, header, cookie string) {
	t.Helper()
	asAnn := func(headers ...string) []string {
		if header != "" {
			return append(headers, header)
		}
		for i, h := range headers {
			if strings.HasPrefix(h, "Cookie: ") {
				headers[i] = h + "; " + cookie
				return headers
			}
		}
		return append(headers, "Cookie: "+cookie)
	}
	if got := f.ask(t, http.MethodGet, "/clusters", asAnn(asProgram)...); got.status != http.StatusOK ||
		!strings.Contains(got.body, `"lab"`) {
		t.Fatalf("ann is not known: %d %s", got.status, got.body)
	}
	fill := func(template string) string {
		return pathParameter.ReplaceAllStringFunc(template, func(p string) string {
			p, _, _ = strings.Cut(strings.Trim(p, "{}"), ":")
			switch p {
			case paramNamespace:
				return "secret"
			case paramCluster:
				return "classified"
			case paramKind:
				return "raycluster"
			case paramAt:
				return "2026-11-20T23:20:00Z"
			}
			return "x"
		})
	}
	routes := server.Routes()
	must.True(t, len(routes) >= 200, "the router has %d routes only", len(routes))
	public := []string{"/healthz", "/livez", "/readyz", "/metrics", access.AboutPath}
	asked := 0
	for _, route := range routes {
		for _, session := range []string{name, "latest", "live"} {
			path := strings.ReplaceAll(fill(strings.ReplaceAll(route.Path, "{"+paramSession+"}", session)), "//", "/")
			page := "Referer: https://history.example/namespaces/secret/clusters/classified/sessions/" + session + "/"
			for _, by := range []struct{ who, choice string }{
				{"ann", cookies("secret", "classified", session)}, {"", cookies("secret", "classified", session)},
				{"ann", page}, {"", page},
			} {
				who, headers := by.who, []string{asProgram, by.choice}
				if who != "" {
					headers = asAnn(headers...)
				}
				asked++
				got := f.ask(t, route.Method, path, headers...)
				// Whoever may not see it learns no more than what the path itself says.
				body := strings.ReplaceAll(strings.ReplaceAll(got.body, path, ""), "namespace secret", "")
				says.None(t, body, "classified")
				switch about := strings.Contains(route.Path, paramNamespace); {
				case who == "" && !slices.Contains(public, path) && got.status != http.StatusUnauthorized:
					t.Errorf("%s %s as nobody: %d, want 401", route.Method, path, got.status)
				case who != "" && about && got.status != http.StatusForbidden:
					t.Errorf("%s %s as %s: %d %.200s, want 403", route.Method, path, who, got.status, got.body)
				}
			}
		}
	}
	// A parameter of comparisons names a session too.
	compared := 0
	for _, route := range routes {
		if !strings.HasSuffix(route.Path, "/compare") {
			continue
		}
		path := strings.ReplaceAll(fill(strings.ReplaceAll(route.Path, "{"+paramSession+"}", name)),
			"/namespaces/secret/clusters/classified/", "/namespaces/default/clusters/lab/")
		for _, with := range []string{"secret/classified/" + name, "secret/classified/latest",
			"secret/classified/live"} {
			asked, compared = asked+1, compared+1
			got := f.ask(t, route.Method, path+"?with="+with, asAnn(asProgram, cookies("default", "lab", name))...)
			got.wants(t, http.StatusForbidden).lacks(t, "classified")
		}
	}
	if compared < 36 { // with a page and JSON, by cookie, session and moment, for GET and HEAD
		t.Errorf("%d comparisons were tried", compared)
	}
	t.Logf("%d routes, %d requests", len(routes), asked)
}

func TestPeopleSeeTheirNamespaces(t *testing.T) {
	f, _ := guarded(t)
	ann, bob := "Authorization: Bearer ann", "Authorization: Bearer bob"
	for _, tc := range []struct {
		path, who string
		status    int
		holds     string
		lacks     string
	}{
		{"/clusters", ann, 200, `"lab"`, "classified"},
		{"/clusters", ann, 200, `"shown"`, "classified"},
		{"/clusters", bob, 200, `"classified"`, "shown"},
		{"/homepage", ann, 200, "lab", "classified"},
		{"/homepage", bob, 200, "classified", ">lab<"},
		{"/clusters", bob, 200, "classified cause", "shown"},
		{"/homepage", bob, 200, "classified cause", ">lab<"},
		{"/enter_cluster/secret/classified/latest", ann, 403, "rayclusters.ray.io in namespace secret",
			"result\":\"success"},
		{"/enter_cluster/secret/classified/live", ann, 403, "rayclusters.ray.io in namespace secret",
			"result\":\"success"},
		{"/enter_cluster/secret/classified/latest", bob, 200, "success", ""},
		{"/namespaces/secret/clusters/classified/sessions/latest/api/jobs/a", bob, 200, "secret/classified", ""},
		{"/namespaces/secret/clusters/classified/sessions/live/api/jobs/a", bob, 200, "classified live", ""},
		// Whether something is there is not told either.
		{"/namespaces/secret/clusters/none/sessions/latest/api/jobs/a", ann, 403, "", "no such session"},
		{"/namespaces/secret/clusters/none/sessions/latest/api/jobs/a", bob, 410, "", ""},
		{"/namespaces/secret/clusters/classified/sessions/latest/api/history/note", bob, 200, "classified note", ""},
		{"/namespaces/secret/clusters/classified/sessions/latest/note", ann, 403, "", "classified note"},
		{"/homepage", bob, 200, "classified note", ""},
		{"/homepage", ann, 200, "lab", "classified note"},
		{"/fleet?from=2026-11-01&to=2026-11-30", bob, 200, "classified job", ""},
		{"/fleet?from=2026-11-01&to=2026-11-30", ann, 200, "Fleet", "classified"},
		{"/api/history/fleet?from=2026-11-01&to=2026-11-30", bob, 200, "1234", `"shown"`},
		{"/api/history/fleet?from=2026-11-01&to=2026-11-30", ann, 200, `"sessions":3`, "1234"},
		{"/api/history/fleet?from=2026-11-01&to=2026-11-30", ann, 200, `"failed":0`, "classified"},
		{"/api/history/fleet?from=2026-11-01&to=2026-11-30&q=classified", ann, 200, `"sessions":0`, "1234"},
		{"/api/history/fleet?from=2026-11-01&to=2026-11-30&format=csv&table=jobs", bob, 200, "classified job", ""},
		{"/api/history/coverage", bob, 200, `"uncovered":1`, "shown"},
		{"/api/history/coverage", ann, 200, `"name":"shown"`, "classified"},
		{"/api/history/fleet?from=2026-11-01&to=2026-11-30&format=csv&table=jobs", ann, 200, "namespace,job",
			"classified"},
	} {
		got := f.ask(t, http.MethodGet, tc.path, asProgram, tc.who)
		says.True(t, got.status == tc.status && strings.Contains(got.body, tc.holds) &&
			(tc.lacks == "" || !strings.Contains(strings.ToLower(got.body), tc.lacks)),
			"%s, %s: %d %.300s; want %d with %q, without %q", tc.path, tc.who, got.status, got.body, tc.status,
			tc.holds, tc.lacks)
	}
	// What a running cluster's dashboard sends must not act here for the people who look at it.
	if got := f.ask(t, http.MethodGet, "/namespaces/secret/clusters/classified/sessions/live/page.html",
		bob); got.header.Get("Content-Security-Policy") != "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:" {
		t.Errorf("headers %v", got.header)
	}
}

func TestRunningClusters(t *testing.T) {
	watched := make(chan struct{})
	begun := sync.OnceFunc(func() { close(watched) })
	api := interceptor.NewClient(kubernetes(t, append(runningCluster("default", "lab"),
		runningCluster("default", "new")...)...), interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			opts ...client.ListOption) (watch.Interface, error) {
			changes, err := c.Watch(ctx, list, opts...)
			begun()
			return changes, err
		},
	})
	var asked []string
	f := start(t, func(o *Options, _ *gatedStore) {
		withRunningClusters(t, o, false, api, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method+" "+r.URL.RequestURI())
			fmt.Fprint(w, "live answer")
		}))
	})
	f.waitDescribed(t)
	live := "/namespaces/default/clusters/lab/sessions/live/"
	for _, tc := range []struct {
		method, path, cookies string
		status                int
		holds                 string
	}{
		{"GET", live + "api/jobs/a?x=1", "", 200, "live answer"},
		{"GET", live + "api/unknown%2Fthing", "", 200, "live answer"},
		{"GET", "/api/jobs/a", cookies("default", "lab", "live"), 200, "live answer"},
		{"GET", live, "", 200, "<html>dashboard 2.55.1"}, // the page is this server's own, for the cluster's version
		{"GET", live + "static/js/main.2.55.1.js", "", 200, "js of 2.55.1"},
		{"GET", live + "static/js/other.js", "", 200, "live answer"},
		{"POST", live + "api/jobs/", "", 405, "--live-writes"},
		{"GET", live + "at/2026-11-20T23:20:00Z/api/jobs/a", "", 200, "default/lab/" + name}, // a moment is only stored
		{"GET", lab + "latest/api/jobs/a", "", 200, "default/lab/" + name},
		{"GET", lab + name + "/api/jobs/a", "", 200, "default/lab/" + name},
		{"GET", "/namespaces/default/clusters/none/sessions/live/api/jobs/a", "", 410, "Nothing of a cluster none"},
		{"GET", live + "..%2f..%2fx", "", 400, "dots or escapes"},
		{"GET", "/clusters", "", 200, `"name":"new","namespace":"default","sessionName":"live"`},
		{"GET", "/clusters", "", 200, `"livePath":"namespaces/default/clusters/new/sessions/live/"`},
	} {
		headers := []string{asProgram}
		if tc.cookies != "" {
			headers = append(headers, tc.cookies)
		}
		f.ask(t, tc.method, tc.path, headers...).wants(t, tc.status, tc.holds)
	}
	want := []string{"GET /api/jobs/a?x=1", "GET /api/unknown%2Fthing", "GET /api/jobs/a", "GET /static/js/other.js"}
	says.EqualSlices(t, asked, want, "the dashboard was asked")

	got := f.ask(t, http.MethodGet, "/enter_cluster/default/lab/live")
	if got.status != 200 || !strings.Contains(got.body, `"session":"live"`) ||
		!strings.Contains(strings.Join(got.header.Values("Set-Cookie"), " "), "session_name=live") {
		t.Errorf("enter: %d %s %v", got.status, got.body, got.header.Values("Set-Cookie"))
	}

	// The cluster goes: the same link shows what is stored. The fake API server tells of nothing that happened before
	// the watch.
	<-watched
	must.OK(t, api.Delete(t.Context(), runningCluster("default", "lab")[0]))
	f.waitUntil(t, live+"api/jobs/a", func(a answer) bool {
		return a.status == 200 && strings.Contains(a.body, "default/lab/"+name)
	})
}

func TestOtherSitesCannotChooseASession(t *testing.T) {
	f := start(t, nil)
	got := f.ask(t, http.MethodGet, "/enter_cluster/default/lab/"+name+"?open=dashboard", "Sec-Fetch-Site: cross-site",
		asBrowser)
	says.True(t, got.status == http.StatusSeeOther && len(got.header.Values("Set-Cookie")) == 0, "%d, cookies %v",
		got.status, got.header.Values("Set-Cookie"))
	to, err := url.Parse("http://h/enter_cluster/default/lab/" + name)
	must.OK(t, err)
	if to, err = to.Parse(got.header.Get("Location")); err != nil || to.Path != lab+name+"/" {
		t.Errorf("sent to %v, %v", to, err)
	}
}
