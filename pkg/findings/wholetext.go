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

// wholeText returns the traceback of the exception that an attempt raised, or kept if that is not stored: Ray's error
// keeps only the end of a traceback.
func wholeText(row tasktable.Row, kept string) string {
	var profile tasktable.Profile
	row.Profile(&profile)
	for _, e := range profile.Events {
		if string(e.Name) != execution {
			continue
		}
		extra, _ := pyjson.ParseObject(e.Extra)
		if trace := extra.String("traceback"); strings.HasPrefix(trace, output.TracebackStart) {
			return strings.TrimRight(trace, "\n")
		}
	}
	return kept
}
