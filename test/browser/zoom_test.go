package browser

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// zoomMetrics: dragging over a panel shows that range on all panels and in the address, from which one comes back; a
// range can be typed and reset with keys alone, and another session's figures are drawn over a session's.
func zoomMetrics(t *testing.T, o own) {
	type visit struct {
		Width, Wide, Dashed                int
		Whole, Dragged, Back, Typed, Reset [2]float64
	}
	const page = "/grafana/d/rayDefaultDashboard/default-dashboard"
	seen := inWindows[visit](t, "zoom.js",
		map[string]any{"base": o.URL, "page": o.Metrics + page, "with": o.Other}, desk)
	for _, v := range seen.Visits {
		whole, dragged := v.Whole[1]-v.Whole[0], v.Dragged[1]-v.Dragged[0]
		if v.Wide > 0 || dragged <= 0 || dragged > whole/2 || v.Dragged[0] <= v.Whole[0] || v.Back != v.Whole ||
			v.Reset != v.Whole {
			t.Errorf("dragging: %+v", v)
		}
		says.True(t, v.Typed[1] == v.Whole[1] && v.Typed[1]-v.Typed[0] == 60_000 && v.Dashed != 0,
			"a typed range, and another session's figures: %+v", v)
	}
	audit(t, o.URL, []audited{
		{"panels of a typed range", o.Metrics + page + "?from=1m+ago&with=" + o.Other, ".panel svg"},
		{"panels of no range", o.Metrics + page + "?from=lunch", "#wrong"},
	})
}
