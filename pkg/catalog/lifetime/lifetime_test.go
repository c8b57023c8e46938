package lifetime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const root = "log"

var (
	// In a test's bubble the store's clock begins at this time.
	begin   = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	ref     = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2000-01-01_00-00-00_000000_7"}
	head    = rayid.Node{1}
	newHead = rayid.Node{2}
	worker  = rayid.Node{3}
)

// world is a store to which the nodes of one session write. Its clock is the bubble's.
type world struct {
	t      *testing.T
	store  blob.Store
	chunks map[string]int64 // bytes, by stream
	over   time.Time        // when the session ended; zero while it runs
	told   bool             // a head's collector stored an end
	quiet  time.Duration
}

func newWorld(t *testing.T) *world {
	return &world{t: t, store: storetest.New(), chunks: make(map[string]int64), quiet: Idle}
}

func (w *world) put(key, body string) {
	w.t.Helper()
	must.OK(w.t, w.store.Put(w.t.Context(), key, strings.NewReader(body)))
}

// write stores a further chunk of a node's log.
func (w *world) write(node rayid.Node) {
	w.t.Helper()
	stream := layout.LogKey(root, ref, node, "raylet.out")
	w.put(layout.ChunkKey(stream, w.chunks[stream], layout.Plain), "a line\n")
	w.chunks[stream] += int64(len("a line\n"))
}

// metadata stores a start or an end, as collectors do: the first one under its own key, later ones as versions.
func (w *world) metadata(which, body string) {
	w.t.Helper()
	key := layout.MetadataKey(root, ref, which)
	w.told = w.told || which == layout.End
	if _, err := w.store.Stat(w.t.Context(), key); err == nil {
		key = layout.SnapshotVersionKey(key, time.Now())
	}
	w.put(key, body)
}

func (w *world) start(node rayid.Node) {
	w.t.Helper()
	w.metadata(layout.Start, fmt.Sprintf(`{"start":%q,"nodeId":%q}`, begin.Format(time.RFC3339), node))
}

func (w *world) end(at time.Time) {
	w.t.Helper()
	w.metadata(layout.End, fmt.Sprintf(`{"start":%q,"end":%q}`, begin.Format(time.RFC3339), at.Format(time.RFC3339)))
}

// join does what compaction does: it records the end, and replaces the first chunks.
func (w *world) join(end time.Time) {
	w.t.Helper()
	w.put(layout.MetadataKey(root, ref, layout.Joined), fmt.Sprintf(`{"end":%q}`, end.Format(time.RFC3339)))
	for stream, size := range w.chunks {
		if size > int64(len("a line\n")) {
			w.put(stream, strings.Repeat("a line\n", int(size)/len("a line\n")))
		}
	}
}

// copied stores all objects again, in the order of a directory's listing, as a copy of the store does.
func (w *world) copied(wait time.Duration) {
	w.t.Helper()
	for o, err := range w.store.List(w.t.Context(), "", blob.ListOptions{}) {
		must.OK(w.t, err)
		defer func() {
			body := readAll(w.t, w.store, o.Key)
			w.put(o.Key, body)
			time.Sleep(wait)
		}()
	}
}

// life is what is known of the session now.
func (w *world) life() (Life, *Signs) {
	w.t.Helper()
	f := NewSigns(root, ref, begin)
	for o, err := range w.store.List(w.t.Context(), layout.Prefix(root, ref), blob.ListOptions{}) {
		must.OK(w.t, err)
		parsed, _ := layout.ParseObject(root, ref, o.Key)
		f.Add(parsed, o)
	}
	must.OK(w.t, f.Read(w.t.Context(), w.store, nil))
	return f.Life(time.Now(), w.quiet), f
}

// state is whether the session runs, and when it ended.
func (w *world) state() (bool, time.Time) {
	w.t.Helper()
	life, f := w.life()
	written := f.LastWrite
	if written.IsZero() {
		written = f.Marked
	}
	objects := 1
	if f.LastWrite.IsZero() {
		objects = 0
	}
	return State(life.End, written, objects, time.Now(), w.quiet)
}

