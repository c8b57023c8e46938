package browser

import (
	"fmt"
	"net/url"
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
	}
	audit(t, o.URL, []audited{
		{"log with a range", log + "&q=line&line=1100#L1100-L1103", ".line.in"},
		{"log, narrowed", log + "&level=error", ".log.scrolls"},
	})
}
