package catalog

import (
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// runs is a running session of a layout, and a catalog over its store.
type runs struct {
	*storetest.Store

	t   *testing.T
	c   *Catalog
	ref layout.Session

	mu    sync.Mutex
	reads int   // of answers about jobs
	fails error // in the middle of such an answer
}

func running(t *testing.T, ref layout.Session) *runs {
	t.Helper()
	r := &runs{Store: storetest.New(), t: t, ref: ref}
	r.restart()
	begun(t, r.Store, ref, `{"labels":{"team":"search"}}`, "")
	return r
}

// restart makes the catalog again.
func (r *runs) restart() { r.c = open(&storetest.Hooked{Store: r.Store, Body: r.body}) }

// body counts the readings of answers about jobs.
func (r *runs) body(key string, body io.Reader) io.Reader {
	if !strings.Contains(key, "api__jobs") {
		return body
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reads++; r.fails != nil {
		return io.MultiReader(io.LimitReader(body, 20), iotest.ErrReader(r.fails))
	}
	return body
}

// store stores the nth answer about jobs.
func (r *runs) store(n int, jobs string) {
	r.t.Helper()
	key := layout.SnapshotKey(root, r.ref, jobsPath)
	if n > 0 {
		key = layout.SnapshotVersionKey(key, time.UnixMilli(int64(n)))
	}
	put(r.t, r.Store, key, jobs)
}

// look describes the session again.
func (r *runs) look() {
	r.t.Helper()
	must.OK(r.t, r.c.Refresh(r.t.Context()))
	r.c.describe(r.t.Context(), r.ref)
}

// want looks again and compares what the list tells of the session's jobs, and how often answers about these were read.
func (r *runs) want(failed, reads int) Entry {
	r.t.Helper()
	r.look()
	e := entriesOf(r.c.Cached())[0]
	found, err := r.c.Find(r.t.Context(), Selector{Namespace: r.ref.Namespace, Name: r.ref.Cluster,
		Session: r.ref.Name})
	says.True(r.t, err == nil && e.FailedJobs == failed && found.FailedJobs == failed && r.reads == reads,
		"%d failed jobs (found alone: %d), %d reads, want %d and %d; %v", e.FailedJobs, found.FailedJobs, r.reads,
		failed, reads, err)
	return e
}

func (r *runs) finds(words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		for range r.c.Cached().Matching(Filter{Words: []string{word}}, time.Now()) {
			return true
		}
		return false
	})
}

const (
	oneFailed = `[{"submission_id": "train-A", "status": "FAILED", "end_time": 5, "message": "exit code 1"}, {"submission_id": "b", "status": "RUNNING"}]`
	twoFailed = `[{"submission_id": "b", "status": "FAILED"}, {"job_id": "01000000", "status": "FAILED"}]`
)

// TestFailedJobsOfARunningSession: the list tells how many jobs have failed by the newest stored answer about jobs,
// which is read once, until the session ends.
func TestFailedJobsOfARunningSession(t *testing.T) {
	r := running(t, v16("lab", "session_2026-11-20_23-19-45_581717_22125"))
	r.want(0, 0)
	says.True(t, r.finds("team=search"), "a running session is not found by its labels")
	r.store(0, oneFailed)
	put(t, r.Store, layout.SnapshotKey(root, r.ref, "/api/jobs/train-A"), `{}`)
	for range 3 {
		e := r.want(1, 1)
		says.True(t, e.Running && e.Outcome == "" && e.Cause == "Job train-A failed: exit code 1", "%+v", e)
	}
	for _, word := range []string{"train-a", "exit", "team=search"} {
		says.True(t, r.finds(word), "a running session is not found by %s", word)
	}
	r.store(1, `[]`)
	if e := r.want(0, 2); e.Cause != "" || r.finds("train-a") {
		t.Error("a running session is found by a job that was deleted")
	}
	r.store(2, twoFailed)
	if e := r.want(2, 3); e.Cause != "Job b failed" {
		t.Errorf("%+v", e)
	}
	r.restart()
	r.want(2, 4)
	r.Age(time.Hour)
	r.c.opts.Facts = true
	if e := r.want(0, 5); e.Running || e.Cause != "" || !r.finds("01000000") || len(r.c.jobs) != 0 {
		t.Errorf("after its end: %+v, %v", e, r.c.jobs)
	}
}

