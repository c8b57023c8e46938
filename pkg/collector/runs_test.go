package collector

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestEnds: when a session counts as ended, by what was seen of its raylet and its logs.
func TestEnds(t *testing.T) {
	const name, other = "session_2026-11-20_00-00-00_000000_1", "session_2026-11-21_00-00-00_000000_1"
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type look struct {
		at  int
		up  bool // the session's raylet listens
		too bool // so does another session's
	}
	for title, test := range map[string]struct {
		before  bool // an earlier collector saw the raylet
		looks   []look
		written int // when its logs were last written to; 0: there are none
		quiet   bool
		latest  string // the session that session_latest names
		closing bool
		want    int // when it ended; 0: it has not
	}{
		"a raylet that runs is gone for a moment": {looks: []look{{5, true, false}, {10, false, false},
			{60, false, false}}, written: 8, latest: name},
		"gone for a minute": {looks: []look{{5, true, false}, {10, false, false},
			{70, false, false}}, written: 8, latest: name, want: 8},
		"gone, came back, gone again": {looks: []look{{5, true, false}, {10, false, false},
			{60, true, false}, {65, false, false}, {80, false, false}}, written: 61, latest: name},
		"gone again for a minute": {looks: []look{{5, true, false}, {10, false, false},
			{60, true, false}, {65, false, false}, {125, false, false}}, written: 8, latest: name, want: 60},
		"came back, and the collector ends before Ray": {looks: []look{{5, true, false}, {10, false, false},
			{100, true, true}}, written: 8, latest: name, closing: true},
		"its logs are quiet long before": {looks: []look{{500, true, false}, {505, false, false},
			{600, false, false}}, written: 8, latest: name, want: 500},
		"no logs": {looks: []look{{500, true, false}, {505, false, false},
			{600, false, false}}, latest: name, want: 500},
		"another session runs": {looks: []look{{5, true, false}, {10, false, true}},
			written: 8, latest: other, want: 8},
		"another session runs, the link is old": {looks: []look{{5, true, false}, {10, false, true}},
			written: 8, latest: name, want: 8},
		"the collector ends after Ray": {looks: []look{{5, true, false}, {10, false, false}},
			written: 9, latest: name, closing: true, want: 9},
		"the collector was restarted after Ray's end": {before: true, looks: []look{{5000, false, false}}, written: 8,
			quiet: true, latest: name},
		"a minute after that": {before: true,
			looks: []look{{5000, false, false}, {5060, false, false}}, written: 8, quiet: true, latest: name, want: 8},
		"restarted, and another session runs": {before: true, looks: []look{{5000, false, true}}, written: 8,
			quiet: true, latest: other, want: 8},
		"not seen yet: it may be starting": {looks: []look{{5, false, false}, {700, false, false}},
			written: 8, quiet: true, latest: name},
		"never seen, the collector ends": {looks: []look{{5, false, false}}, written: 8, latest: name,
			closing: true, want: 8},
		"never seen, without logs, the collector ends": {looks: []look{{5, false, false}}, latest: name, closing: true,
			want: 5},
		"an older one that was never seen": {looks: []look{{5, false, false}}, written: 3, latest: other},
		"an older one that was never seen, quiet": {looks: []look{{700, false, false}}, written: 3, quiet: true,
			latest: other, want: 3},
		"an older one, another runs": {looks: []look{{5, false, true}}, written: 3, latest: other,
			want: 3},
		"an older one without logs, another runs": {looks: []look{{5, false, true}}, latest: other},
		"an older one without logs, the collector ends": {looks: []look{{5, false, false}}, latest: other,
			closing: true},
	} {
		t.Run(title, func(t *testing.T) {
			var before []string
			if test.before {
				before = append(before, name)
			}
			r, now, another := newRuns(before), time.Time{}, false
			for _, l := range test.looks {
				now, another = at(l.at), l.too
				up := map[string]string{}
				if l.up {
					up[name] = "/tmp/ray"
				}
				if l.too {
					up[other] = "/tmp/ray"
				}
				r.raylets = func() (map[string]string, error) { return up, nil }
				must.Get(r.lookForRaylets(now))(t)
			}
			s := logs.Session{Name: name, Quiet: test.quiet}
			if test.written > 0 {
				s.LastWrite = at(test.written)
			}
			end, ended := r.endOf(s, test.latest, another, test.closing, now)
			says.True(t, ended == (test.want > 0) && (!ended || end.Equal(at(test.want))),
				"ended %t, %ds after the start, want %d", ended, int(end.Sub(start).Seconds()), test.want)
		})
	}
}

