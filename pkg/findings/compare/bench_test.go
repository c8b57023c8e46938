package compare_test

import (
	"context"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// BenchmarkRun: two sessions of 100,000 tasks each, which are open already, in memory and from an index.
func BenchmarkRun(b *testing.B) {
	dir := b.TempDir()
	stats := must.Get(sessiongen.Write(dir, sessiongen.Options{Tasks: 100_000, Ended: true}))(b)
	session := catalog.Entry{Ref: stats.Session}
	with := session
	with.Ref.Cluster += "-2"
	for name, indexes := range map[string]bool{"events": false, "index": true} {
		b.Run(name, func(b *testing.B) {
			store := bench{dir: dir, indexes: indexes}
			for b.Loop() {
				b.StopTimer()
				first, _, err := store.open(b.Context(), session) // again: findings are kept
				must.OK(b, err)
				second, _, err := store.open(b.Context(), session)
				must.OK(b, err)
				b.StartTimer()
				r, err := compare.Comparer{Open: func(_ context.Context, e catalog.Entry) (*moment.Moment, func(),
					error) {
					if e.Ref == session.Ref {
						return first, func() {}, nil
					}
					return second, func() {}, nil
				}}.Run(b.Context(), compare.Question{Session: session, With: &with})
				if err != nil || len(r.Functions) == 0 {
					b.Fatal(err, r)
				}
			}
		})
	}
}
