package browser

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// otherAnswers: pages ask again when the server says when, or when another program answers for it, and only then; what
// they say is the server's sentence, or one of their own where another program answers. Drawings follow the chosen zone
// of times. The list writes how a session ended into the session's own row.
func otherAnswers(t *testing.T, o own) {
	var seen struct {
		Pages map[string]struct {
			Says, Then string
			Asked      int
		}
		List struct {
			States []string
			Focus  string
			Open   int
			Kept   bool
		}
		Errors, Others []string
	}
	run(t, "answers.js", map[string]any{"base": o.URL, "session": o.Failed,
		"log":      o.Failed + "/log?" + url.Values{"node_id": {o.Node}, "file": {longLog}}.Encode(),
		"metrics":  o.Metrics + "/grafana/d/rayDefaultDashboard/default-dashboard",
		"clusters": []string{fineCluster, failedCluster}}, &seen)
	for _, problem := range append(seen.Errors, seen.Others...) {
		t.Error(problem)
	}
	for name, want := range map[string]struct {
		says  string
		asked int
	}{
		"log":                 {"Not signed in.", 2},
		"line":                {"No such log.", 13},
		"numbers":             {"1", 2},
		"timeline":            {"task attempts on ", 3},
		"timeline, too large": {"Too large.", 1},
		"timeline of days":    {"/11, ", 1},
		"panels":              {":", 0},
		"signed out":          {"Reload the page.", 1},
		"search":              {"The server cannot answer now (status 502).", 10},
		"markdown":            {"Not copied: Too large.", 1},
		"list":                {"Clusters", 5},
	} {
		got := seen.Pages[name]
		says.True(t, strings.Contains(got.Says, want.says) && got.Asked == want.asked,
			"%s asked %d times and says %q, want %d times and %q", name, got.Asked, got.Says, want.asked, want.says)
	}
	for _, name := range []string{"timeline", "timeline of days", "panels"} {
		if got := seen.Pages[name]; got.Then == got.Says {
			t.Errorf("%s says %q in both zones", name, got.Says)
		}
	}
	if got := seen.List; !slices.Equal(got.States, []string{"75 %", "failed"}) || got.Focus != "why" || got.Open != 1 ||
		!got.Kept {
		t.Errorf("the list: %+v", got)
	}
}
