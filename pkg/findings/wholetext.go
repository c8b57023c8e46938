package findings

import (
	"cmp"
	"strings"

	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// execution is the name of the profile event of an attempt's run. If the attempt raised an exception, the event has its
// whole traceback (ProfileEvent in profile_event.pxi of _raylet), unless the attempt streamed its results.
const execution = "task:execute"

// executed returns when the function of an attempt had ended, as its worker says (Unix ns), and the traceback of the
// exception that it raised, if it raised one. end is 0 if that is not stored.
func executed(row tasktable.Row) (end int64, trace string) {
	var profile tasktable.Profile
	row.Profile(&profile)
	for _, e := range profile.Events {
		if string(e.Name) != execution {
			continue
		}
		extra, _ := pyjson.ParseObject(e.Extra)
		end, trace = e.End, strings.TrimRight(extra.String("traceback"), "\n")
		if !strings.HasPrefix(trace, output.TracebackStart) {
			trace = ""
		}
	}
	return end, trace
}

// endedUnseen is executed for an attempt of which its caller did not say that it had ended, as that ended just then: it
// returned, or raised an exception of its own. Workers that are told to exit, and tasks that are cancelled, raise one.
func (a attempt) endedUnseen() (end int64, trace string) {
	end, trace = executed(a.row)
	switch output.ExceptionOf(trace).Type {
	case "SystemExit", "KeyboardInterrupt":
		return 0, ""
	}
	return end, trace
}

// wholeText returns the traceback of the exception that an attempt raised, or kept if that is not stored: Ray's error
// keeps only the end of a traceback.
func wholeText(row tasktable.Row, kept string) string {
	_, trace := executed(row)
	return cmp.Or(trace, kept)
}
