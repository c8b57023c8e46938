package findings

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// endedUnseen reports whether a driver ended although its job still counts as running, because what reports the ends of jobs was lost with the
// head. Then the exception that ended the driver is in the last line that the driver printed.
func endedUnseen(log *logText) bool {
	if log == nil {
		return false
	}
	trace, at := output.LastTraceback(log.text)
	if at < 0 {
		return false
	}
	trace = output.OwnLines(trace)
	what, last := output.ExceptionOf(trace), ""
	for line := range strings.Lines(trace) {
		if strings.TrimSpace(line) != "" && line[0] != ' ' && line[0] != '\t' { // a raylet's last lines, which Ray prints, are indented
			last = line
		}
	}
	return what.Type != "" && strings.Contains(last, what.Type)
}
