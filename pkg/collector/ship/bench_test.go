package ship

import (
	"context"
	"fmt"
	"io"
	"iter"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// taking is a store that keeps nothing.
type taking struct{}

func (taking) Create(_ context.Context, _ string, body io.ReadSeeker) error {
	_, err := io.Copy(io.Discard, body)
	return err
}

func (taking) List(context.Context, string, blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(func(blob.Object, error) bool) {}
}

// BenchmarkManyStreams ships one chunk of each of many streams, as when a collector starts beside a folder full of
// logs.
func BenchmarkManyStreams(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				sources := make([]Source, n)
				for i := range sources {
					m := &memory{key: fmt.Sprintf("%sworker-%d.out", base, i)}
					m.write("line\n")
					sources[i] = m
				}
				s, err := New(Options{Store: taking{}, Log: silent.Logger(), Registerer: prometheus.NewRegistry(),
					Groups: []Group{{Name: "logs", Logs: true, Sources: func() []Source { return sources }}}})
				must.OK(b, err)
				must.OK(b, s.Flush(b.Context()))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/stream")
		})
	}
}