func readAll(t *testing.T, store blob.Reader, key string) string {
	t.Helper()
	var body strings.Builder
	r, err := store.Get(t.Context(), key, 0, -1)
	if err == nil {
		var n [1 << 10]byte
		for err == nil {
			var k int
			k, err = r.Read(n[:])
			body.Write(n[:k])
		}
		_ = r.Close()
	}
	return body.String()
}

// step is something that happens to a session.
type step func(w *world)

var (
	over   step = func(w *world) { w.over = time.Now() } // the end that is to be told, unless another one follows
	goesOn step = func(w *world) { w.over = time.Time{} }
	told   step = func(w *world) { w.end(w.over) }
	end    step = func(w *world) { w.end(time.Now()) }
	joined step = func(w *world) { w.join(w.over) }
	// patient: more than usual is needed to say that a session without an end ended.
	patient step = func(w *world) { w.quiet = time.Hour }
	folder  step = func(w *world) { w.put(layout.Prefix(root, ref)+"logs/", "") }
	// hourIsOver: of the end no more is known than the hour that events are stored of, the session's first.
	hourIsOver step = func(w *world) { w.over = begin.Add(time.Hour) }
	index      step = func(w *world) { w.put(layout.IndexKey(root, ref, "tasks"), "PAR1") }
)

func wait(d time.Duration) step   { return func(*world) { time.Sleep(d) } }
func write(node rayid.Node) step  { return func(w *world) { w.write(node) } }
func start(node rayid.Node) step  { return func(w *world) { w.start(node) } }
func copied(d time.Duration) step { return func(w *world) { w.copied(d) } }
func endIn(years int) step        { return func(w *world) { w.end(time.Now().AddDate(years, 0, 0)) } }
func metadata(end string) step    { return func(w *world) { w.metadata(layout.End, end) } }
func events(node rayid.Node) step {
	return func(w *world) { w.put(layout.NodeEventsKey(root, ref, node, time.Now()), "{}\n") }
}
func nextHour(node rayid.Node) step {
	return func(w *world) { w.put(layout.NodeEventsKey(root, ref, node, time.Now().Add(time.Hour)), "{}\n") }
}

