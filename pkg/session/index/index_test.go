package index

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/race"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// stored is a session in a folder.
type stored struct {
	t     testing.TB
	dir   string
	store *local.Store
	ref   layout.Session
	log   *logrus.Logger
	said  bytes.Buffer
}

func open(t testing.TB, dir string, ref layout.Session) *stored {
	t.Helper()
	store := must.Get(local.Open(dir))(t)
	s := &stored{t: t, dir: dir, store: store, ref: ref, log: logrus.New()}
	s.log.SetOutput(&s.said)
	return s
}

func generated(t testing.TB, tasks int) *stored {
	t.Helper()
	return generate(t, sessiongen.Options{Tasks: tasks})
}

func generate(t testing.TB, o sessiongen.Options) *stored {
	t.Helper()
	dir := t.TempDir()
	return open(t, dir, must.Get(sessiongen.Write(dir, o))(t).Session)
}

// load loads the session from its events.
func (s *stored) load() *session.Session {
	s.t.Helper()
	return must.Get(session.Load(s.t.Context(), s.store, layout.DefaultRoot, s.ref, session.Options{Log: s.log}))(s.t)
}

// neverReplays is an Index that fails the test if it has none.
type neverReplays struct {
	t testing.TB
	o *Opener
}

func (n neverReplays) Open(ctx context.Context, ref layout.Session, sources session.Sources,
	room func(int64) bool) (*session.Tables, error) {
	tables, err := n.o.Open(ctx, ref, sources, room)
	says.True(n.t, tables != nil || sources.Fingerprint == "", "no index: %v", err)
	return tables, err
}

func (n neverReplays) Reject(ref layout.Session, _ string, reason error) {
	n.t.Errorf("%s: %v", ref, reason)
}

func (s *stored) opener() *Opener {
	return &Opener{Store: s.store, Root: layout.DefaultRoot, Log: s.log}
}

// indexed writes an index and loads the session from it.
func (s *stored) indexed(from *session.Session) *session.Session {
	s.t.Helper()
	s.write(from)
	loaded := must.Get(session.Load(s.t.Context(), s.store, layout.DefaultRoot, s.ref,
		session.Options{Log: s.log, Index: neverReplays{s.t, s.opener()}}))(s.t)
	says.True(s.t, s.said.Len() == 0, s.said.String())
	return loaded
}

func (s *stored) writer() *Writer { return &Writer{Opener: s.opener(), Put: s.store.Put} }

func (s *stored) write(from *session.Session) {
	s.t.Helper()
	must.OK(s.t, s.writer().Write(s.t.Context(), from, nil))
}

// handler answers a dashboard's requests about one session, as of a moment.
func handler(s *session.Session, at int64) http.Handler {
	return answering(dashboard.New(dashboard.Options{Log: silent.Logger()}), s, at)
}

// answering answers from a session as a dashboard does.
func answering(d *dashboard.Dashboard, s *session.Session, at int64) http.Handler {
	mux := http.NewServeMux()
	for _, route := range d.Routes() {
		pattern := strings.ReplaceAll(route.Path, ":*}", "...}") // go-restful's spelling of a path's rest
		if strings.HasSuffix(pattern, "/") {
			pattern += "{$}"
		}
		mux.HandleFunc(route.Method+" "+pattern, func(w http.ResponseWriter, r *http.Request) {
			route.Serve(w, &dashboard.Request{Request: r, Moment: *d.MomentAt(s, at)})
		})
	}
	return mux
}

// sameAnswers asks both sessions the same, at several moments.
func sameAnswers(t *testing.T, want, got *session.Session, urls []string) {
	t.Helper()
	var wanted, answered bytes.Buffer // for all answers: to grow one for each takes a fifth of the time
	record := func(body *bytes.Buffer) *httptest.ResponseRecorder {
		r := httptest.NewRecorder()
		body.Reset()
		r.Body = body
		return r
	}
	for _, at := range []int64{0, want.Start + (want.End-want.Start)/2} {
		a, b := handler(want, at), handler(got, at)
		for _, url := range urls {
			x, y := record(&wanted), record(&answered)
			a.ServeHTTP(x, httptest.NewRequest(http.MethodGet, url, nil))
			b.ServeHTTP(y, httptest.NewRequest(http.MethodGet, url, nil))
			if x.Code != y.Code || !bytes.Equal(x.Body.Bytes(), y.Body.Bytes()) {
				t.Errorf("%s at %d: %d and %d bytes from events, %d and %d bytes from the index: %s", url, at, x.Code,
					x.Body.Len(), y.Code, y.Body.Len(),
					difference(x.Body.Bytes(), y.Body.Bytes()))
			}
		}
	}
	says.OK(t, got.Tasks.Err())
}

func difference(a, b []byte) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	part := func(s []byte) []byte { return s[max(0, n-200):min(len(s), n+200)] }
	return fmt.Sprintf("\n%s\n%s", part(a), part(b))
}