// TestFailedJobsUntilTheEnd: a session that has ended has no failed jobs, however that is known; what is remembered of
// answers goes with it.
func TestFailedJobsUntilTheEnd(t *testing.T) {
	lab := v16("lab", "session_2026-11-20_23-19-45_581717_22125")
	job := layout.Session{Version: layout.V17, Namespace: "prod", Cluster: "svc-x", OwnerKind: "rayservice",
		OwnerName: "svc", Name: "session_2026-11-19_08-00-00_000000_7"}
	for name, tc := range map[string]struct {
		ref layout.Session
		end func(r *runs) []Entry
	}{
		"quiet, before it is described again": {lab, func(r *runs) []Entry {
			part := must.Get(r.c.Cached().Part(Query{Now: time.Now().Add(time.Hour), Limit: 1}))(t)
			r.c.opts.Quiet = 1
			found := must.Get(r.c.Find(t.Context(), Selector{Namespace: lab.Namespace, Name: lab.Cluster,
				Session: lab.Name}))(t)
			r.look()
			return append(part.Entries, found)
		}},
		"by a marker": {job, func(r *runs) []Entry {
			put(t, r.Store, layout.MetadataKey(root, r.ref, layout.End), `{"end":"2026-11-20T23:40:00Z"}`)
			return []Entry{r.want(0, 1)}
		}},
		"another replica packed it": {lab, func(r *runs) []Entry {
			now := time.Now()
			r.c.mergePackRow(&packs.Facts{Ref: r.ref, Seen: now.Add(time.Second), Start: now.Add(-time.Hour), End: now,
				LastWrite: now, Summary: Summary{Outcome: "failed", Objects: 2}})
			if e := entriesOf(r.c.Cached())[0]; e.Outcome != "failed" {
				t.Errorf("packed: %+v", e)
			}
			return entriesOf(r.c.Cached())
		}},
		"removed": {lab, func(r *runs) []Entry {
			must.OK(t, r.Delete(t.Context(), layout.MarkerKey(root, r.ref)))
			r.look() // as one that was under way
			return entriesOf(r.c.Cached())
		}},
	} {
		r := running(t, tc.ref)
		r.store(0, oneFailed)
		r.want(1, 1)
		for _, e := range tc.end(r) {
			says.True(t, !e.Running && e.FailedJobs == 0 && e.Objects >= 2 && name != "removed", "%s: %+v", name, e)
		}
		says.Equal(t, len(r.c.jobs), 0, "%s: %v", name, r.c.jobs)
	}
}

// TestFailedJobsOfKubeRay: its collectors overwrite the answer.
func TestFailedJobsOfKubeRay(t *testing.T) {
	r := running(t, v16("lab", "session_2026-11-20_23-19-45_581717_22125"))
	key := layout.SnapshotKey(root, r.ref, jobsPath)
	for n, jobs := range []string{`[]`, oneFailed, twoFailed} {
		must.OK(t, r.Put(t.Context(), key, strings.NewReader(jobs)))
		for range 2 {
			r.want(n, n+1)
		}
		failed, _, err := r.c.FailedJobs(t.Context(), r.ref, "")
		says.True(t, err == nil && len(failed) == n, "%v, %v", failed, err)
		r.reads--
	}
}

// TestAnswersThatSayNothing: a damaged or huge answer is read once and changes nothing; one that the store did not give
// whole is read again.
func TestAnswersThatSayNothing(t *testing.T) {
	r := running(t, v16("lab", "session_2026-11-20_23-19-45_581717_22125"))
	r.store(0, oneFailed)
	r.want(1, 1)
	for n, jobs := range []string{
		"", "{", `{"submission_id": "b"}`, `[{"status": 5}]`, twoFailed[:30], strings.Repeat("[", 1<<20),
		`[{"status": "FAILED"}, {"status": "FAILED", "message": "` + strings.Repeat("x", maxAnswer) + `"}]`,
	} {
		r.store(n+1, jobs)
		r.want(1, n+2)
		if r.want(1, n+2); !r.finds("train-a") {
			t.Errorf("%.50q changed what is known", jobs)
		}
	}
	r.store(100, twoFailed)
	r.reads, r.fails = 0, errors.New("the connection was cut")
	r.want(1, 1)
	r.want(1, 2)
	r.fails = nil
	r.want(2, 3)
	r.want(2, 3)
}

// TestFailedJobsOfOneSession: those of the newest known answer, once.
func TestFailedJobsOfOneSession(t *testing.T) {
	r := running(t, v16("lab", "session_2026-11-20_23-19-45_581717_22125"))
	var last string
	step := func(reads int, want ...string) {
		t.Helper()
		r.look()
		r.reads = 0
		failed, answer, err := r.c.FailedJobs(t.Context(), r.ref, last)
		must.OK(t, err)
		var got []string
		for _, j := range failed {
			got = append(got, j.Submission+j.ID)
		}
		says.True(t, slices.Equal(got, want) && r.reads == reads, "after %q: %q, want %q; %d reads, want %d", last, got,
			want, r.reads, reads)
		last = answer
	}
	step(0)
	r.store(0, oneFailed)
	step(1, "train-A")
	step(0)
	r.store(1, `[]`)
	r.store(2, twoFailed)
	step(1, "b", "01000000")
	step(0)
	r.store(3, `{`)
	r.look()
	if _, answer, err := r.c.FailedJobs(t.Context(), r.ref, last); err == nil || answer != last {
		t.Errorf("%q, %v of a damaged answer", answer, err)
	}
	if _, answer, err := r.c.FailedJobs(t.Context(), v16("other", r.ref.Name), last); err != nil || answer != last {
		t.Errorf("%q, %v of a session that is not known", answer, err)
	}
}

