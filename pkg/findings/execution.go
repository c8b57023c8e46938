package findings

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// execution is the name of the profile event of an attempt's run. If the attempt raised an exception, the event has its
// whole traceback (ProfileEvent in profile_event.pxi of _raylet), unless the attempt streamed its results.
const execution = "task:execute"

// executionEnd returns when the function of an attempt had ended, as its worker says (Unix ns; 0 if that is not
// stored), and the traceback of the exception that it raised; "" if it raised none.
func executionEnd(row tasktable.Row) (end int64, trace string) {
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

// interrupted is the exception that a call raises when somebody cancels it.
const interrupted = "KeyboardInterrupt"

// unreportedEnd returns what executionEnd does, for an attempt of whose end its caller said nothing, because the caller
// ended just then. It returns 0 and "" if the function was ended from outside: workers that are told to exit and tasks
// that are cancelled raise an exception, too.
func unreportedEnd(row tasktable.Row) (end int64, trace string) {
	end, trace = executionEnd(row)
	switch output.ExceptionOf(trace).Type {
	case "SystemExit", interrupted:
		return 0, ""
	}
	return end, trace
}