// machine is a machine on which sessions come and go.
type machine struct {
	mu      sync.Mutex
	running map[string]string
}

func (m *machine) run(sessions ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = make(map[string]string)
	for _, s := range sessions {
		m.running[s] = "/tmp/ray"
	}
}

func (m *machine) raylets() (map[string]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running, nil
}

// metadata are the starts and ends that are stored of a session, in the order of their keys.
func metadata(t *testing.T, store *storetest.Store, session, which string) (all []layout.EndMetadata) {
	t.Helper()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: session}
	for _, key := range store.Keys() {
		if !strings.HasPrefix(key, layout.MetadataKey("log", ref, which)) {
			continue
		}
		var m layout.EndMetadata
		must.OK(t, json.Unmarshal(store.Object(key), &m))
		all = append(all, m)
	}
	return all
}

// until looks at the sessions' metadata until a condition holds.
func until(t *testing.T, c *Collector, what string, done func() bool) {
	t.Helper()
	must.Happen(t, what, func() bool {
		must.Get(c.tailer.Scan(t.Context()))(t)
		must.OK(t, c.storeMetadata(t.Context()))
		return done()
	})
}

// TestSessionsComeAndGo: a collector that outlives sessions, as on a machine, stores the end of each, and the start of
// each head.
func TestSessionsComeAndGo(t *testing.T) {
	const one, two = "session_2026-11-20_00-00-00_000000_1", "session_2026-11-21_00-00-00_000000_1"
	m := &machine{}
	o, store := options(t, t.TempDir())
	o.Head, o.Ship.PushInterval = true, 20*time.Millisecond
	makeSession(t, o.RayTmpDir, one, rayid.Node{1})
	appendTo(t, filepath.Join(o.RayTmpDir, one, "logs", "raylet.out"), "hello\n")
	appendTo(t, filepath.Join(o.RayTmpDir, one, "logs", "debug_state.txt"), "written every 10 s\n")
	m.run(one)
	c := must.Get(New(o))(t)
	c.runs.raylets = m.raylets
	c.Start()
	until(t, c, "the first head's start is stored",
		func() bool { return len(metadata(t, store, one, layout.Start)) == 1 })
	got := metadata(t, store, one, layout.Start)[0]
	says.True(t, got.NodeID == (rayid.Node{1}).String(), "start %+v", got)
	if got := metadata(t, store, one, layout.End); len(got) > 0 {
		t.Errorf("ended while it runs: %+v", got)
	}

	makeSession(t, o.RayTmpDir, two, rayid.Node{2}) // ray stop; ray start
	last := time.Now().Add(-3 * time.Second).Truncate(time.Millisecond)
	for _, name := range []string{"raylet.out", "debug_state.txt"} {
		must.OK(t, os.Chtimes(filepath.Join(o.RayTmpDir, one, "logs", name), last, last))
	}
	m.run(two)
	until(t, c, "the first session's end is stored",
		func() bool { return len(metadata(t, store, one, layout.End)) == 1 })
	end := metadata(t, store, one, layout.End)[0]
	says.True(t, !end.End.Before(last) && !end.End.After(time.Now()) && end.NodeID == (rayid.Node{1}).String(),
		"end %+v, its last sign was at %v", end, last)
	whole := layout.LogKey("log", layout.Session{Namespace: "default", Cluster: "lab", Name: one}, rayid.Node{1},
		"debug_state.txt")
	says.True(t, store.Object(whole) != nil, "the end is stored before everything else of the session: %q",
		store.Keys())

	m.run(one) // GCS fault tolerance: another head goes on under the first name
	makeSession(t, o.RayTmpDir, one, rayid.Node{3})
	until(t, c, "the next head's start is stored",
		func() bool { return len(metadata(t, store, one, layout.Start)) == 2 })
	next := metadata(t, store, one, layout.Start)[1]
	says.True(t, next.NodeID == (rayid.Node{3}).String() && time.Since(next.Start) <= time.Hour,
		"the next head's start %+v", next)
	m.run()
	stop(t, c)
	for name, want := range map[string]int{one: 2, two: 0} { // of the second, there is nothing but an empty folder
		ends := metadata(t, store, name, layout.End)
		says.True(t, len(ends) >= want, "%s has the ends %+v, want %d", name, ends, want)
	}
}

