package promapi

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
)

func TestValues(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_20-00-00_000000_1"}
	g := metricsgen.Session{Ref: ref, Begin: begin, Nodes: 3, Series: 200, Hours: 1, Interval: 15 * time.Second,
		ChunkReads: 4}
	must.Get(g.Store(t.Context(), store, "log"))(t)
	s := Stored{newAPI(Options{}), metrics.NewDatabases(store, "log", 1<<20, prometheus.NewRegistry())}
	found := map[string]float64{}
	err := s.Values(t.Context(), ref, false, begin.Add(30*time.Minute), "count by (instance) (up)",
		func(label func(string) string, value float64) {
			found[label("instance")] = value
		})
	if err != nil || len(found) != 3 || found["10.0.0.2:8080"] != 1 {
		t.Errorf("%v, %v", found, err)
	}
	if err := s.Values(t.Context(), ref, false, begin, "sum(", nil); err == nil {
		t.Error("no error for half an expression")
	}
	for range s.API.opts.Concurrent {
		_, done, err := s.API.start(t.Context(), "", time.Minute)
		if err != nil {
			t.Fatal("a slot is kept:", err)
		}
		defer done()
	}
}
