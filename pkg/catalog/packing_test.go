package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const twoJobs = `[{"type":"SUBMISSION","job_id":"01000000","submission_id":"raysubmit_A1","status":"FAILED","entrypoint":"python Train.py",
	"message":"exit code 1","start_time":1763683200000,"end_time":1763683300000,"metadata":{"user":"ana","job_name":"nightly","n":3}},
	{"type":"DRIVER","job_id":"02000000","submission_id":null,"status":"SUCCEEDED","entrypoint":"","message":"Job finished successfully.","end_time":null}]`

const twoNodes = `{"result":true,"data":{"result":{"total":2,"result":[
	{"node_id":"aa","start_time_ms":1763683200000,"end_time_ms":0,"resources_total":{"CPU":8.0,"GPU":2.0,"memory":17179869184.0,"node:1":1.0}},
	{"node_id":"bb","start_time_ms":1763683200000,"end_time_ms":1763685000000,"resources_total":{"CPU":4.0},"labels":{"ray.io/market-type":"spot","x":"y"}}]}}}`

// ended stores a session that ended an hour after 2025-11-21T00:00:00Z.
func ended(t *testing.T, store blob.Creator, cluster string) layout.Session {
	t.Helper()
	ref := v16(cluster, "session_2025-11-21_00-00-00_000000_1")
	begun(t, store, ref, `{"ownerKind":"RayJob","ownerName":"nightly","rayVersion":"2.60.0","labels":{"team":"search"},`+
		`"start":"2025-11-21T00:00:00Z"}`, `{"end":"2025-11-21T01:00:00Z","nodes":2}`)
	jobs, nodes := layout.SnapshotKey(root, ref, jobsPath), layout.SnapshotKey(root, ref, nodesPath+layout.AllRows)
	put(t, store, jobs, `[]`)
	put(t, store, layout.SnapshotVersionKey(jobs, time.UnixMilli(1763683300000)), twoJobs)
	put(t, store, nodes, twoNodes)
	return ref
}

// looks counts the sessions whose objects are listed, and the packs that are created.
type looks struct {
	mu       sync.Mutex
	sessions int
	created  int
	refused  storetest.Op // an operation without rights
	failing  storetest.Op // an operation that fails
}

func (l *looks) before(_ context.Context, op storetest.Op, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case op == l.refused:
		return blob.ErrPermission
	case op == l.failing:
		return errors.New("the store is down")
	case op == storetest.Create:
		l.created++
	case op == storetest.List && strings.Contains(key, "/session_"):
		l.sessions++
	}
	return nil
}

// server is a catalog with packs over a store, as a server has it.
func server(store blob.Store) (*Catalog, *looks) {
	looked := &looks{}
	counted := &storetest.Hooked{Store: store, Before: looked.before}
	return open(counted, withFacts, func(o *Options) {
		o.Packs = &packs.Packs{Store: counted, Root: root}
		o.Ending = func(_ context.Context, e Entry) (Ending, bool) {
			return Ending{Outcome: "failed", Cause: "Task f failed", Findings: []packs.Finding{},
				Used: &packs.Used{CPU: 3}}, e.Ref.Cluster == "fails"
		}
	}), looked
}

// pack is a server's catalog that has listed and packed what is stored and has ended.
func pack(t *testing.T, store *storetest.Store) (*Catalog, *looks) {
	t.Helper()
	c, looked := server(store)
	fresh(t, c)
	must.OK(t, c.Pack(t.Context()))
	return c, looked
}

// restarted is a server's catalog that has read the packs.
func restarted(t *testing.T, store *storetest.Store) (*Catalog, *looks) {
	c, looked := server(store)
	c.fillFromPacks(t.Context())
	return c, looked
}

