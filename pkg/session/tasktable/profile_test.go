package tasktable

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

func TestProfileEventsAreOrderedAndBounded(t *testing.T) {
	texts := stringtable.New()
	name := texts.Intern([]byte("a"))
	var s shard
	id := rayid.Task{1}
	p, i := s.findOrAdd(&id, 0)
	var b []eventjson.ProfileEvent
	for n := range 2 * maxProfileEvents {
		e := eventjson.ProfileEvent{Start: int64(n), End: int64(4*maxProfileEvents - n), Name: name}
		b = append(b, e)
	}
	for range 3 {
		s.addProfile(p, i, b)
	}
	// known, but in another event
	s.addProfile(p, i, []eventjson.ProfileEvent{{Start: 5, End: int64(4*maxProfileEvents - 5), Name: name}})
	before := p.profile[i]
	s.addProfile(p, i, b)
	says.Equal(t, p.profile[i], before, "a repeated event was stored again")
	view := texts.View()
	for moment, last := range map[int64]int64{math.MaxInt64: 4 * maxProfileEvents, 3333: 3333} {
		got := s.profileEvents(nil, &view, p.profile[i], moment)
		must.True(t, len(got) == maxProfileEvents, "%d profile events until %d, want %d", len(got), moment,
			maxProfileEvents)
		for n, e := range got {
			if want := last - maxProfileEvents + 1 + int64(n); e.End != want || e.Start != 4*maxProfileEvents-want {
				t.Fatalf("event %d until %d is from %d to %d, want one that ends at %d", n, moment, e.Start, e.End, want)
			}
		}
	}
}

// TestFullTablesSaySo: no load goes on with strings that were not stored.
func TestFullTablesSaySo(t *testing.T) {
	tables := NewBuilder()
	must.OK(t, tables.SpillIfOverBudget(t.Context(), 0))
	tables.Strings = stringtable.NewBounded(1)
	for range 2 {
		tables.Strings.Intern(make([]byte, 1<<16))
		tables.Strings.Intern([]byte("new"))
	}
	says.ErrorIs(t, tables.SpillIfOverBudget(t.Context(), 0), errFull, "texts are full")
	tables = NewBuilder()
	tables.shards[7].bytes.Full = true
	says.ErrorIs(t, tables.SpillIfOverBudget(t.Context(), 0), errFull, "a shard is full")
}

