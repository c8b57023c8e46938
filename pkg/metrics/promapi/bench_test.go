package promapi

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
)

func number(b *testing.B, variable string, otherwise int) int {
	text, set := os.LookupEnv(variable)
	if !set {
		return otherwise
	}
	n := must.Get(strconv.Atoi(text))(b)
	return n
}

// BenchmarkPanels asks what panels of Ray's dashboards ask, of nodes (METRICS_NODES, 2) with series (METRICS_SERIES,
// 1,000) that were read every 15 s for hours (METRICS_HOURS, 2): when nothing was read before, and again.
func BenchmarkPanels(b *testing.B) {
	g := metricsgen.Session{
		Ref: layout.Session{Namespace: "default", Cluster: "lab", Name: oneSession}, Begin: begin,
		Interval: 15 * time.Second, ChunkReads: 4,
		Nodes: number(b, "METRICS_NODES", 2), Series: number(b, "METRICS_SERIES", 1000),
		Hours: number(b, "METRICS_HOURS", 2),
	}
	memory := int64(number(b, "METRICS_MEMORY", 256)) << 20
	store := must.Get(local.Open(b.TempDir()))(b)
	count := must.Get(g.Store(b.Context(), store, "log"))(b)
	var bytes int64
	for o, err := range store.List(b.Context(), "", blob.ListOptions{}) {
		must.OK(b, err)
		bytes += o.Size
	}
	b.Logf("%d samples in %d bytes", count, bytes)
	open := func() Scope {
		list := func(ctx context.Context) ([]metrics.Hour, error) { return metrics.List(ctx, store, "log", g.Ref) }
		database := metrics.NewDatabase(store, list, 0, memory)
		return Scope{Sessions: []Session{{Name: oneSession, Open: func() *metrics.Database { return database }}},
			Now: begin.Add(time.Duration(g.Hours) * time.Hour)}
	}
	api := newAPI(Options{MaxSamples: 20_000_000})
	end := begin.Add(time.Duration(g.Hours) * time.Hour)
	for name, query := range map[string]string{
		"tasks":  `sum(max_over_time(ray_tasks{IsRetry="0",SessionName=~".*"}[14d])) by (State)`,
		"memory": `sum(ray_node_mem_used{SessionName=~".*"}) by (instance)`,
		"rate":   `sum(rate(ray_component_cpu_percentage[5m])) by (Component)`,
		"all":    `count({__name__=~"ray_.*"})`,
	} {
		ask := func(b *testing.B, scope Scope) {
			form := url.Values{
				"query": {query}, "start": {strconv.FormatInt(begin.Unix(), 10)},
				"end":  {strconv.FormatInt(end.Unix(), 10)},
				"step": {strconv.FormatFloat(max(15, end.Sub(begin).Seconds()/500), 'f', 0, 64)},
			}
			if status, body := api.ask(b, scope, http.MethodPost, "query_range", form); status != http.StatusOK {
				b.Fatal(status, body)
			}
		}
		b.Run(name+"/first", func(b *testing.B) {
			for b.Loop() {
				ask(b, open())
			}
		})
		b.Run(name+"/again", func(b *testing.B) {
			scope := open()
			ask(b, scope)
			b.ReportMetric(float64(scope.Sessions[0].Open().Bytes())/(1<<20), "MiB")
			for b.Loop() {
				ask(b, scope)
			}
			b.ReportMetric(float64(scope.Sessions[0].Open().Bytes())/(1<<20), "MiB")
		})
	}
}
