package metrics

import (
	"io"
	"math"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob/local"
)

// BenchmarkHours reads the hours of two nodes with 1,041 series that were read every 15 s, for all series and for one
// name, writes their index, and exports them.
func BenchmarkHours(b *testing.B) {
	store := must.Get(local.Open(b.TempDir()))(b)
	g := metricsgen.Session{
		Ref: ref, Begin: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC), Interval: 15 * time.Second, ChunkReads: 40,
		Nodes: 2, Series: 1041, Hours: 4,
	}
	must.Get(g.Store(b.Context(), store, "log"))(b)
	for name, expression := range map[string]string{"all": ".+", "one": "ray_node_mem_used"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				d := NewDatabases(store, "log", 256<<20, nil).Of(ref, true)
				matcher := labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, expression)
				if _, _, err := d.Select(b.Context(), &QueryMemory{},
					Selection{Maxt: math.MaxInt64 / 2, Matchers: []*labels.Matcher{matcher}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("index", func(b *testing.B) {
		w := &IndexWriter{Store: store, Root: "log", Put: store.Put}
		for b.Loop() {
			must.OK(b, w.Write(b.Context(), ref, true))
		}
	})
	b.Run("export", func(b *testing.B) {
		hours := must.Get(List(b.Context(), store, "log", ref))(b)
		for b.Loop() {
			must.OK(b, WriteOpenMetrics(b.Context(), io.Discard, store, hours, func(error) {}, func(Hour) {}))
		}
	})
}
