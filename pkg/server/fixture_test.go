package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/outcomes"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
)

const (
	root = "log"
	name = "session_2026-11-20_23-19-45_581717_22125"
	old  = "session_2026-11-19_00-00-00_000000_1"
	lab  = "/namespaces/default/clusters/lab/sessions/"
)

// fixture is a server over a folder of the test's.
type fixture struct {
	*httptest.Server
	store   *gatedStore
	catalog *catalog.Catalog
	builds  string // the dashboard's builds
	log     *lockedBuffer
}

// lockedBuffer is a log that may be read while the server writes to it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// gatedStore holds the loads of sessions back until gate is closed, if it is set.
type gatedStore struct {
	*storetest.Store
	gate chan struct{}
}

func start(t *testing.T, change func(o *Options, store *gatedStore)) *fixture {
	t.Helper()
	inner := storetest.New()
	f := &fixture{store: &gatedStore{Store: inner}, builds: t.TempDir(), log: new(lockedBuffer)}
	for _, n := range []string{old, name} {
		put(t, inner, layout.MarkerKey(root, layout.Session{Namespace: "default", Cluster: "lab", Name: n}), "")
	}
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	put(t, inner, layout.MetadataKey(root, ref, layout.Start),
		`{"ownerKind":"RayJob","ownerName":"nightly","rayVersion":"2.60.0"}`)
	put(t, inner, layout.MetadataKey(root, ref, layout.End), `{"end":"2026-11-20T23:25:00Z"}`)
	for _, v := range []string{"2.55.1", "2.60.0"} {
		build(t, f.builds, v)
	}
	log := logrus.New()
	log.SetOutput(f.log)
	registry := prometheus.NewRegistry()
	o := Options{DashboardDir: f.builds, Routes: routes(), Storage: "a folder", LoadWait: time.Minute,
		PageWait: time.Minute, Log: log, Registerer: registry, Gatherer: registry}
	o.Dashboard = dashboard.New(dashboard.Options{Log: log})
	o.Findings = o.Dashboard.Findings
	o.ListLogs = func(ctx context.Context, ref layout.Session) (*moment.Moment, error) {
		s, err := session.List(ctx, f.store, root, ref)
		return o.Dashboard.MomentAt(s, 0), err
	}
	o.Fleet, o.Notes = &fleet.Fleet{}, notes.NewBook(notes.BookOptions{Store: f.store, Root: root, Log: log})
	if change != nil {
		change(&o, f.store)
	}
	indexes := &index.Opener{Store: f.store, Root: root, Log: log}
	f.catalog = catalog.New(catalog.Options{Store: f.store, Root: root, Facts: true,
		Ending: outcomes.Ending(indexes.KeptFindings), Log: log, Registerer: registry})
	o.Catalog = f.catalog
	o.Sessions = sessioncache.New(sessioncache.Options[*session.Session]{
		Load: f.load, Refresh: func(_ context.Context, s *session.Session) (*session.Session, error) { return s, nil },
		Growing: f.catalog.Growing, MaxBytes: 1 << 30, MaxLoads: 2, Log: log, Registerer: registry,
	})
	t.Cleanup(o.Sessions.Close)
	s := must.Get(New(o))(t)
	f.catalog.Start()
	t.Cleanup(f.catalog.Close)
	f.catalog.List(t.Context()) // a page does not wait for the first listing as long as a busy machine may take
	f.Server = httptest.NewServer(s)
	t.Cleanup(f.Close)
	return f
}