// packed reads all rows of the stored packs.
func packed(t *testing.T, store blob.Store) map[layout.Session]packs.Facts {
	t.Helper()
	p := packs.Packs{Store: store, Root: root}
	all := must.Get(p.List(t.Context()))(t)
	rows := make(map[layout.Session]packs.Facts)
	for _, pack := range all {
		err := p.Read(t.Context(), pack, func(f *packs.Facts) error { rows[f.Ref] = *f; return nil })
		must.True(t, err == nil || errors.Is(err, packs.ErrDamaged), err)
	}
	return rows
}

func TestFactsOfAnEndedSession(t *testing.T) {
	store, _ := bucket()
	ref := ended(t, store, "fails")
	store.Age(time.Hour)
	pack(t, store)
	f := packed(t, store)[ref]
	want := packs.Job{ID: "01000000", Submission: "raysubmit_A1", Status: "FAILED", Entrypoint: "python Train.py",
		Message: "exit code 1", User: "ana", Name: "nightly", Start: 1763683200000, End: 1763683300000}
	if len(f.Jobs) != 2 || f.Jobs[0] != want || f.Jobs[1].Message != "" || f.Outcome != "failed" || f.Findings == nil ||
		f.Labels["team"] != "search" || !strings.Contains(f.Text, "team=search") {
		t.Errorf("facts %+v", f)
	}
	spot := packs.NodeHours{Labels: map[string]string{"ray.io/market-type": "spot"},
		Amounts: packs.Amounts{Node: 0.5, CPU: 2}}
	says.True(t, f.Hours != nil &&
		reflect.DeepEqual(*f.Hours,
			packs.Hours{Amounts: packs.Amounts{Node: 1.5, CPU: 10, GPU: 2, Memory: 16}, Used: &packs.Used{CPU: 3},
				Nodes: []packs.NodeHours{spot}}), "hours %+v", f.Hours)
	says.True(t, f.Nodes == 2 && f.Objects == 5 && f.End.Sub(f.Start) == time.Hour && f.RayVersion == "2.60.0" &&
		f.OwnerName == "nightly", "facts %+v", f)
}

// TestFactsOfJobsThatTheLastListLacks: a job that was deleted before the session ended counts as it was, and each job
// once, though a damaged list has it twice. A row without an ID is no job.
func TestFactsOfJobsThatTheLastListLacks(t *testing.T) {
	store, _ := bucket()
	ref := ended(t, store, "fails")
	key := layout.SnapshotKey(root, ref, "/api/jobs/")
	put(t, store, layout.SnapshotVersionKey(key, time.Unix(1900000000, 0)), `[{"submission_id": "gone", "status": `+
		`"FAILED", "message": "`+strings.Repeat("x", 2*layout.JobBytes)+`"}, {"submission_id": "A1", "status": "RUNNING"}]`)
	put(t, store, layout.SnapshotVersionKey(key, time.Unix(1900000060, 0)),
		`[{"submission_id": "A1", "status": "SUCCEEDED"}, {"submission_id": "A1", "status": "FAILED"}, `+
			`{"status": "FAILED"}]`)
	store.Age(time.Hour)
	pack(t, store)
	jobs := packed(t, store)[ref].Jobs
	says.True(t, len(jobs) == 2 && jobs[0].Status == "SUCCEEDED" && jobs[1].Submission == "gone" &&
		jobs[1].Status == "FAILED", "jobs %+v", jobs)
}