// TestSlowStoreHoldsUpNoLook: raylets are looked for while the store does not answer what is stored of a session, which
// is told of.
func TestSlowStoreHoldsUpNoLook(t *testing.T) {
	o, store := options(t, t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		log, logged := logtest.NewNullLogger()
		o.Log, o.Head = log, true
		store.Fault = func(string) storetest.Fault { return storetest.Stall }
		makeSession(t, o.RayTmpDir, session().Name, rayid.Node{1})
		c := must.Get(New(o))(t)
		looks := 0
		c.runs.raylets = func() (map[string]string, error) { looks++; return nil, nil }
		must.Get(c.tailer.Scan(t.Context()))(t)
		c.watching.Start(c.watchRaylets)
		c.metadata.Start(c.keepMetadata)
		const minutes = 5
		time.Sleep(minutes * time.Minute)
		synctest.Wait()
		c.watching.Close()
		c.metadata.Close()
		least := int(minutes * time.Minute / lookInterval)
		says.True(t, looks >= least, "looked %d times for raylets, want %d", looks, least)
		entry := logged.LastEntry()
		says.True(t, entry != nil && strings.Contains(entry.Message, "the metadata of a session"), "logged %v", entry)
		must.OK(t, c.spool.Close())
	})
}

// TestHeadsOfASession: the collector of another pod's head, which knows nothing of the first, adds its own start and
// end.
func TestHeadsOfASession(t *testing.T) {
	o, store := options(t, t.TempDir())
	o.Head = true
	name := session().Name
	for _, id := range []byte{1, 1, 2} { // a head whose collector was restarted without its state, and another head
		s := must.Get(newSessions(o, filepath.Join(t.TempDir(), "sessions.json")))(t)
		head := headNode{id: rayid.Node{id}.String(), began: time.Date(2026, 11, 21, 0, 0, int(id), 0, time.UTC)}
		for range 2 {
			must.OK(t, s.storeStart(t.Context(), name, head, true))
		}
		time.Sleep(2 * time.Millisecond) // versions have a millisecond each
		must.OK(t, s.storeEnd(t.Context(), name, head, head.began.Add(time.Hour)))
	}
	starts, ends := metadata(t, store, name, layout.Start), metadata(t, store, name, layout.End)
	must.True(t, len(starts) == 3 && len(ends) == 3, "starts %+v, ends %+v", starts, ends)
	for i, id := range []byte{1, 1, 2} {
		if hex := (rayid.Node{id}).String(); starts[i].NodeID != hex || ends[i].NodeID != hex {
			t.Errorf("head %d: %+v, %+v", i, starts[i], ends[i])
		}
	}
	says.True(t, starts[2].Start.Equal(time.Date(2026, 11, 21, 0, 0, 2, 0, time.UTC)), "the other head's start is %v",
		starts[2].Start)
}

// TestFoldersThatAreNoSessions: thousands of folders named like sessions, and others that people make, fill neither the
// log nor the store, and are no reason to fail.
func TestFoldersThatAreNoSessions(t *testing.T) {
	o, store := options(t, t.TempDir())
	log, logged := logtest.NewNullLogger()
	o.Log, o.Head = log, true
	makeSession(t, o.RayTmpDir, session().Name, rayid.Node{1})
	for i := range 1000 {
		folder := filepath.Join(o.RayTmpDir, fmt.Sprintf("session_2030-01-01_00-00-00_%06d_1", i))
		must.OK(t, os.MkdirAll(filepath.Join(folder, "logs"), 0o755))
		if i%2 == 0 {
			appendTo(t, filepath.Join(folder, "logs", "x.out"), "made up\n")
		}
	}
	for _, name := range []string{"session_latest", "session_old", "session_backup_2026-11-20"} {
		makeSession(t, o.RayTmpDir, name, rayid.Node{7})
		appendTo(t, filepath.Join(o.RayTmpDir, name, "logs", "raylet.out"), "a copy\n")
	}
	must.OK(t, os.WriteFile(filepath.Join(o.RayTmpDir, "raylet_node_id"), []byte((rayid.Node{9}).String()), 0o644))
	m := &machine{}
	m.run(session().Name)
	c := must.Get(New(o))(t)
	c.runs.raylets = m.raylets
	c.Start()
	for range 3 {
		must.Get(c.tailer.Scan(t.Context()))(t)
		must.OK(t, c.storeMetadata(t.Context()))
	}
	m.run() // Ray has ended: nothing has to wait for it
	stop(t, c)
	if lines := len(logged.AllEntries()); lines > 5 {
		t.Errorf("%d lines in the log, such as %q", lines, logged.LastEntry().Message)
	}
	for _, key := range store.Keys() {
		says.True(t, strings.Contains(key, session().Name), "stored %s", key)
	}
}
