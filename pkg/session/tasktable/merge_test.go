package tasktable

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// TestLaterErrorWithoutText: an error's text is not lost to a later failure that has none, in whatever order they are read.
func TestLaterErrorWithoutText(t *testing.T) {
	type failed struct {
		at         int64
		kind, text string
	}
	first := failed{10, "TASK_EXECUTION_EXCEPTION", "ValueError: boom"}
	second := failed{20, "TASK_EXECUTION_EXCEPTION", "ValueError: again"}
	empty := failed{30, "WORKER_DIED", ""}
	for _, order := range [][]failed{{first, second, empty}, {empty, second, first}, {second, empty, first}, {first, empty, second, empty}} {
		b := NewBuilder()
		for _, f := range order {
			b.MergeTask(&eventjson.TaskUpdate{ID: rayid.Task{1}, HasError: true, ErrorType: b.Strings.Intern([]byte(f.kind)), ErrorText: []byte(f.text),
				Transitions: []eventjson.Transition{{State: taskstate.Failed, Time: f.at}}})
		}
		table := b.Freeze()
		if n := table.Len(); n != 1 {
			t.Fatalf("%d rows", n)
		}
		if kind, text, ok := table.Row(0, 0).Failure(); !ok || string(kind) != second.kind || string(text) != second.text {
			t.Errorf("%v: %s %q", order, kind, text)
		}
	}
}
