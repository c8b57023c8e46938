package panels

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	dash "github.com/rayhistory/historyserver/pkg/dashboard"
)

// TestStandardDashboards: what the server draws without a session's own dashboards is what Ray generated, as recorded.
func TestStandardDashboards(t *testing.T) {
	compared := 0
	for recorded, version := range map[string]string{"ray-2.55": "2.55.1", "ray-2.57": "2.57.0", "ray-2.60": "2.60.0"} {
		files, err := filepath.Glob(filepath.Join(recording.OpenNamed(t, recorded).TmpRay("head"), "session_2*",
			"metrics", "grafana", "dashboards", "*.json"))
		must.OK(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must.OK(t, err)
			name := strings.TrimSuffix(filepath.Base(file), "_grafana_dashboard.json")
			ours, of, err := boardOfRay(name, version)
			if err != nil || of != version {
				t.Errorf("%s of Ray %s: %v, of %s", name, version, err, of)
				continue
			}
			var got, want any
			err = errors.Join(json.Unmarshal(ours, &got), json.Unmarshal(text, &want))
			says.True(t, err == nil && reflect.DeepEqual(got, want), "%s of Ray %s is not what Ray generated: %v", name,
				version, err)
			compared++
		}
	}
	says.True(t, compared >= 14, "only %d dashboards were compared", compared)
}

// TestWithoutStoredDashboards: metrics are drawn whatever version of Ray they are of, also if it is not known or newer
// than this program.
func TestWithoutStoredDashboards(t *testing.T) {
	store := storetest.New()
	putMetrics(t, store)
	p := newPanels(store)
	for version, nearest := range map[string]string{
		"2.60.0": "2.60.0", "2.59.1": "2.59.0", "2.40.0": "2.55.1", "3.1.0": "2.60.0", "": "2.60.0",
		"2.58.0.dev0": "2.58.0", "not a version": "2.60.0", "2.57.0rc1": "2.57.0",
	} {
		if _, got, err := boardOfRay("default", version); err != nil || got != nearest {
			t.Errorf("Ray %q is drawn as %s, %v; want %s", version, got, err, nearest)
		}
		for name, panels := range map[string]int{"default": 40, "serve": 5, "serve_deployment": 5, "data": 20,
			"train": 10} {
			got := ask(t, p, "/grafana/d/x", name, false, func(r *dash.Request) { r.RayVersion = version })
			if n := len(drawings(t, got.Body.String())); got.Code != http.StatusOK || n < panels {
				t.Errorf("%s of Ray %q: %d with %d panels, want %d", name, version, got.Code, n, panels)
			}
		}
	}
	if got := ask(t, p, "/grafana/d-solo/x?panelId=41", "default", true); got.Code != http.StatusOK ||
		len(drawings(t, got.Body.String())) != 1 {
		t.Errorf("one panel: %d %.300s", got.Code, got.Body)
	}
	_, _, err := boardOfRay("../../page.go", "")
	says.True(t, errors.Is(err, errNone), "another name: %v", err)
}
