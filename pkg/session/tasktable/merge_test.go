package tasktable

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

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
		if n := table.Len(); n != 1 {
			t.Fatalf("%d rows", n)
		}
		if kind, text, ok := table.Row(0, 0).Failure(); !ok || string(kind) != second.kind ||
			string(text) != second.text {
			t.Errorf("%v: %s %q", order, kind, text)
		}
	}
}

// TestCallSiteWithoutText: of two definitions that differ only in that one has a call site without text, the same counts
// in whatever order they are read.
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
	if got := b.shards[0].transitions.Len(); got != 2*n {
		t.Errorf("%d transitions are stored, want %d: one that came long before is not looked for, one that came just before is", got, 2*n)
	}
	table := b.Freeze()
	row := table.Row(0, 0)
	if states := row.States(nil); len(states) != 1 || states[0].Time != n-1 {
		t.Errorf("states %v, want the last time of one", states)
	}
	var profile Profile
	if row.Profile(&profile); len(profile.Events) != maxProfileEvents || profile.Events[0].Start != n-maxProfileEvents {
		t.Errorf("%d profile events, want the last %d, each once", len(profile.Events), maxProfileEvents)
	}
}