// TestHashesCannotBeChosen: IDs whose parts cancel out in a hash that anybody can work out.
func TestHashesCannotBeChosen(t *testing.T) {
	seen := map[uint32]bool{}
	const n = 10_000
	for i := range uint64(n) {
		var id rayid.Task
		binary.LittleEndian.PutUint64(id[0:], i*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint64(id[8:], i)
		seen[hashAttempt(&id, 0)] = true
	}
	says.True(t, len(seen) >= n*9/10, "%d IDs have %d hashes", n, len(seen))
}

// TestPausedAreCounted: what is kept besides rows counts as memory as well.
func TestPausedAreCounted(t *testing.T) {
	const n = 10_000
	held := func(flags eventjson.TaskFlags) (building, finished int64) {
		b := NewBuilder()
		for i := range uint64(n) {
			u := eventjson.TaskUpdate{Flags: flags}
			binary.BigEndian.PutUint64(u.ID[:], i)
			b.MergeTask(&u)
		}
		building = b.bytesBesidesRows() + b.rowBytes()
		return building, b.Freeze().MemoryBytes()
	}
	building, finished := held(0)
	pausedBuilding, pausedFinished := held(eventjson.HasPaused)
	if least := int64(n * unsafe.Sizeof(attemptKey{})); pausedBuilding-building < least ||
		pausedFinished-finished < least {
		t.Errorf("%d and %d bytes are counted for %d entries, want at least %d", pausedBuilding-building,
			pausedFinished-finished, n, least)
	}
}

// TestLaterErrorWithoutText: an error's text is not lost to a later failure that has none, in whatever order they are
// read.
func TestLaterErrorWithoutText(t *testing.T) {
	type failed struct {
		at         int64
		kind, text string
	}
	first := failed{10, "TASK_EXECUTION_EXCEPTION", "ValueError: boom"}
	second := failed{20, "TASK_EXECUTION_EXCEPTION", "ValueError: again"}
	empty := failed{30, "WORKER_DIED", ""}
	for _, order := range [][]failed{{first, second, empty}, {empty, second, first}, {second, empty, first},
		{first, empty, second, empty}} {
		b := NewBuilder()
		for _, f := range order {
			b.MergeTask(&eventjson.TaskUpdate{ID: rayid.Task{1}, HasError: true,
				ErrorType: b.Strings.Intern([]byte(f.kind)), ErrorText: []byte(f.text),
				Transitions: []eventjson.Transition{{State: taskstate.Failed, Time: f.at}}})
		}
		table := b.Freeze()
		n := table.Len()
		must.True(t, n == 1, "%d rows", n)
		if kind, text, ok := table.Row(0, 0).Failure(); !ok || string(kind) != second.kind ||
			string(text) != second.text {
			t.Errorf("%v: %s %q", order, kind, text)
		}
	}
}

// TestCallSiteWithoutText: of two definitions that differ only in that one has a call site without text, the same
// counts in whatever order they are read.
func TestCallSiteWithoutText(t *testing.T) {
	for _, order := range [][]bool{{true, false}, {false, true}} {
		b := NewBuilder()
		for _, has := range order {
			b.MergeTask(&eventjson.TaskUpdate{ID: rayid.Task{1}, Definition: &eventjson.Definition{
				Kind: b.Strings.Intern([]byte(eventjson.TypeNormal)), HasCallSite: has}})
		}
		if _, has := b.Freeze().Row(0, 0).CallSite(); !has {
			t.Errorf("%v: there is no call site", order)
		}
	}
}

// TestSearchIsBounded: what it takes to merge an event does not grow with the number of those before it, though
// repeated events are shown once.
func TestSearchIsBounded(t *testing.T) {
	const n = 10 * maxSearched
	b := NewBuilder()
	name := b.Strings.Intern([]byte("a"))
	merge := func(i int) {
		b.MergeTask(&eventjson.TaskUpdate{
			ID: rayid.Task{1}, Transitions: []eventjson.Transition{{State: taskstate.RunningInRayGet, Time: int64(i)}},
			Profiler: eventjson.Profiler{Kind: name},
			Profile:  []eventjson.ProfileEvent{{Start: int64(i), End: int64(i + 1), Name: name}},
		})
	}
	for range 2 {
		for i := range n {
			merge(i)
		}
	}
	merge(n - 1)
	says.Equal(t, b.shards[0].transitions.Len(), 2*n,
		"stored transitions: one that came just before is looked for, one that came long before is not")
	table := b.Freeze()
	row := table.Row(0, 0)
	states := row.States(nil)
	says.True(t, len(states) == 1 && states[0].Time == n-1, "states %v, want the last time of one", states)
	var profile Profile
	if row.Profile(&profile); len(profile.Events) != maxProfileEvents || profile.Events[0].Start != n-maxProfileEvents {
		t.Errorf("%d profile events, want the last %d, each once", len(profile.Events), maxProfileEvents)
	}
}

// TestExtraDataIsBounded: of an attempt with very much extra data, that of the last events is shown, and all events.
// Events may share one text, and a text has the task's own ID as a single byte.
func TestExtraDataIsBounded(t *testing.T) {
	for name, extra := range map[string]string{
		"long":    `{"a": "` + strings.Repeat("x", maxExtraBytes/10) + `"}`,
		"own IDs": `{"a": "` + strings.Repeat("\x00", maxExtraBytes/10/(2*rayid.TaskSize)) + `"}`,
	} {
		b := NewBuilder()
		id := b.Strings.Intern([]byte(extra))
		update := &eventjson.TaskUpdate{ID: rayid.Task{1}}
		update.Profiler.ID = id
		for n := range 100 {
			update.Profile = append(update.Profile, eventjson.ProfileEvent{Start: int64(n), End: int64(n + 1), Extra: id})
		}
		b.MergeTask(update)
		var profile Profile
		must.True(t, b.Freeze().Row(0, 0).Profile(&profile), "%s: no profile", name)
		with := 0
		for _, e := range profile.Events {
			if string(e.Extra) != "{}" && e.Start > 90 {
				with++
			}
		}
		says.True(t, len(profile.Events) == 100 && with == 9, "%s: %d events are shown, the last %d with extra data",
			name, len(profile.Events), with)
	}
}