// TestStates is the table of what can happen to a session.
func TestStates(t *testing.T) {
	for name, story := range map[string][]step{
		"an end, nothing later":                 {over, told},
		"an end that was stored a minute later": {over, wait(time.Minute), told},
		"no end, just written":                  {},
		"no end, quiet":                         {over, wait(11 * time.Minute)},
		"no end, quiet for less than the limit": {wait(Idle - time.Second)},
		"an end, then last chunks of a worker":  {over, told, wait(30 * time.Second), write(worker)},
		"an end, and a worker that lives on":    {end, wait(2 * time.Minute), write(worker)},
		"an end, a worker that lived on, quiet": {end, wait(2 * time.Minute), write(worker), over,
			wait(11 * time.Minute)},
		"an end, and a new head at once":       {end, wait(2 * time.Second), write(newHead)},
		"an end, and a new head's start":       {end, wait(2 * time.Second), start(newHead)},
		"an end, and the same collector again": {over, told, wait(2 * time.Minute), start(head)},
		"an end, a new head, its end": {end, wait(2 * time.Second), start(newHead),
			write(newHead), wait(time.Hour), write(newHead), over, told},
		"two ends, and a third head": {end, wait(time.Minute), write(newHead), end,
			wait(20 * time.Minute), write(rayid.Node{9})},
		"a head that was killed, then one that ended": {wait(20 * time.Minute), write(newHead),
			wait(time.Minute), over, told},
		"the same end told twice": {over, wait(11 * time.Minute), told, wait(time.Hour),
			told},
		"an end by a collector that outlives its sessions":   {over, wait(3 * time.Hour), told},
		"an end in the future":                               {over, endIn(236)},
		"an end in the future, and a session that continues": {endIn(1), wait(2 * time.Minute), write(head)},
		"an end before the start":                            {over, endIn(-1)},
		"a damaged end":                                      {over, metadata(""), wait(time.Hour)},
		"an end of which no time is known":                   {over, metadata("{}")},
		"joined":                                             {over, told, wait(2 * time.Minute), joined},
		"joined, much later":                                 {over, told, wait(5 * time.Hour), joined},
		"joined, without an end":                             {over, wait(25 * time.Hour), joined},
		"joined, and a new head": {over, told, wait(2 * time.Minute), joined,
			wait(2 * time.Minute), write(newHead), wait(2 * time.Second), write(newHead), goesOn},
		"joined, a new head, its end, joined": {over, told, wait(2 * time.Minute), joined,
			wait(2 * time.Minute), write(newHead), write(newHead), over, told, wait(2 * time.Minute), joined},
		"copied": {over, told, wait(5 * time.Hour),
			copied(2 * time.Minute)},
		"copied, without an end": {events(head), hourIsOver, wait(5 * time.Hour), copied(time.Minute), wait(Idle)},
		"copied, without an end, and an old worker's next hour": {events(head), wait(5 * time.Hour),
			copied(time.Second), wait(time.Hour), nextHour(worker)},
		"copied, without an end, and nothing that names a time": {wait(5 * time.Hour), copied(0), over, wait(Idle)},
		"a collector that was cut off and stores all of it, which goes on": {events(head), wait(5 * time.Hour),
			copied(0), wait(5 * time.Minute), write(worker), wait(9 * time.Minute)},
		"a store that answered late, and again not for less than the limit": {patient, events(head), wait(5 * time.Hour),
			copied(0), wait(time.Hour - time.Second)},
		"a store that answered late, and again not": {patient, events(head), hourIsOver, wait(5 * time.Hour), copied(0),
			wait(time.Hour)},
		"no end, one late object": {events(head), wait(5 * time.Hour), write(worker), over, wait(Idle)},
		"copied, two ends": {end, wait(2 * time.Second), write(newHead),
			wait(time.Hour), over, told, wait(5 * time.Hour), copied(2 * time.Minute)},
		"copied, and a new head": {end, wait(5 * time.Hour), copied(time.Second),
			start(newHead)},
		"copied, and an old worker's next hour": {end, wait(5 * time.Hour), copied(time.Second),
			nextHour(worker)},
		"an index that is made later":                          {over, told, wait(time.Hour), index},
		"a console that makes a folder":                        {over, told, wait(time.Hour), folder},
		"a console that makes a folder where no end is stored": {over, wait(time.Hour), folder},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start(head)
				for range 3 {
					w.write(head)
					w.write(worker)
					time.Sleep(time.Minute)
				}
				w.write(worker)
				w.write(head)
				for _, happens := range story {
					happens(w)
				}
				want := w.over.Truncate(time.Second)
				runs, end := w.state()
				says.True(t, runs == want.IsZero() && end.Equal(want), "runs %t, ended at %s; want %s", runs, end, want)
				life, signs := w.life()
				says.True(t, life.Start.Equal(begin), "started at %s", life.Start)
				says.Equal(t, signs.EndStored(), w.told, "an end is stored")
			})
		})
	}
}

func TestOnlyAMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		runs, end := w.state()
		says.True(t, runs && end.IsZero(), "just marked: runs %t, ended at %s", runs, end)
		time.Sleep(Idle)
		runs, end = w.state()
		says.True(t, !runs && end.IsZero(), "quiet: runs %t, ended at %s", runs, end)
	})
}

