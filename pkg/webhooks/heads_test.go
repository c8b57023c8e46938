package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/compact"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/maintenance/verify"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// cluster is one session whose heads come and go, with a worker that lives through that: what its collectors store.
type cluster struct {
	t      *testing.T
	store  *storetest.Store
	ref    layout.Session
	worker rayid.Node
	jobs   []map[string]any
	sizes  map[string]int64 // of streams
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{
		t: t, store: storetest.New(), worker: rayid.Node{0xcc}, sizes: make(map[string]int64),
		ref: layout.Session{Namespace: "default", Cluster: "lab",
			Name: time.Now().UTC().Format("session_2006-01-02_15-04-05_000000_7")},
	}
	c.create(layout.MarkerKey("log", c.ref), "")
	return c
}

func (c *cluster) create(key, body string) {
	c.t.Helper()
	must.OK(c.t, c.store.Create(c.t.Context(), key, strings.NewReader(body)))
}

// version stores an object whose later versions have keys of their own.
func (c *cluster) version(key, body string) {
	c.t.Helper()
	if _, err := c.store.Stat(c.t.Context(), key); err == nil {
		key = layout.SnapshotVersionKey(key, time.Now())
	}
	c.create(key, body)
}

// write appends a line to a node's log.
func (c *cluster) write(node rayid.Node, log, line string) {
	c.t.Helper()
	stream := layout.LogKey("log", c.ref, node, log)
	c.create(layout.ChunkKey(stream, c.sizes[stream], layout.Plain), line+"\n")
	c.sizes[stream] += int64(len(line) + 1)
}

// job stores the dashboard's list of jobs after one has changed.
func (c *cluster) job(id, status string, node rayid.Node) {
	c.t.Helper()
	c.jobs = slices.DeleteFunc(c.jobs, func(j map[string]any) bool { return j["submission_id"] == id })
	j := map[string]any{
		"type": "SUBMISSION", "job_id": nil, "submission_id": id, "driver_info": nil, "status": status,
		"entrypoint": "python train.py", "message": "",
		"error_type": nil, "start_time": time.Now().Add(-time.Minute).UnixMilli(), "end_time": nil,
		"metadata":    map[string]any{},
		"runtime_env": map[string]any{}, "driver_agent_http_address": "http://10.0.0.1:52365",
		"driver_node_id": node.String(), "driver_exit_code": nil,
	}
	if status != "RUNNING" {
		j["end_time"] = time.Now().UnixMilli()
		j["driver_exit_code"] = map[string]int{"FAILED": 1}[status]
	}
	c.jobs = append(c.jobs, j)
	body := must.Get(json.Marshal(c.jobs))(c.t)
	c.version(layout.SnapshotKey("log", c.ref, "/api/jobs/"), string(body))
}

// live lets a head, if there is one, and the worker write for some time.
func (c *cluster) live(head rayid.Node, d time.Duration) {
	c.t.Helper()
	for range int(d / (30 * time.Second)) {
		if !head.Nil() {
			c.write(head, "raylet.out", "the head lives")
		}
		c.write(c.worker, "raylet.out", "the worker lives")
		time.Sleep(30 * time.Second)
	}
}

// end stores the end of a head, as its collector does.
func (c *cluster) end() {
	c.t.Helper()
	c.version(layout.MetadataKey("log", c.ref, layout.End),
		fmt.Sprintf(`{"rayVersion":"2.60.0","end":%q,"nodes":2}`, time.Now().UTC().Format(time.RFC3339)))
}

// mailbox is a receiver without a network.
type mailbox struct {
	mu     sync.Mutex
	events []Event
}

func (m *mailbox) RoundTrip(r *http.Request) (*http.Response, error) {
	var e Event
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, e)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(nil)), Request: r}, nil
}

func (m *mailbox) all() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}

// told says what was sent, in order.
func (m *mailbox) told() (told []string) {
	for _, e := range m.all() {
		what := e.Type + " " + e.Outcome
		if e.Job != nil {
			what += " " + e.Job.SubmissionID
		}
		told = append(told, what)
	}
	return told
}

// server is what of the history server asks whether a session runs.
type server struct {
	*cluster
	catalog *catalog.Catalog
	sender  *Sender
	mailbox *mailbox
}

func (c *cluster) serve() *server {
	log := silent.Logger()
	s := &server{cluster: c, mailbox: &mailbox{}}
	s.catalog = catalog.New(catalog.Options{
		Store: c.store, Root: "log", Facts: true, Packs: &packs.Packs{Store: c.store, Root: "log"}, Log: log,
		Registerer: prometheus.NewRegistry(),
	})
	answers := dashboard.New(dashboard.Options{Log: log})
	s.sender = New(Options{
		Config: &Config{Receivers: []*Receiver{{
			Name: "all", Format: JSON, Events: []string{JobFailed, SessionEnded}, address: "http://receiver",
			secret: []byte(secret),
		}}},
		Store: c.store, Root: "log",
		Sessions: func() (iter.Seq[catalog.Entry], bool) { return s.catalog.Cached().Oldest(), true },
		Findings: func(ctx context.Context, e catalog.Entry) (*findings.Report, error) {
			loaded, err := session.Load(ctx, c.store, "log", e.Ref, session.Options{})
			if err != nil {
				return nil, err
			}
			return answers.Findings(ctx, answers.MomentAt(loaded, 0))
		},
		Failed: func(ctx context.Context, e catalog.Entry, after string) (failed []moment.Job, answer string,
			err error) {
			jobs, answer, err := s.catalog.FailedJobs(ctx, e.Ref, after)
			for _, j := range jobs {
				failed = append(failed, moment.Job{SubmissionID: j.Submission, Status: j.Status,
					End: j.End * int64(time.Millisecond)})
			}
			return failed, answer, err
		},
		Log: log, Registerer: prometheus.NewRegistry(),
	})
	s.sender.client.Transport = s.mailbox
	s.catalog.Start()
	s.sender.Start()
	return s
}

