package dashboard

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// readingStore counts what is read.
type readingStore struct {
	blob.Reader
	reads atomic.Int64
}

func (s *readingStore) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	s.reads.Add(1)
	return s.Reader.Get(ctx, key, offset, length)
}

// TestRefreshesReadNothingAgain: what logs tell is found out once, however often a running session is refreshed, and
// again of what has changed.
func TestRefreshesReadNothingAgain(t *testing.T) {
	dir, node := t.TempDir(), rayid.Node{7}
	log := func(path string) string { return layout.LogKey(layout.DefaultRoot, lab, node, path) }
	put(t, dir, log("gcs_server.out"), "Ray cluster metadata ray_version=2.60.0 ray_commit=abc\n")
	put(t, dir, log("events/event_GCS.log"), `{"event_id": "1", "source_type": "GCS", "message": "x", "timestamp": 1}`+"\n")
	for _, id := range []string{"a", "b", "c"} {
		put(t, dir, log("job-driver-"+id+".log"),
			"2026-11-20 23:20:00,000\tINFO job_manager.py:1 -- Running entrypoint for job "+id+": python x.py\n")
		put(t, dir, log("jobs/supervisor-"+id+".log"),
			"timestamp_ns=1795216900000000000 entrypoint command exited with code 0\n")
	}
	files := must.Get(local.Open(dir))(t)
	store := &readingStore{Reader: files}
	s, err := session.Load(t.Context(), store, layout.DefaultRoot, lab, session.Options{Log: logrus.New()})
	must.OK(t, err)
	a := newAsker(t, s, Options{})
	all := []string{"/api/jobs/", "/nodes?view=summary", "/events", "/api/version", "/api/v0/runtime_envs",
		"/api/v0/workers"}
	ask := func() int64 {
		before := store.reads.Load()
		for _, url := range all {
			w := a.get(url)
			must.True(t, w.Code == http.StatusOK, "%s: %d %s", url, w.Code, w.Body)
		}
		return store.reads.Load() - before
	}
	first := ask()
	must.True(t, first >= 8, "%d reads at first", first)
	for i := range 3 {
		put(t, dir, log(strings.Repeat("x", i+1)+".out"), "more")
		if a.session, err = a.session.Refresh(t.Context()); err != nil || a.session == s {
			t.Fatalf("it was not refreshed: %v", err)
		}
		says.Equal(t, ask(), 0, "reads after refresh %d, though no log that is read has changed", i)
	}
	put(t, dir, layout.LogChunkKey(log("jobs/supervisor-"+"b"+".log"), 71, layout.Plain),
		"entrypoint command exited with code 3\n")
	if a.session, err = a.session.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := ask()
	says.True(t, n != 0 && n < first, "%d reads after one log has changed", n)
	if w := a.get("/api/jobs/b"); !strings.Contains(w.Body.String(), `"driver_exit_code": 3`) {
		t.Errorf("what a log tells now is not shown: %s", w.Body)
	}
}

// TestLeavingEndsTheWork: a query of tasks ends when nobody waits for it any more.
func TestLeavingEndsTheWork(t *testing.T) {
	a := recorded(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := &Request{Request: httptest.NewRequestWithContext(gone, http.MethodGet, "/api/v0/tasks", nil),
		Moment: moment.Moment{Session: a.session, Env: moment.NewEnv(logrus.New(), nil)}}
	q := must.Get(parseListQuery(r))(t)
	says.ErrorIs(t, says.Err(a.session.Tasks.Select(q)), context.Canceled, "a list")
	says.ErrorIs(t, says.Err(a.session.Tasks.Summarize(q, false)), context.Canceled, "a summary")
	says.ErrorIs(t, says.Err(a.session.Tasks.Lineage(q, func(rayid.Actor) string { return "" }, 1)), context.Canceled,
		"a lineage")
}
