package browser

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// readLogs: a log is read from its beginning to its end and back with a bounded number of lines on the page, searched
// without leaving it, and ranges of its lines have addresses and files, with keys and in windows of each width.
func readLogs(t *testing.T, o own) {
	log := o.Failed + "/log?" + url.Values{"node_id": {o.Node}, "file": {longLog}}.Encode()
	type visit struct {
		Width, Most, Alone, Marked, Copied, Again int
		Wide                                      float64
		Last, First, Found, Error, Range          string
		Sight                                     bool
		Menu                                      []float64
	}
	seen := inWindows[visit](t, "logview.js",
		map[string]any{"base": o.URL, "log": log, "lines": longLines, "error": longError}, desk)
	for _, v := range seen.Visits {
		says.True(t, v.Wide <= 0 && v.Most <= 2000 && v.Last == fmt.Sprintf("L%d", longLines) && v.First == "L1",
			"scrolling: %+v", v)
		says.True(t, v.Found == "#L2001" && v.Sight && v.Alone == 1 && v.Error == fmt.Sprintf("#L%d", longError),
			"searching: %+v", v)
		if v.Range != fmt.Sprintf("#L%d-L%d", longError, longError+3) || v.Marked != 4 || v.Copied != 4 ||
			v.Again != 4 {
			t.Errorf("ranges: %+v", v)
		}
		says.True(t, len(v.Menu) == 6 && slices.Min(v.Menu) >= 0, "the menu of Download leaves the window: %+v", v)
	}
	audit(t, o.URL, []audited{
		{"log with a range", log + "&q=line&line=1100#L1100-L1103", ".line.in"},
		{"log, narrowed", log + "&level=error", ".log.scrolls"},
	})
}

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
