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
	"github.com/rayhistory/historyserver/pkg/metrics"
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
		o.Metrics = metrics.NewDatabases(store, root, 64<<20, o.Registerer)
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
			must.True(t, got.status == http.StatusOK, "%s: %s: %d %.300s", way.what, address, got.status, got.body)
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
			must.True(t, found != nil, "%s: no %s in %s", way.what, pattern, got.body)
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

// TestPromQL: Prometheus's API is answered below a session, by its cookies, at a moment and below its cluster.
func TestPromQL(t *testing.T) {
	begin := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	f := start(t, func(o *Options, store *gatedStore) {
		for _, session := range []string{old, name} {
			g := metricsgen.Session{
				Ref: layout.Session{Namespace: "default", Cluster: "lab", Name: session}, Begin: begin,
				Interval: time.Minute, ChunkReads: 60, Nodes: 1, Series: 50, Hours: 1,
			}
			must.Get(g.Store(t.Context(), store, root))(t)
		}
		o.Metrics = metrics.NewDatabases(store, root, 64<<20, o.Registerer)
		o.PromQL = promapi.New(promapi.Options{MaxSamples: 1_000_000, Timeout: time.Minute, Concurrent: 2,
			Wait: time.Second})
	})
	f.waitDescribed(t) // until then the session's end is not known
	cookies := "Cookie: " + cookieNamespace + "=default; " + cookieCluster + "=lab; " + cookieSession + "=" + name
	for path, want := range map[string]string{
		// to 23:25, when it ended by the store's clock; its nodes' clocks may be ahead of that
		lab + name + "/api/v1/query?query=count_over_time(up[1h])":                                         `"26"]`,
		lab + name + "/api/v1/query?query=count_over_time(up[1h])&time=2026-11-20T23:40:00Z":               `"41"]`,
		"/namespaces/default/clusters/lab/api/v1/query?query=count(up)&time=2026-11-20T23:40:00Z":          `"2"]`,
		lab + name + "/at/2026-11-20T23:22:30Z/api/v1/query?query=count_over_time(up[1h])":                 `"23"]`,
		lab + name + "/at/2026-11-20T23:22:30Z/api/v1/query?query=count_over_time(up[1h])&time=1795218000": `"23"]`,
		lab + name + "/api/v1/status/buildinfo":                                                            `"application":"Ray History Server"`,
		lab + name + "/api/v1/label/SessionName/values":                                                    `"data":["` + name + `"]`,
		"/namespaces/default/clusters/lab/api/v1/label/SessionName/values":                                 `"data":["` + old + `","` + name + `"]`,
		"/api/v1/query?query=count_over_time(up[1h])":                                                      `"26"]`,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			got := f.ask(t, method, path, asProgram, cookies)
			got.wants(t, http.StatusOK, want)
		}
	}
	for path, want := range map[string]int{
		"/namespaces/default/clusters/other/api/v1/query?query=up": http.StatusGone,
		lab + "session_2020/api/v1/query?query=up":                 http.StatusGone,
		lab + name + "/api/v1/query?query=up(":                     http.StatusBadRequest,
		lab + name + "/api/v1/admin/tsdb/snapshot":                 http.StatusNotFound,
	} {
		f.ask(t, http.MethodGet, path, asProgram).wants(t, want)
	}
}