// TestFirstFailure: of the jobs that failed the first one counts, and of what Ray says about it the last line, in one
// line.
func TestFirstFailure(t *testing.T) {
	const message = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\nTraceback\nKeyError: 'unit_price'\n\n"
	for want, jobs := range map[string][]packs.Job{
		"": {{ID: "01000000", Status: "SUCCEEDED", Message: "x"}},
		"Job b failed: KeyError: 'unit_price'": {
			{Submission: "a", Status: "FAILED", End: 9}, {Submission: "b", ID: "02000000", Status: "FAILED",
				Message: message, End: 5}, {Submission: "c", Status: "FAILED"},
		},
		"Job 03000000 failed: a  b": {{ID: "03000000", Status: "FAILED", Message: "x\na \x00 b"}},
		"Job d failed":              {{Submission: "d", Status: "FAILED", Message: " \n "}},
		"Job f failed: red":         {{Submission: "f", Status: "FAILED", Message: "\x1b[31mred\n\x1b[0m\n"}},
		"Job e failed: (e pid=1) x": {{Submission: "e", Status: "FAILED", Message: "\x1b[36m(e pid=1)\x1b[0m x\x1b[0m\n"}},
	} {
		if _, cause := countFailures(jobs); strings.ReplaceAll(cause, " ", "") != strings.ReplaceAll(want, " ", "") ||
			strings.ContainsAny(cause, "\n\x00") {
			t.Errorf("%q, want %q", cause, want)
		}
	}
	if _, cause := countFailures([]packs.Job{{Submission: "a", Status: "FAILED", Message: strings.Repeat("x", 1<<20)}}); len(
		cause) > 400 {
		t.Errorf("a cause of %d bytes", len(cause))
	}
}

// TestAnswersTakeMemoryByTheirText: what an answer takes in memory does not depend on how many elements, keys or texts
// its bytes hold.
func TestAnswersTakeMemoryByTheirText(t *testing.T) {
	fill := func(begin, part, end string) string {
		return begin + strings.Repeat(part, (maxAnswer-len(begin)-len(end)-len(part))/len(part)) +
			strings.TrimSuffix(part, ",") + end
	}
	nodes := func(part string) string { return fill(`{"data":{"result":{"result":[`, part, `]}}}`) }
	for name, test := range map[string]struct {
		text string
		read string
		ok   bool
	}{
		"nodes":          {nodes(`{},`), "nodes", true},
		"nodes, null":    {nodes(`null,`), "nodes", true},
		"lists instead":  {nodes(`[],`), "nodes", false},
		"a node of keys": {fill(`{"data":{"result":{"result":[{`, `"k":1,`, `}]}}}`), "nodes", false},
		"keys before":    {fill(`{`, `"k":{},`, `}`), "nodes", false},
		"a list before":  {fill(`{"x":[`, `{},`, `]}`), "nodes", false},
		"jobs":           {fill(`[`, `{},`, `]`), "jobs", true},
		"metadata":       {fill(`[{"metadata":{`, `"k":1,`, `}}]`), "jobs", false},
		"metadata of many": {fill(`[`, `{"metadata":{`+strings.Repeat(`"k":{},`, 1000)+`"user":"ana"}},`, `]`),
			"jobs", true},
		"escapes":             {fill(`[{"entrypoint":"`, `\u0001`, `"}]`), "jobs", false},
		"bytes that are none": {fill(`[`, `{"entrypoint":"`+strings.Repeat("\xff", 1<<20)+`"},`, `]`), "jobs", true},
		"nested":              {fill(`[{"metadata":{"user":`, `[`, ``), "jobs", false},
		"user is a long list": {fill(`[`, `{"metadata":{"user":[`+strings.Repeat(`{},`, 300_000)+`{}]}},`, `]`),
			"jobs", true},
		"times in every field": {nodes(`{"start_time_ms":1,"resources_total":{"CPU":1}},`), "nodes", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := packs.Facts{End: time.Unix(1e9, 0)}
			decode := readJobs
			if test.read == "nodes" {
				decode = new(sources).readHours
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			err := decode(jsonstream.New(strings.NewReader(test.text), maxValue), &f)
			runtime.ReadMemStats(&after)
			// Everything that was allocated counts, as if it was never collected.
			took := int64(after.TotalAlloc - before.TotalAlloc)
			says.True(t, (err == nil) == test.ok && took <= 12*maxAnswer, "%v after %d MB", err, took>>20)
			says.True(t, f.Hours == nil && len(f.Jobs) <= maxListed, "%+v, %d jobs", f.Hours, len(f.Jobs))
		})
	}
}
