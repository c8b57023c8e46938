package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/fleetgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
)

// BenchmarkReport is a report of so many sessions of 1,000 days: of all of them, and of the last 30 days, of packs that
// are read, and of rows that were kept.
func BenchmarkReport(b *testing.B) {
	const days = 1000
	for _, sessions := range []int{100_000, 1_000_000} {
		store := must.Get(local.Open(b.TempDir()))(b)
		all := packs.Packs{Store: store, Root: "log"}
		made := fleetgen.Options{Sessions: sessions, Days: days, End: now, NoMarkers: true}
		must.OK(b, made.Write(b.Context(), store, "log"))
		_, l := listOf(b, &all)
		report := func(b *testing.B, f *Fleet, from time.Time) *Report {
			q := Query{Top: DefaultTop, Now: now}
			q.From, q.To = from, now
			r := must.Get(f.Compute(b.Context(), q, l))(b)
			return r
		}
		run := func(name string, f func() *Fleet, from time.Time) {
			b.Run(fmt.Sprintf("%s/%d", name, sessions), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.ReportMetric(float64(report(b, f(), from).Total.Sessions), "sessions")
				}
			})
		}
		month, kept := now.AddDate(0, 0, -30), &Fleet{Packs: &all}
		report(b, kept, month)
		run("month", func() *Fleet { return &Fleet{Packs: &all} }, month)
		run("month-again", func() *Fleet { return kept }, month)
		run("all", func() *Fleet { return &Fleet{Packs: &all} }, now.AddDate(0, 0, -days-1))
	}
}
