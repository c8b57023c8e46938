package server

import (
	"net/http"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
)

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
