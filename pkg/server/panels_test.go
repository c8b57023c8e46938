package server

import (
	"bytes"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/layout"
	storedmetrics "github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/server/panels"
)

// TestPanels walks the way of a browser from /api/grafana_health to a line's values, in each way to a session: by path,
// at a moment, by cookie, and through Ray's proxying dashboard.
func TestPanels(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	f := start(t, func(o *Options, store *gatedStore) {
		g := metricsgen.Session{
			Ref: ref, Begin: time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC), Interval: time.Minute, ChunkReads: 60,
			Nodes: 1, Series: 50, Hours: 1,
		}
		must.Get(g.Store(t.Context(), store, root))(t)
		w := must.Get(zstd.NewWriter(nil))(t)
		const board = `{"title":"Default Dashboard","panels":[{"id":24,"type":"graph","title":"Read","targets":[{"expr":"count_over_time(up[1h])"}]}]}`
		put(t, store, layout.GrafanaDashboardKey(root, ref, "default_grafana_dashboard.json"),
			string(w.EncodeAll([]byte(board), nil)))
		o.Metrics = storedmetrics.NewDatabases(store, root, 64<<20, o.Registerer)
		o.PromQL = promapi.New(promapi.Options{MaxSamples: 1_000_000, Timeout: time.Minute, Concurrent: 2,
			Wait: time.Second})
		o.Routes = dashboard.New(dashboard.Options{Log: silent.Logger(),
			Services: dashboard.Services{Panels: panels.New(store, root, o.Metrics)}}).Routes()
	})
	f.waitDescribed(t)
	for _, way := range []struct {
		what, at string
		headers  []string
		last     string // value
	}{
		{"by path", lab + name + "/", nil, "26"}, // reads to 23:25
		{"at a moment", lab + name + "/at/2026-11-20T23:22:30Z/", nil, "23"},
		{"by cookie", "/", []string{cookies("default", "lab", name)}, "26"},
		{"through Ray's proxy", "/", []string{cookies("default", "lab", name), "Content-Type: application/json"}, "26"},
	} {
		ask := func(address *url.URL) answer {
			t.Helper()
			got := f.ask(t, http.MethodGet, address.RequestURI(), append(way.headers, asBrowser)...)
			if got.status != http.StatusOK {
				t.Fatalf("%s: %s: %d %.300s", way.what, address, got.status, got.body)
			}
			return got
		}
		at := &url.URL{Path: way.at}
		var health struct {
			Data struct {
				GrafanaHost   string
				DashboardUids map[string]string
			}
		}
		must.OK(t, json.Unmarshal([]byte(ask(at.JoinPath("api/grafana_health")).body), &health))
		page, err := at.Parse(health.Data.GrafanaHost + "/d-solo/" + health.Data.DashboardUids["default"] +
			"/default-dashboard?orgId=1&panelId=24&from=now-1h&to=now")
		must.OK(t, err)
		got := ask(page)
		if framed := got.header.Get("X-Frame-Options"); framed != "SAMEORIGIN" ||
			!strings.Contains(got.header.Get("Content-Security-Policy"), "frame-ancestors 'self'") {
			t.Errorf("%s: who may frame the page: %v", way.what, got.header)
		}
		attribute := func(pattern string) string {
			t.Helper()
			found := regexp.MustCompile(pattern).FindStringSubmatch(got.body)
			if found == nil {
				t.Fatalf("%s: no %s in %s", way.what, pattern, got.body)
			}
			return html.UnescapeString(found[1])
		}
		for _, file := range []string{`<script src="([^"]*)"`, `<link rel="stylesheet" href="([^"]*)"`} {
			address := must.Get(page.Parse(attribute(file)))(t)
			ask(address)
		}
		var panel struct{ Queries []struct{ Expr string } }
		if err := json.Unmarshal([]byte(attribute(`data-panel="([^"]*)"`)), &panel); err != nil ||
			len(panel.Queries) != 1 {
			t.Fatalf("%s: %v %+v", way.what, err, panel)
		}
		query := url.Values{"query": {panel.Queries[0].Expr}, "step": {"15"}}
		for name, pattern := range map[string]string{"start": `data-from="(\d+)\d{3}"`, "end": `data-to="(\d+)\d{3}"`} {
			query.Set(name, attribute(pattern))
		}
		address, err := page.Parse(attribute(`data-api="([^"]*)"`) + "query_range?" + query.Encode())
		must.OK(t, err)
		if line := []byte(ask(address).body); !bytes.Contains(line, []byte(`"`+way.last+`"]]`)) {
			t.Errorf("%s: %s, want a line to %s", way.what, line, way.last)
		}
	}
}