// TestFactsByAClockAhead: times by the clock of a head that is ahead of the store's are as much earlier, however much
// that is. A start that is only by the local time of a zone east of UTC says nothing of the clock.
func TestFactsByAClockAhead(t *testing.T) {
	midnight := time.Date(2025, 11, 21, 0, 0, 0, 0, time.UTC)
	for what, tt := range map[string]struct {
		ahead time.Duration // of the head's clock
		start time.Time     // as recorded
	}{
		"a little":          {ahead: 5 * time.Minute, start: midnight},
		"hours":             {ahead: 3 * time.Hour, start: midnight},
		"a zone":            {start: midnight.Add(9 * time.Hour)},
		"a little, a zone":  {ahead: 5 * time.Minute, start: midnight.Add(9 * time.Hour)},
		"behind, in a zone": {start: midnight.Add(9*time.Hour - time.Minute)},
	} {
		store, _ := bucket()
		ref := ended(t, store, "fails")
		began := midnight.Add(-tt.ahead)
		must.OK(t, store.Put(t.Context(), layout.MetadataKey(root, ref, layout.Start),
			strings.NewReader(fmt.Sprintf(`{"start":%q}`, tt.start.Format(time.RFC3339)))))
		for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
			must.OK(t, err)
			stored := began
			if parsed, _ := layout.ParseObject(root, ref, o.Key); parsed.Offset > 0 {
				stored = time.UnixMilli(parsed.Offset).Add(-tt.ahead)
			}
			store.Written(o.Key, stored)
		}
		store.Written(layout.MetadataKey(root, ref, layout.End), began.Add(time.Hour))
		c, _ := server(store)
		fresh(t, c)
		f := c.Unpacked()[ref]
		if f == nil || !f.Start.Equal(began) || f.End.Sub(f.Start) != time.Hour || f.Hours == nil ||
			f.Hours.Node != 1.5 || f.Jobs[0].Start != began.UnixMilli() ||
			f.Jobs[0].End-f.Jobs[0].Start != 100_000 || f.Jobs[1].End != 0 {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

// TestPackOfAClockAhead: a pack of a server whose clock was ahead does not hide what was stored since.
func TestPackOfAClockAhead(t *testing.T) {
	store, _ := bucket()
	ref := ended(t, store, "fails")
	c, _ := server(store)
	fresh(t, c)
	now := entriesOf(c.Cached())[0]
	before := packs.Facts{Ref: ref, Seen: time.Now().AddDate(1, 0, 0), Start: now.Start, End: now.End,
		LastWrite: now.LastWrite.Add(-time.Minute), Summary: Summary{Objects: 1, Outcome: "succeeded"}}
	since := before
	since.Seen, since.LastWrite = before.Seen.AddDate(-2, 0, 0), now.LastWrite.Add(time.Minute)
	for _, pack := range []struct {
		facts packs.Facts
		want  string
	}{{before, "failed"}, {since, "succeeded"}} {
		c.mergePackRow(&pack.facts)
		got := entriesOf(c.Cached())[0]
		says.True(t, got.Outcome == pack.want, "after a pack of %s: %+v", pack.facts.Seen, got)
	}
}

// TestHoursOfAnyList: the last list of nodes that says when each began tells the hours, however its query was written.
func TestHoursOfAnyList(t *testing.T) {
	store, _ := bucket()
	ref := ended(t, store, "lab")
	store.Age(time.Hour)
	const oneNode = `{"data":{"result":{"result":[{"start_time_ms":1763683200000,"resources_total":{"CPU":1}}]}}}`
	for i, saved := range []struct {
		query, body string
		node        float64
	}{
		{"?detail=1&limit=20000", oneNode, 1}, {layout.AllRows, twoNodes, 1.5}, {"?detail=true", oneNode, 1},
		{"", twoNodes, 1}, {"?detail=1&filter_keys=state", twoNodes, 1},
	} {
		key := layout.SnapshotKey(root, ref, nodesPath+saved.query)
		put(t, store, layout.SnapshotVersionKey(key, time.UnixMilli(1763683300000+int64(i))), saved.body)
		c, _ := server(store)
		fresh(t, c)
		f := c.Unpacked()[ref]
		says.True(t, f != nil && f.Hours != nil && f.Hours.Node == saved.node, "with %s: %+v", saved.query, f)
	}
}

// TestFactsOfASessionThatJustEnded: they are known at once, and packed when nothing more is stored of the session.
func TestFactsOfASessionThatJustEnded(t *testing.T) {
	store, _ := bucket()
	ref := ended(t, store, "fails")
	c, _ := server(store)
	fresh(t, c)
	f := c.Unpacked()[ref]
	says.True(t, f != nil && f.Outcome == "failed" && len(f.Jobs) == 2 && f.Hours != nil, "facts %+v", f)
	must.OK(t, c.Pack(t.Context()))
	rows := packed(t, store)
	says.True(t, len(rows) == 0, "packed although more may be stored: %v", rows)
	store.Age(time.Hour)
	c.Reread(ref)
	fresh(t, c)
	must.OK(t, c.Pack(t.Context()))
	rows = packed(t, store)
	says.True(t, len(rows) == 1 && len(c.Unpacked()) == 0, "packed are %v, %v wait", rows, c.Unpacked())
}

func TestRestartReadsPacks(t *testing.T) {
	store, _ := bucket()
	for _, cluster := range []string{"fails", "b", "c"} {
		ended(t, store, cluster)
	}
	store.Age(time.Hour)
	c, _ := server(store)
	before := entriesOf(fresh(t, c))
	must.OK(t, c.Pack(t.Context()))
	again, looked := restarted(t, store)
	began := again.List(t.Context())
	after := entriesOf(began)
	says.True(t, began.Beginning, "what packs have passes for all sessions")
	must.True(t, len(after) == 3 && len(before) == 3, "%d sessions, %d before", len(after), len(before))
	for i := range after {
		says.Equal(t, after[i], before[i], "after the restart")
	}
	says.True(t, !fresh(t, again).Beginning, "all sessions are listed, and some count as missing")
	says.Equal(t, looked.sessions, 0, "%d sessions were looked at after the restart", looked.sessions)
	must.OK(t, again.Pack(t.Context()))
	all, _ := again.opts.Packs.List(t.Context())
	says.True(t, len(all) == 1, "%d packs", len(all))
}

// TestLongListingAfterRestart: while a server that began with packs lists all markers, it knows what runs, lists what
// begins, and finds what is requested.
func TestLongListingAfterRestart(t *testing.T) {
	store, _ := bucket()
	ended(t, store, "lab")
	store.Age(time.Hour)
	pack(t, store)
	begin := func(cluster string, age time.Duration) {
		start := time.Now().UTC().Add(-age)
		ref := v16(cluster, start.Format("session_2006-01-02_15-04-05_000000_1"))
		put(t, store, layout.MarkerKey(root, ref), "")
		put(t, store, layout.RecentKey(root, ref, start), "")
	}
	begin("runs", 5*24*time.Hour)
	endless := &storetest.Hooked{Store: store, Before: storetest.On(storetest.List,
		func(ctx context.Context, prefix string) error {
			if !slices.Contains(layout.MarkerPrefixes(root), prefix) {
				return nil
			}
			return storetest.Hang(ctx, prefix)
		})}
	c := started(t, endless, withFacts, func(o *Options) {
		o.Packs, o.Interval = &packs.Packs{Store: store, Root: root}, 10*time.Millisecond
	})
	has := func(cluster string) {
		t.Helper()
		must.Happen(t, "that "+cluster+" is listed", func() bool {
			return slices.ContainsFunc(entriesOf(c.Cached()), func(e Entry) bool { return e.Ref.Cluster == cluster })
		})
	}
	has("lab")
	has("runs")
	begin("new", 0)
	has("new")
	says.True(t, c.Cached().Beginning,
		"the list passes for all sessions while all markers are listed for the first time")
}

// TestPacksAreDerived: whatever happens to packs, the list is complete, and so are packs at last.
func TestPacksAreDerived(t *testing.T) {
	day := time.Date(2025, 11, 21, 0, 0, 0, 0, time.UTC)
	key := layout.PackKey(root, day, 1)
	for name, harm := range map[string]func(t *testing.T, store *storetest.Store){
		"lost": func(t *testing.T, store *storetest.Store) { must.OK(t, store.Delete(t.Context(), key)) },
		"half written": func(t *testing.T, store *storetest.Store) {
			body := must.Get(store.Get(t.Context(), key, 0, 700))(t)
			half, _ := io.ReadAll(body)
			_ = body.Close()
			must.OK(t, store.Put(t.Context(), key, bytes.NewReader(half)))
		},
		"damaged": func(t *testing.T, store *storetest.Store) {
			must.OK(t, store.Put(t.Context(), key, strings.NewReader(strings.Repeat("PAR1", 100))))
		},
		"two writers": func(t *testing.T, store *storetest.Store) { pack(t, store) },
	} {
		t.Run(name, func(t *testing.T) {
			store, _ := bucket()
			for n := range 5 {
				ended(t, store, fmt.Sprintf("lab-%d", n))
			}
			store.Age(time.Hour)
			pack(t, store)
			harm(t, store)
			again, _ := restarted(t, store)
			l := fresh(t, again)
			must.OK(t, again.Pack(t.Context()))
			if len(entriesOf(l)) != 5 || !entriesOf(l)[4].Described || entriesOf(l)[4].Nodes != 2 ||
				len(packed(t, store)) != 5 {
				t.Errorf("%d sessions, %d packed; the last is %+v", len(entriesOf(l)), len(packed(t, store)),
					entriesOf(l)[len(entriesOf(l))-1])
			}
		})
	}
}

// TestRemovedSessionsLeavePacks, also if newer facts of them wait to be packed.
func TestRemovedSessionsLeavePacks(t *testing.T) {
	for name, newer := range map[string]bool{"packed": false, "packed, and read again": true} {
		t.Run(name, func(t *testing.T) { testRemovedLeavePacks(t, newer) })
	}
}

func testRemovedLeavePacks(t *testing.T, newer bool) {
	store, _ := bucket()
	gone, stays := ended(t, store, "a"), ended(t, store, "b")
	store.Age(time.Hour)
	c, looked := pack(t, store)
	if newer {
		c.Reread(gone)
		fresh(t, c)
	}
	must.OK(t, store.Delete(t.Context(), layout.MarkerKey(root, gone)))
	says.Equal(t, len(entriesOf(fresh(t, c))), 1, "sessions")
	looked.failing = storetest.Create
	says.True(t, c.Pack(t.Context()) != nil, "packs were joined without the store")
	looked.failing = ""
	must.OK(t, c.Pack(t.Context()))
	says.Equal(t, len(c.packed.removed), 0, "%v still wait to leave packs", c.packed.removed)
	rows := packed(t, store)
	_, ok := rows[stays]
	says.True(t, ok && len(rows) == 1, "packed are %v", rows)
	must.OK(t, c.Pack(t.Context()))
	says.Equal(t, len(c.packed.read), 1, "packs are remembered, one is stored")
	says.Equal(t, len(entriesOf(c.Cached())), 1, "sessions after packing")
}

// TestReadOnlyStoreHasNoPacks: where packs may not be written, none wait; when the refusal counts no more, they are
// written.
func TestReadOnlyStoreHasNoPacks(t *testing.T) {
	store, _ := bucket()
	ref := ended(t, store, "a")
	store.Age(time.Hour)
	c, readOnly := server(store)
	readOnly.refused = storetest.Create
	fresh(t, c)
	for range 2 {
		must.OK(t, c.Pack(t.Context()))
	}
	if l := c.Cached(); len(entriesOf(l)) != 1 || !c.packed.denied.Holds() || len(c.packed.unpacked) != 0 {
		t.Errorf("%+v, %v", l, c.packed.unpacked)
	}
	hasPacks := func() bool {
		return slices.ContainsFunc(store.Keys(),
			func(key string) bool { return strings.HasPrefix(key, layout.PacksPrefix(root)) })
	}
	says.True(t, !hasPacks(), "a read-only store has packs")
	readOnly.refused = ""
	c.packed.denied = blob.Denied{}
	c.describe(t.Context(), ref)
	must.OK(t, c.Pack(t.Context()))
	says.True(t, hasPacks(), "no pack when the refusal counts no more")
}

// TestPacksWithoutTheRightToDelete: a server that may write packs but not remove them goes on packing, and stores no
// joined pack again and again.
func TestPacksWithoutTheRightToDelete(t *testing.T) {
	store, _ := bucket()
	c, without := server(store)
	without.refused = storetest.Delete
	const sessions = maxPacks + 4
	for i := range sessions {
		ended(t, store, fmt.Sprintf("c%d", i))
		store.Age(time.Hour)
		fresh(t, c)
		must.OK(t, c.Pack(t.Context()))
	}
	rows := packed(t, store)
	says.True(t, len(rows) == sessions, "%d of %d sessions are packed", len(rows), sessions)
	if want := sessions + 1; without.created != want {
		t.Errorf("%d packs were stored, want %d: one for each session, and one that joins them", without.created, want)
	}
	for start, want := range []int{1, 0} { // the first joins what was packed since the packs were joined
		again, looked := server(store)
		looked.refused = storetest.Delete
		again.fillFromPacks(t.Context())
		fresh(t, again)
		must.OK(t, again.Pack(t.Context()))
		says.Equal(t, looked.created, want, "%d packs were stored after start %d, want %d", looked.created, start, want)
	}
}

// TestOutcomeThatCannotBeRead: a replica that describes a session while it cannot read how it ended makes nobody forget
// that, in whichever order packs are read, nor does it forget it.
func TestOutcomeThatCannotBeRead(t *testing.T) {
	store, _ := bucket()
	ref := ended(t, store, "fails")
	store.Age(time.Hour)
	knows, _ := pack(t, store)
	time.Sleep(2 * time.Millisecond) // as in TestOutcomeLearnedLater
	other, _ := server(store)
	other.opts.Ending = func(context.Context, Entry) (Ending, bool) { return Ending{}, false }
	fresh(t, other)
	must.OK(t, other.Pack(t.Context()))
	all := must.Get(other.opts.Packs.List(t.Context()))(t)
	must.True(t, len(all) == 2, "%d packs; both replicas have described the session", len(all))
	tells := func(who string, c *Catalog) {
		t.Helper()
		e := entriesOf(c.Cached())[0]
		says.True(t, e.Outcome == "failed" && e.Cause == "Task f failed", "%s: %+v", who, e)
	}
	must.OK(t, knows.Pack(t.Context())) // it reads what the other one packed
	tells("who knew it", knows)
	must.OK(t, other.Pack(t.Context()))
	again, _ := restarted(t, store)
	tells("after a restart", again)
	again.opts.Ending = other.opts.Ending
	again.Reread(ref)
	fresh(t, again)
	tells("after it could not be read", again)
	must.OK(t, again.Pack(t.Context()))
	must.Get(again.opts.Packs.Join(t.Context(), layout.PackDay(ref), func(layout.Session) bool { return false }))(t)
	if f := packed(t, store)[ref]; f.Outcome != "failed" || f.Findings == nil || f.Hours == nil || f.Hours.Used == nil {
		t.Errorf("the rows together: %+v", f)
	}
}

// TestOutcomeLearnedLater: what a session's findings tell once it was opened comes into a newer pack.
func TestOutcomeLearnedLater(t *testing.T) {
	store, _ := bucket()
	ref := ended(t, store, "a")
	store.Age(time.Hour)
	c, _ := pack(t, store)
	// Packs have times in milliseconds: a session that is read twice in one would have the facts of either pack.
	time.Sleep(2 * time.Millisecond)
	c.opts.Ending = func(context.Context, Entry) (Ending, bool) { return Ending{Outcome: "succeeded"}, true }
	c.Reread(ref)
	if l := fresh(t, c); entriesOf(l)[0].Outcome != "succeeded" {
		t.Errorf("%+v", entriesOf(l)[0])
	}
	must.OK(t, c.Pack(t.Context()))
	again, _ := restarted(t, store)
	e := entriesOf(again.Cached())[0]
	says.True(t, e.Outcome == "succeeded", "after a restart %+v", e)
}
