package browser

import (
	"maps"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// widths are those of the windows in which the server's own pages are used, in pixels: on a phone, beside an editor, on
// a desk.
var widths = []int{360, 800, desk}

const desk = 1400

// windows is what a program reports that used pages in windows.
type windows[V any] struct {
	Visits         []V
	Plain          int // lines that search.js saw without scripts
	Errors, Others []string
}

// inWindows runs a program that uses pages in a window of each width in light colours, and of some in dark: what a
// program does with keys and the mouse is the same in both. No page has an error or asks another host.
func inWindows[V any](t *testing.T, script string, job map[string]any, dark ...int) (seen windows[V]) {
	t.Helper()
	job = maps.Clone(job)
	job["widths"], job["dark"] = widths, dark
	run(t, script, job, &seen)
	for _, e := range seen.Errors {
		t.Error(e)
	}
	for _, address := range seen.Others {
		t.Errorf("asks %s", address)
	}
	must.True(t, len(seen.Visits) == len(widths)+len(dark), "%d visits", len(seen.Visits))
	return seen
}
