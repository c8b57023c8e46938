package browser

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// withMetrics is the recording whose session has metrics: those of a real node over the session's hour, and the Grafana
// dashboards that its Ray made.
const withMetrics = "ray-2.60"

// writeMetrics stores metrics of a recording's session as its collectors would.
func writeMetrics(t *testing.T, a *recording.Archive, ref layout.Session, dir string) {
	t.Helper()
	store, err := local.Open(dir)
	must.OK(t, err)
	g := metricsgen.Session{
		Ref: ref, Begin: time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC), Nodes: 2, Series: 1041, Hours: 1,
		Interval: 15 * time.Second, ChunkReads: 60,
	}
	must.Get(g.Store(t.Context(), store, layout.DefaultRoot))(t)
	tmpRay := t.TempDir()
	must.OK(t, a.ExtractTmpRay("head", tmpRay))
	files, err := filepath.Glob(filepath.Join(tmpRay, ref.Name, "metrics", "grafana", "dashboards", "*.json"))
	must.True(t, err == nil && len(files) != 0, "%s has no Grafana dashboards: %v", withMetrics, err)
	w, err := zstd.NewWriter(nil)
	must.OK(t, err)
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		key := layout.GrafanaDashboardKey(layout.DefaultRoot, ref, filepath.Base(file))
		must.OK(t, store.Create(t.Context(), key, bytes.NewReader(w.EncodeAll(data, nil))))
	}
}

// shownFrame is a frame of panels as metrics.js reports it.
type shownFrame struct {
	URL, Text, Tip string
	To             int64
	Panels         []struct {
		Title, Text string
		Drawn       int
	}
}

// TestMetrics: the dashboard's pages show a stored session's metrics, and never ask to set up Prometheus and Grafana:
// by path, at a moment and by cookie; the panels follow the bar's replay.
func TestMetrics(t *testing.T) {
	s := server(t)
	base, ref := s.Base(withMetrics), s.Sessions[withMetrics]
	life := lifeOf(t, base)
	moment := fmt.Sprintf("/at/%d", (life.From+life.To)/2)
	var seen struct {
		Pages []struct {
			Path, Text string
			Frames     []shownFrame
		}
		Replayed, ByCookie shownFrame
		Errors             []string
	}
	run(t, "metrics.js", map[string]any{
		"base": base, "pages": []string{"/#/metrics", "/#/overview", "/#/serve", moment + "/#/metrics"},
		"enter": fmt.Sprintf("%s/enter_cluster/%s/%s/%s", s.URL, ref.Namespace, ref.Cluster, ref.Name),
		"panel": s.URL + "/grafana/d-solo/rayDefaultDashboard/default-dashboard?orgId=1&theme=dark&panelId=41&from=now-1h&to=now",
	}, &seen)
	for _, e := range seen.Errors {
		t.Error(e)
	}
	for _, p := range seen.Pages {
		says.True(t, !strings.Contains(p.Text, "Set up Prometheus"), "%s asks to set up Prometheus and Grafana", p.Path)
		drawn := 0
		for _, f := range p.Frames {
			for _, panel := range f.Panels {
				drawn += panel.Drawn
				says.True(t, panel.Drawn != 0 || strings.Contains(panel.Text, "No data"), "%s: the panel %s shows %q",
					p.Path, panel.Title, panel.Text)
			}
		}
		if panels := len(p.Frames); panels == 0 || drawn == 0 && p.Path != "/#/serve" {
			t.Errorf("%s: %d frames, in which %d lines are drawn: %+v", p.Path, panels, drawn, p.Frames)
		}
	}
	if f := seen.Replayed; !strings.Contains(f.URL, "/at/") || f.To >= seen.Pages[0].Frames[0].To ||
		len(f.Panels) == 0 {
		t.Errorf("after a step back the panels are those of %s, to %d", f.URL, f.To)
	}
	if f := seen.ByCookie; len(f.Panels) != 1 || f.Panels[0].Drawn == 0 || !strings.Contains(f.Tip, "CPU (physical)") {
		t.Errorf("by cookie: %+v", f)
	}
}