func (f *fixture) load(ctx context.Context, ref layout.Session, p *progress.Counter,
	_ func(int64) bool) (*session.Session, error) {
	p.BytesDone.Store(1024)
	p.BytesTotal.Store(4096)
	if f.store.gate != nil {
		select {
		case <-f.store.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return session.Load(ctx, f.store, root, ref, session.Options{Log: logrus.New()})
}

// routes stand for the dashboard's: what they answer shows what they got.
func routes() []dashboard.Route {
	return []dashboard.Route{
		{Method: http.MethodGet, Path: "/api/jobs/{job}", Serve: func(w http.ResponseWriter, r *dashboard.Request) {
			_, _ = fmt.Fprintf(w, "%s %s %d", r.Session.Ref, r.PathValue("job"), r.At)
		}},
		{Method: http.MethodGet, Path: "/api/long", Serve: func(w http.ResponseWriter, _ *dashboard.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Repeat("long ", 1000))
		}},
		{Method: http.MethodGet, Path: "/api/panics",
			Serve: func(http.ResponseWriter, *dashboard.Request) { panic("oh no") }},
		{Method: http.MethodGet, Path: "/api/panics_late", Serve: func(w http.ResponseWriter, _ *dashboard.Request) {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic("oh no")
		}},
	}
}

func put(t *testing.T, store blob.Creator, key, body string) {
	t.Helper()
	must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
}

// putOutcome keeps that a session failed, and why.
func putOutcome(t *testing.T, store blob.Store, ref layout.Session, cause string) {
	t.Helper()
	const kept = `{"version":%d,"session":"%s","of":"x","stored":"2100-01-01T00:00:00Z","outcome":"failed","cause":"%s","bytes":2}` + "\n{\"findings\":[]}\n"
	put(t, store, layout.FindingsKey(root, ref), fmt.Sprintf(kept, findings.KeptVersion, ref, cause))
}

// build makes a build of the frontend as the Ray wheel has it.
func build(t *testing.T, dir, version string) {
	t.Helper()
	must.OK(t, os.CopyFS(filepath.Join(dir, "v"+version), fstest.MapFS{
		"index.html":                        {Data: []byte("<html>dashboard " + version)},
		"static/js/main." + version + ".js": {Data: []byte("js of " + version)},
		"favicon.ico":                       {Data: []byte("icon")},
		"speedscope/index.html":             {Data: []byte("<html>speedscope")},
	}))
}

// answer is what a request got.
type answer struct {
	asked  string
	status int
	header http.Header
	body   string
}

// wants tells if an answer has another status, or lacks one of the texts.
func (a answer) wants(t *testing.T, status int, parts ...string) answer {
	t.Helper()
	says.Equal(t, a.status, status, "%s: %s", a.asked, a.body)
	return a.has(t, parts...)
}

// has tells if an answer lacks one of the texts, and lacks if it has one.
func (a answer) has(t *testing.T, parts ...string) answer {
	t.Helper()
	for _, part := range parts { // only in the body: the address may have the same text
		says.True(t, strings.Contains(a.body, part), "%s: no %q in %s", a.asked, part, a.body)
	}
	return a
}

func (a answer) lacks(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		says.True(t, !strings.Contains(a.body, part), "%s: %q in %s", a.asked, part, a.body)
	}
}

// ask sends a request without a body.
func (f *fixture) ask(t *testing.T, method, path string, headers ...string) answer {
	t.Helper()
	return f.send(t, method, path, "", headers...)
}

// send sends a request as it is, without following redirects. Headers are "Name: value".
func (f *fixture) send(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, f.URL+path, strings.NewReader(body)))(t)
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	defer func() { _ = resp.Body.Close() }()
	got := must.Get(io.ReadAll(resp.Body))(t)
	return answer{fmt.Sprintf("%s %s %q", method, path, headers), resp.StatusCode, resp.Header, string(got)}
}

const (
	asBrowser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"
	asProgram = "Accept: */*"
)

func cookies(namespace, cluster, session string) string {
	return "Cookie: cluster_namespace=" + namespace + "; cluster_name=" + cluster + "; session_name=" + session
}

// waitUntil asks until an answer is as wanted.
func (f *fixture) waitUntil(t *testing.T, path string, wanted func(answer) bool, headers ...string) {
	t.Helper()
	must.Happen(t, "the answer to "+path, func() bool { return wanted(f.ask(t, http.MethodGet, path, headers...)) })
}

// waitLoaded waits until sessions of cluster lab are loaded: the dashboard's page does not wait as long as a busy
// machine may take.
func (f *fixture) waitLoaded(t *testing.T, sessions ...string) {
	t.Helper()
	for _, session := range sessions {
		f.waitUntil(t, lab+session+"/session_status",
			func(a answer) bool { return strings.Contains(a.body, `"state":"ready"`) })
	}
}

func (f *fixture) waitDescribed(t *testing.T) {
	t.Helper()
	must.Happen(t, "that all is described", func() bool {
		entries := slices.Collect(f.catalog.List(t.Context()).All())
		return len(entries) > 0 && !slices.ContainsFunc(entries, func(e catalog.Entry) bool { return !e.Described })
	})
}
