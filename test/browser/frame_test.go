package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// framed: what is chosen by keyboard of colours and the zone of times counts on all pages, and in the dashboard; views
// of the list are saved, opened and removed by keyboard.
func framed(t *testing.T, o own) {
	var seen struct {
		Chosen         map[string]struct{ Time, Ground, Dashboard string }
		Days           map[string]string
		Views          [][]string
		Sheets         []string
		Errors, Others []string
	}
	sheets := [][2]string{{"/homepage", ".settings > summary"}, {"/homepage", ".menu > summary"},
		{o.Failed + "/log?node_id=" + o.Node + "&file=raylet.out", ".files > summary"},
		{o.Failed + "/", "ray-history-bar .menu:not([hidden]) > summary"}}
	run(t, "frame.js", map[string]any{"base": o.URL, "list": "/homepage", "session": o.Failed + "/findings",
		"axis": o.Failed + "/timeline", "sheets": sheets}, &seen)
	for i, s := range sheets {
		want := s[1] + ": open, closed focused, open, closed"
		says.True(t, i < len(seen.Sheets) && seen.Sheets[i] == want, "what lies over pages: %q, want %q", seen.Sheets,
			want)
	}
	says.Equal(t, fmt.Sprint(seen.Views), "[[] [Failures <b>] [Failures <b>] [Failures <b>] [] [] [false]]",
		"saved views")
	for zone, want := range map[string]string{"Asia/Kolkata": "28T18:30 29T18:30 30T18:30", // its midnights
		"Europe/Berlin": "28T23:00 29T22:00 30T22:00", "Etc/UTC": "29T00:00 30T00:00 31T00:00"} {
		says.Equal(t, seen.Days[zone], want, "days of an axis in %s begin at", zone)
	}
	must.True(t, len(seen.Chosen) == 3, "%d choices", len(seen.Chosen))
	for _, problem := range append(seen.Errors, seen.Others...) {
		t.Error(problem)
	}
	first, chosen, other := seen.Chosen["at first"], seen.Chosen["chosen"], seen.Chosen["on another page"]
	if !strings.Contains(first.Time, "GMT+9 · ") || !strings.HasSuffix(chosen.Time, " UTC") ||
		!strings.HasSuffix(other.Time, " UTC") {
		t.Errorf("times are %q, then %q and %q", first.Time, chosen.Time, other.Time)
	}
	says.True(t, first.Ground != chosen.Ground && other.Ground == chosen.Ground, "the ground is %s, then %s and %s",
		first.Ground, chosen.Ground, other.Ground)
	if first.Dashboard != " Asia/Tokyo" { // without a choice it shows local times, as our pages do
		t.Errorf("the dashboard has %q at first", first.Dashboard)
	}
	says.Equal(t, chosen.Dashboard, "dark Etc/UTC", "the dashboard will")
}