func TestStart(t *testing.T) {
	const name = "session_2026-11-20_10-00-00_000000_7"
	named := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	stored := named.Add(2 * time.Second)
	for what, c := range map[string]struct {
		told, marked, first time.Time
		name                string
		want                time.Time
	}{
		"told":                   {named.Add(time.Second), stored, stored, name, named.Add(time.Second)},
		"named":                  {time.Time{}, stored, stored, name, named},
		"only marked":            {time.Time{}, stored, time.Time{}, "session_x", stored},
		"told later than stored": {named.AddDate(200, 0, 0), stored, stored.Add(time.Second), name, stored},
		"named by a clock that is east": {time.Time{}, named.Add(-8 * time.Hour), time.Time{}, name,
			named.Add(-8 * time.Hour)},
		"named by a clock that was not set": {time.Time{}, stored, stored,
			"session_1970-01-01_00-00-09_000000_7", stored},
		"nothing": {want: time.Time{}},
	} {
		got := StartOf(c.told, c.name, c.marked, c.first)
		says.True(t, got.Equal(c.want), "%s: %s, want %s", what, got, c.want)
	}
}

// TestNamedStart: the time in a session's name, which is the head's local time, is moved by whole hours to the first hour
// of which there are events, if it is far from it.
func TestNamedStart(t *testing.T) {
	hour := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for named, want := range map[string]time.Time{
		"2026-11-20_12-34-56": hour.Add(34*time.Minute + 56*time.Second),
		"2026-11-20_11-58-00": hour.Add(-2 * time.Minute),
		"2026-11-20_04-34-56": hour.Add(34*time.Minute + 56*time.Second),                 // Los Angeles
		"2026-11-20_20-34-56": hour.Add(34*time.Minute + 56*time.Second),                 // Shanghai
		"2026-11-18_12-34-56": hour.Add(-48*time.Hour + 34*time.Minute + 56*time.Second), // no zone is so far away
		"1970-01-01_00-00-09": hour.Add(24 * time.Hour),                                  // not set: the first stored
	} {
		ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_" + named + "_000000_7"}
		f := NewSigns(root, ref, time.Time{})
		for i := range 3 {
			key := layout.ChunkKey(layout.NodeEventsKey(root, ref, head, hour.Add(time.Duration(2-i)*time.Hour)), 0,
				layout.Plain)
			f.Add(must.Get(layout.ParseObject(root, ref, key))(t), blob.Object{Key: key, ModTime: hour.Add(24 * time.Hour)})
		}
		if got := f.Life(hour.Add(25*time.Hour), Idle); !got.Start.Equal(want) || got.Recorded {
			t.Errorf("%s: %s, recorded %t; want %s", named, got.Start, got.Recorded, want)
		}
	}
}

// TestManyObjects: what a hostile collector stores by the million takes no more than a bounded memory.
func TestManyObjects(t *testing.T) {
	f := NewSigns(root, ref, begin)
	for i := range 100_000 {
		at := begin.Add(time.Duration(i) * time.Second)
		key := layout.SnapshotVersionKey(layout.MetadataKey(root, ref, layout.End), at)
		parsed := must.Get(layout.ParseObject(root, ref, key))(t)
		f.Add(parsed, blob.Object{Key: key, ModTime: at})
		node := rayid.Node{byte(i), byte(i >> 8), byte(i >> 16), 1}
		f.Add(layout.Object{Kind: layout.Log, Node: node}, blob.Object{ModTime: at})
	}
	says.True(t, len(f.ends) <= maxMarks && len(f.nodes) <= maxNodes+1, "%d ends, %d nodes", len(f.ends), len(f.nodes))
	says.True(t, f.ends[len(f.ends)-1].stored.Equal(begin.Add(99_999*time.Second)), "the newest end is of %s",
		f.ends[len(f.ends)-1].stored)
}