func (s *server) close() {
	s.sender.Close()
	s.catalog.Close()
}

// check checks the session's state in the list, and what maintenance may do with it; end is zero while the session
// runs.
func (s *server) check(when string, end time.Time) {
	s.t.Helper()
	e, err := s.catalog.Find(s.t.Context(), catalog.Selector{Namespace: "default", Name: "lab",
		Session: catalog.Latest})
	says.True(s.t, err == nil && e.Running == end.IsZero() && e.End.Equal(end.Truncate(time.Second)),
		"%s: running %t, ended at %s, want %s: %v", when, e.Running, e.End, end, err)
	now := time.Now()
	if got := retention.Due(e, 0, now); got == end.IsZero() {
		s.t.Errorf("%s: may be removed by name: %t", when, got)
	}
	if fate := (&retention.Policy{Age: time.Second}).Of(e, now); fate.Due(now.Add(time.Minute)) == end.IsZero() {
		s.t.Errorf("%s: expires: %+v", when, fate)
	}
	before := s.objects()
	result, err := compact.Session(s.t.Context(), s.ref,
		compact.Options{Store: s.store, Root: "log", Quiet: 10 * time.Minute, Progress: &progress.Counter{}})
	if err != nil || end.IsZero() && (result.Over || s.objects() != before) {
		s.t.Errorf("%s: compacted %+v, %d objects before, %d after: %v", when, result, before, s.objects(), err)
	}
}

// packed says whether packs tell how the session ended.
func (s *server) packed() (is bool) {
	all := &packs.Packs{Store: s.store, Root: "log"}
	list := must.Get(all.List(s.t.Context()))(s.t)
	for _, pack := range list {
		err := all.Read(s.t.Context(), pack, func(f *packs.Facts) error {
			is = is || f.Ref == s.ref
			return nil
		})
		must.OK(s.t, err)
	}
	return is
}

func (s *server) objects() (n int) {
	for range s.store.List(s.t.Context(), layout.Prefix("log", s.ref), blob.ListOptions{}) {
		n++
	}
	return n
}

// TestHeadsOfOneSession: with GCS fault tolerance one head after the other continues the session. Each end is told, and
// each job that failed, and nothing that ends a session's life is done while one of them writes.
func TestHeadsOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		s := c.serve()
		defer s.close()
		c.create(layout.MetadataKey("log", c.ref, layout.Start), `{"ownerKind":"RayCluster","ownerName":"lab"}`)

		a, b, d := rayid.Node{0xa}, rayid.Node{0xb}, rayid.Node{0xd}
		c.job("nightly-1", "SUCCEEDED", a)
		c.live(a, 10*time.Minute)
		s.check("while the first head runs", time.Time{})
		first := time.Now()
		c.end()
		time.Sleep(40 * time.Second)
		s.check("after the first head", first)
		time.Sleep(80 * time.Second)
		want := []string{"session_ended succeeded"}
		says.EqualSlices(t, s.mailbox.told(), want, "after the first head")

		c.job("nightly-2", "RUNNING", b)
		c.live(b, 2*time.Minute)
		s.check("while the second head runs", time.Time{})
		c.write(b, "job-driver-nightly-2.log",
			"Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\nValueError: bad shard")
		c.job("nightly-2", "FAILED", b)
		c.live(b, 3*time.Minute)
		s.check("while the second head still runs", time.Time{})
		want = append(want, "job_failed failed nightly-2")
		says.EqualSlices(t, s.mailbox.told(), want, "while the second head runs")
		says.OK(t, says.Err(c.store.Stat(t.Context(), layout.MetadataKey("log", c.ref, layout.Joined))),
			"the first head's logs were not joined after its end")
		second := time.Now()
		c.end()
		time.Sleep(40 * time.Second)
		s.check("after the second head", second)
		time.Sleep(30 * time.Minute)
		s.check("long after the second head", second)
		want = append(want, "session_ended failed")
		says.EqualSlices(t, s.mailbox.told(), want, "after the second head")

		// The third head comes late, and is killed: it stores no end.
		says.True(t, s.packed(), "the session was not packed after the second head")
		c.live(d, 20*time.Minute)
		s.check("while the third head runs", time.Time{})
		says.True(t, !s.packed(), "packs have the session while the third head runs")
		c.live(rayid.Node{}, 20*time.Minute)
		s.check("while only the worker lives", time.Time{})
		c.write(c.worker, "raylet.out", "the last line")
		third := time.Now()
		time.Sleep(9 * time.Minute)
		s.check("shortly after the worker", time.Time{})
		time.Sleep(5 * time.Minute)
		s.check("after the worker", third)
		want = append(want, "session_ended failed")
		says.EqualSlices(t, s.mailbox.told(), want, "in all")
		ids := make(map[string]bool)
		for _, e := range s.mailbox.all() {
			ids[e.ID] = true
		}
		says.Equal(t, len(ids), len(want), "events have IDs")
		stored := must.Get(inventory.List(t.Context(), c.store, "log", c.ref))(t)
		report, err := verify.Session(t.Context(), c.store, stored, &progress.Counter{})
		says.True(t, err == nil && len(report.Damage) == 0, "what is stored is not whole: %+v, %v", report, err)
	})
}
