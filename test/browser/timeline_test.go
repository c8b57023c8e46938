package browser

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// readTimeline: tasks are drawn over time, zoomed and opened with keys alone, and zoomed by dragging, in windows of
// each width, in light and in dark colours, which its drawing has from the page.
func readTimeline(t *testing.T, o own) {
	type visit struct {
		Width, All, Inked, Marks int
		Wide, Zoomed, Dragged    float64
		Named                    float64
		Picked, Opened, Colour   string
		Longest                  []string
	}
	seen := inWindows[visit](t, "timeline.js", map[string]any{"base": o.URL, "session": o.Failed}, widths...)
	var life struct{ Data struct{ Begin, End float64 } }
	get(t, o.URL+o.Failed+"/api/history/timeline", &life)
	whole := life.Data.End - life.Data.Begin
	for _, v := range seen.Visits {
		says.True(t, v.Wide <= 0 && v.All != 0 && v.Inked >= 1000 && v.Marks != 0, "what is drawn: %+v", v)
		says.True(t, len(v.Longest) != 0 && strings.Contains(v.Longest[0], "s"), "the longest attempts: %q", v.Longest)
		says.True(t, v.Named >= 50 && v.Named <= 99.5,
			"names of nodes and workers do not stand on the page's paper: %+v", v)
		says.True(t, v.Zoomed >= whole/4-10 && v.Zoomed <= whole/4+10 && v.Dragged >= whole/8 && v.Dragged <= whole/2,
			"zoom of %v ms: %+v", whole, v)
		says.Equal(t, v.Colour, "outcome", "the address asks for the colours of outcomes, and the page chooses")
		if !strings.Contains(v.Picked, "task ") || !strings.Contains(v.Opened, o.Failed+"/#/jobs/") || !strings.Contains(v.Opened, "/tasks/") {
			t.Errorf("a task: %+v", v)
		}
	}
	audit(t, o.URL, []audited{{"timeline", o.Failed + "/timeline", ".canvas[data-tasks]"}})
}