// TestOneEarlyTime: a copy gave all objects one time, before the session began. What metadata and names tell counts.
func TestOneEarlyTime(t *testing.T) {
	lost := time.Unix(0, 0)
	told, later := begin.Add(time.Hour), begin.Add(2*time.Hour)
	for name, test := range map[string]struct {
		metadata map[string]layout.EndMetadata
		hour     time.Time // of stored metrics
		end      time.Time
	}{
		"no end":                  {end: time.Time{}},
		"no end, with metrics":    {nil, later, later.Add(time.Hour)},
		"an end":                  {map[string]layout.EndMetadata{layout.End: {End: told}}, time.Time{}, told},
		"an end without a time":   {map[string]layout.EndMetadata{layout.End: {}}, time.Time{}, begin},
		"the same with metrics":   {map[string]layout.EndMetadata{layout.End: {}}, later, later},
		"an end before the start": {map[string]layout.EndMetadata{layout.End: {End: lost}}, later, later},
		"an end in the future": {map[string]layout.EndMetadata{layout.End: {End: begin.AddDate(200, 0, 0)}}, later,
			later},
		"only a joined end": {map[string]layout.EndMetadata{layout.Joined: {End: told}}, time.Time{}, told},
	} {
		f := NewSigns(root, ref, lost)
		f.Add(layout.Object{Kind: layout.Log, Node: head, Hour: test.hour}, blob.Object{Key: "a log", ModTime: lost})
		store := storetest.New()
		for which, said := range test.metadata {
			key := layout.MetadataKey(root, ref, which)
			body, _ := json.Marshal(said)
			must.OK(t, store.Put(t.Context(), key, bytes.NewReader(body)))
			parsed := must.Get(layout.ParseObject(root, ref, key))(t)
			f.Add(parsed, blob.Object{Key: key, ModTime: lost})
		}
		must.OK(t, f.Read(t.Context(), store, nil))
		if life := f.Life(begin.AddDate(0, 0, 1), Idle); !life.Start.Equal(begin) || !life.End.Equal(test.end) {
			t.Errorf("%s: from %s to %s, want from %s to %s", name, life.Start, life.End, begin, test.end)
		}
	}
}

// TestAhead: a head's clock is not ahead by what stores leave out of their times, the part of a second.
func TestAhead(t *testing.T) {
	for ahead, want := range map[time.Duration]time.Duration{999 * time.Millisecond: 0, time.Minute: time.Minute} {
		f := NewSigns(root, ref, begin)
		key := layout.SnapshotVersionKey(layout.SnapshotKey(root, ref, "/api/jobs/"), begin.Add(time.Hour+ahead))
		f.Add(must.Get(layout.ParseObject(root, ref, key))(t), blob.Object{Key: key, ModTime: begin.Add(time.Hour)})
		says.Equal(t, f.Life(begin.Add(time.Hour), Idle).Ahead, want,
			"answers stored %s before they were taken: ahead by", ahead)
	}
}

// TestMetadataIsReadWhole: what the head's collector stores about a session is known after Read, from whichever head.
func TestMetadataIsReadWhole(t *testing.T) {
	store := storetest.New()
	var start layout.StartMetadata
	var end layout.EndMetadata
	must.Fill(t, &start)
	must.Fill(t, &end)
	f := NewSigns(root, ref, begin)
	for n, stored := range []struct {
		which         string
		first, second any // of two heads: one knew nothing
	}{{layout.Start, layout.StartMetadata{}, start}, {layout.End, end, layout.EndMetadata{}}} {
		for i, value := range []any{stored.first, stored.second} {
			key := layout.MetadataKey(root, ref, stored.which)
			if i > 0 {
				key = layout.SnapshotVersionKey(key, begin.Add(time.Hour))
			}
			must.OK(t, store.Put(t.Context(), key, bytes.NewReader(must.Get(json.Marshal(value))(t))))
			f.Add(must.Get(layout.ParseObject(root, ref, key))(t),
				blob.Object{Key: key, ModTime: begin.Add(time.Duration(n+i) * time.Minute)})
		}
	}
	must.OK(t, f.Read(t.Context(), store, nil))
	// A node is that of one head, and the times of an end are those of the last.
	each := []string{"NodeID", "Start", "End"}
	for _, name := range append(must.ZeroFields(f.Start), must.ZeroFields(f.End)...) {
		says.True(t, slices.Contains(each, name), "%s is lost: add it to mergeStarts or readMarks in signs.go", name)
	}
}