// taskURLs are requests about all tasks and some, each once.
func taskURLs(s *session.Session) []string {
	urls := []string{
		"/api/v0/tasks", "/api/v0/tasks?detail=1&limit=10000", "/api/v0/tasks?limit=3",
		"/api/v0/tasks?exclude_driver=false&limit=10000&detail=1",
		"/api/v0/tasks?filter_keys=state&filter_predicates=%3D&filter_values=failed&limit=10000&detail=1",
		"/api/v0/tasks?filter_keys=error_type&filter_predicates=%3D&filter_values=WORKER_DIED",
		"/api/v0/tasks?filter_keys=nonsense&filter_predicates=%3D&filter_values=1",
		"/api/v0/tasks/summarize", "/api/v0/tasks/summarize?summary_by=lineage", "/api/v0/tasks/timeline",
		"/logical/actors", "/api/v0/actors?detail=1&limit=10000",
		"/api/jobs/", "/api/v0/jobs", "/nodes?view=summary", "/api/v0/nodes?detail=1",
		"/api/v0/workers?detail=1&limit=10000", "/api/v0/placement_groups?detail=1",
		"/api/v0/platform_events",
	}
	filtered := map[string]bool{}
	filter := func(key, value string) {
		if filtered[key+value] {
			return
		}
		filtered[key+value] = true
		urls = append(urls, fmt.Sprintf(
			"/api/v0/tasks?filter_keys=%s&filter_predicates=%%3D&filter_values=%s&detail=1&limit=10000", key, value),
			fmt.Sprintf("/api/v0/tasks?filter_keys=%s&filter_predicates=!%%3D&filter_values=%s&limit=7", key, value),
			fmt.Sprintf("/api/v0/tasks/summarize?filter_keys=%s&filter_predicates=%%3D&filter_values=%s", key, value))
	}
	for _, j := range s.Jobs {
		filter("job_id", j.ID.String())
		urls = append(urls, "/api/v0/tasks/timeline?job_id="+j.ID.String())
	}
	for _, n := range s.Nodes[:min(2, len(s.Nodes))] {
		filter("node_id", n.ID.String())
	}
	for n := 0; n < s.Tasks.Len(); n += 1 + s.Tasks.Len()/5 {
		r := s.Tasks.Row(n, 0)
		filter("task_id", r.ID().String())
		filter("name", string(r.Name()))
		filter("actor_id", fmt.Sprintf("%x", r.Actor()))
	}
	filter("task_id", strings.Repeat("00", 24))
	filter("task_id", strings.Repeat("ff", 24))
	return urls
}

// recordings are the names of those that are compared.
func recordings(t *testing.T) []string {
	t.Helper()
	if race.Enabled {
		return []string{"ray-2.60"}
	}
	names := must.Get(recording.Names())(t)
	return names
}

// TestSameAnswers: what is answered from an index is what is answered from events, byte by byte.
func TestSameAnswers(t *testing.T) {
	for _, name := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			r := recording.OpenNamed(t, name)
			s := open(t, r.Store(), r.Session)
			events := s.load()
			urls := taskURLs(events)
			for _, a := range r.Golden() {
				urls = append(urls, a.URL)
			}
			sameAnswers(t, events, s.indexed(events), urls)
		})
	}
	if race.Enabled {
		return // what follows takes minutes then, and runs what the recording did
	}
	t.Run("generated", func(t *testing.T) {
		s := generated(t, tasktable.GroupRows+300) // more than a row group
		events := s.load()
		sameAnswers(t, events, s.indexed(events), taskURLs(events))
	})
	t.Run("in runs", func(t *testing.T) {
		s := generated(t, tasktable.GroupRows+300)
		events, runs := s.load(), s.loadWithin(4<<20)
		sameAnswers(t, events, runs, taskURLs(events)[:24])
		sameAnswers(t, events, s.indexed(runs), taskURLs(events)[:6])
	})
}

// loadWithin loads the session from its events with so little room that its rows are in a file.
func (s *stored) loadWithin(room int64) *session.Session {
	s.t.Helper()
	var p progress.Counter
	loaded := must.Get(session.Load(s.t.Context(), s.store, layout.DefaultRoot, s.ref, session.Options{
		Log: s.log, Progress: &p, Concurrency: 1, Reserve: func(held int64) bool { return held <= room },
	}))(s.t)
	if stored := loaded.EventBytes(); loaded.Tasks.InMemory() || p.BytesDone.Load() != stored ||
		p.BytesTotal.Load() != stored {
		s.t.Errorf("rows in memory: %v; %d of %d bytes read, want %d, once", loaded.Tasks.InMemory(),
			p.BytesDone.Load(), p.BytesTotal.Load(), stored)
	}
	says.True(s.t, !loaded.Indexed(), "a file of rows counts as an index")
	return loaded
}

// indexKeys are the keys of all tables, wherever they are.
func (s *stored) indexKeys() []string {
	s.t.Helper()
	var keys []string
	for o, err := range s.store.List(s.t.Context(), "", blob.ListOptions{}) {
		must.OK(s.t, err)
		if strings.HasSuffix(o.Key, ".parquet") {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

// TestIndexBelowTheSessionIsNotBelieved: whoever may store a session's events, as collectors may, cannot put an index
// in their place, be it good, forged, or said to have settled: it is a foreign object as any other.
func TestIndexBelowTheSessionIsNotBelieved(t *testing.T) {
	for _, version := range []layout.Version{layout.V16, layout.V17} {
		s := generate(t, sessiongen.Options{Tasks: 50, Version: version})
		s.end()
		s.settle()
		before := s.load()
		s.write(before)
		keys := s.indexKeys()
		must.True(t, s.loadAuto(s.opener()).Indexed() && len(keys) != 0, "V%d: the index is not used", version)
		prefix := layout.Prefix(layout.DefaultRoot, s.ref)
		for _, key := range keys {
			says.True(t, !strings.HasPrefix(key, prefix), "V%d: the server stores %s, below the session's prefix",
				version, key)
			data := s.read(key)
			must.OK(t, s.store.Delete(t.Context(), key))
			s.put(prefix+"index/"+key[strings.LastIndexByte(key, '/')+1:], data)
		}
		after := s.loadAuto(s.opener())
		if after.Indexed() || after.Foreign != len(keys) || after.Fingerprint() != before.Fingerprint() {
			t.Errorf("V%d: indexed %v, %d foreign objects, want %d and the fingerprint of before", version,
				after.Indexed(), after.Foreign, len(keys))
		}
	}
}
