package browser

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// searchLogs: what a search finds stands by log, folded and drawn when it is opened; marked logs are read side by side
// by time, and a line of them leads to its own log; with keys alone, in windows of each width, and without scripts.
func searchLogs(t *testing.T, o own) {
	type visit struct {
		Width, Wide, Groups, Open, Drawn, Opened, Logs, Rows, Columns int
		About                                                         []string
		Marked, Line, Printed                                         string
	}
	seen := inWindows[visit](t, "search.js", map[string]any{"base": o.URL, "session": o.Failed, "text": "e"}, desk)
	says.True(t, seen.Plain >= 10, "%d lines without scripts", seen.Plain)
	for _, v := range seen.Visits {
		about := strings.Join(v.About, ", ")
		if v.Wide > 0 || v.Groups < 5 || v.Open != 3 || v.Drawn != 0 || v.Opened == 0 ||
			!strings.Contains(about, "raylet · head ") || !strings.Contains(about, "driver of job ") {
			t.Errorf("results: %+v", v)
		}
		says.Equal(t, v.Printed, "true false", "on paper the results and the form")
		if v.Logs != 2 || v.Rows == 0 || v.Columns > 0 || !strings.Contains(v.Marked, o.Failed+"/logs?log=") ||
			!strings.Contains(v.Line, "/log?") {
			t.Errorf("side by side: %+v", v)
		}
	}
	logs := o.Failed + "/logs?log=" + o.Node + "/raylet.out&log=" + o.Node + "/gcs_server.out"
	audit(t, o.URL, []audited{
		{"logs side by side", logs, ".merged .line"},
		{"logs in columns", logs + "&columns=1", ".merged.wide .line"},
	})
}
