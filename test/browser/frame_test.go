package browser

import (
	"fmt"
	"strings"
	"testing"
)

// maxScripts bounds the scripts of a page of the history server's own, in bytes as they are sent.
const maxScripts = 150 << 10

// framed: no page is wider than its window or asks another host, and what is chosen by keyboard of colours and the zone
// of times counts on all pages, and in the dashboard.
func framed(t *testing.T, o own) {
	pages := []string{"/homepage", "/homepage?q=" + failedCluster, "/homepage?group=cluster", "/fleet?from=2020-01-01",
		o.Failed + "/overview", o.Failed + "/findings", o.Failed + "/timeline", o.Failed + "/search",
		o.Failed + "/logs", o.Failed + "/note",
		o.Failed + "/compare?with=" + o.Other,
		o.Metrics + "/grafana/d/rayDefaultDashboard/default-dashboard", "/nothing/here"}
	widths := []int{360, 800, 1400, 2560}
	var seen struct {
		Pages []struct {
			Path        string
			Width, Wide int
			Dark        bool
		}
		Others, Errors []string
		Scripts        map[string]int
		Chosen         map[string]struct{ Time, Ground, Dashboard string }
		Views          [][]string
	}
	run(t, "frame.js", map[string]any{"base": o.URL, "list": "/homepage", "session": o.Failed + "/findings",
		"widths": widths, "pages": pages}, &seen)
	if got := fmt.Sprint(seen.Views); got != "[[] [Failures <b>] [Failures <b>] [Failures <b>] [] [] [false]]" {
		t.Errorf("saved views: %s", got)
	}
	if len(seen.Pages) != 2*len(pages)*len(widths) || len(seen.Chosen) != 3 {
		t.Fatalf("%d pages and %d choices", len(seen.Pages), len(seen.Chosen))
	}
	for _, p := range seen.Pages {
		if p.Wide > 0 {
			t.Errorf("%s is %d pixels wider than a window of %d, dark %v", p.Path, p.Wide, p.Width, p.Dark)
		}
	}
	for path, bytes := range seen.Scripts {
		if bytes > maxScripts {
			t.Errorf("%s has %d bytes of scripts", path, bytes)
		}
	}
	for _, problem := range append(seen.Errors, seen.Others...) {
		t.Error(problem)
	}
	first, chosen, other := seen.Chosen["at first"], seen.Chosen["chosen"], seen.Chosen["on another page"]
	if !strings.Contains(first.Time, "GMT+9 · ") || !strings.HasSuffix(chosen.Time, " UTC") ||
		!strings.HasSuffix(other.Time, " UTC") {
		t.Errorf("times are %q, then %q and %q", first.Time, chosen.Time, other.Time)
	}
	if first.Ground == chosen.Ground || other.Ground != chosen.Ground {
		t.Errorf("the ground is %s, then %s and %s", first.Ground, chosen.Ground, other.Ground)
	}
	if chosen.Dashboard != "dark Etc/UTC" {
		t.Errorf("the dashboard will have %q", chosen.Dashboard)
	}
}
