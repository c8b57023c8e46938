package browser

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// theWay: from the list to the cause of a failure, its line of a log, the metrics around it and back to the list, and
// through the other pages: with keys alone, in windows of each width. What has the focus is always to be seen, no page
// is wider than its window, and all pages of the session have the same header.
func theWay(t *testing.T, o own) {
	type step struct {
		What     string `json:"what"`
		Selector string `json:"selector,omitempty"`
		Text     string `json:"text,omitempty"`
		Wait     string `json:"wait"`
		leads    string
	}
	steps := []step{
		{"line", ".evidence a", "Open the log", ".line.shown", o.Failed + "/log?"},
		{"back from the line", "", "", ".finding", o.Failed + "/findings"},
		{"metrics", ".meta a", "Metrics around it", ".panel svg path", "/default-dashboard?from="},
		{"back from the metrics", "", "", ".finding", o.Failed + "/findings"},
		{"back to the list", "", "", "tr.row", "/homepage?q=" + failedCluster},
		{"dashboard", "a.name", failedCluster, "h1", o.Failed + "/"},
		{"back from the dashboard", "", "", "tr.row", "/homepage?q=" + failedCluster},
		{"cause", ".because a", "", ".finding", o.Failed + "/findings"},
		{"overview", ".tabs a", "Overview", ".tiles", o.Failed + "/overview"},
		{"timeline", ".overview a", "Timeline around it", ".canvas[data-tasks]", o.Failed + "/timeline?from="},
		{"logs", ".tabs a", "Logs", "[data-logs]", o.Failed + "/search"},
		{"a log", ".names a", "", ".log.scrolls", o.Failed + "/log?"},
		{"comparison", ".tabs a", "Compare", "form.filters", o.Failed + "/compare"},
		{"runs of the cluster", ".crumbs a", failedCluster, "tr.row", "/homepage?cluster=" + failedCluster},
		{"fleet", ".bar nav a", "Fleet", ".tiles", "/fleet"},
		{"list", ".bar nav a", "Clusters", "tr.row", "/homepage"},
	}
	type visit struct {
		Width, Keys int
		Dark        bool
		Steps       []struct {
			What, URL, Facts string
			Wide             float64
			Sight            bool
		}
	}
	seen := inWindows[visit](t, "way.js", map[string]any{"base": o.URL, "cluster": failedCluster, "steps": steps},
		desk)
	for _, v := range seen.Visits {
		t.Logf("%d pixels, dark %v: %d keys", v.Width, v.Dark, v.Keys)
		for i, s := range v.Steps {
			leads := o.Failed + "/findings"
			if i > 0 {
				leads = steps[i-1].leads
			}
			says.True(t, strings.Contains(s.URL, leads) && s.Wide <= 0 && s.Sight,
				"%d pixels, dark %v, %s: %+v, want %s", v.Width, v.Dark, s.What, s, leads)
			ofSession := strings.Contains(leads, o.Failed) && leads != o.Failed+"/" || s.What == "metrics"
			if want := v.Steps[0].Facts; ofSession && s.Facts != want {
				t.Errorf("%d pixels, dark %v, %s: the header says %q, and %q before", v.Width, v.Dark, s.What, s.Facts, want)
			}
		}
		says.Equal(t, len(v.Steps), len(steps)+1, "%d pixels, dark %v: steps", v.Width, v.Dark)
	}
}
