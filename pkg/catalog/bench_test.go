package catalog

import (
	"fmt"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/fleetgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
)

// BenchmarkRestart prints what the list of SESSIONS sessions (100,000) of three years costs a server that starts with
// their packs in a folder: the time until the list is complete, the memory that it keeps, and searches by a
// submission's ID. Run it with -benchtime 1x.
func BenchmarkRestart(b *testing.B) {
	sessions := 100_000
	if given := os.Getenv("SESSIONS"); given != "" {
		sessions = must.Get(strconv.Atoi(given))(b)
	}
	store := must.Get(local.Open(b.TempDir()))(b)
	packed := packs.Packs{Store: store, Root: root}
	fleet := fleetgen.Options{Sessions: sessions, End: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NoMarkers: true}
	must.OK(b, fleet.Write(b.Context(), store, root))
	for b.Loop() {
		before := heap()
		c := New(Options{Store: store, Root: root, Log: silent.Logger(), Registerer: prometheus.NewRegistry(),
			Facts: true, Packs: &packed})
		began, starting := time.Now(), cpu()
		c.fillFromPacks(b.Context())
		l := c.Cached()
		b.ReportMetric(time.Since(began).Seconds(), "s/start")
		b.ReportMetric((cpu() - starting).Seconds(), "cpu-s/start")
		if l.Len() != sessions {
			b.Fatalf("%d sessions", l.Len())
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		measureSearches(b, l, "an-id", func(n int) string { return fmt.Sprintf("raysubmit_%08d memory", n*997) })
		measureSearches(b, l, "common", func(n int) string { return fmt.Sprintf("memory user-%d", n) })
		runtime.KeepAlive(c)
	}
}

// measureSearches asks for the first page of 50 searches.
func measureSearches(b *testing.B, l Listing, name string, words func(n int) string) {
	var searches []time.Duration
	before := cpu()
	for n := range 50 {
		f, _ := ParseFilter(url.Values{"q": {words(n)}}, time.Now())
		began := time.Now()
		must.Get(l.Part(Query{Filter: f, Now: began, Limit: 25}))(b)
		searches = append(searches, time.Since(began))
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(len(searches)), "cpu-ms/"+name)
	slices.Sort(searches)
	b.ReportMetric(float64(searches[len(searches)/2].Microseconds())/1000, "ms/"+name)
	b.ReportMetric(float64(searches[len(searches)-1].Microseconds())/1000, "worst-ms/"+name)
}

// cpu is the processor time that the process took, which a busy machine does not change much.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// heap is the memory in use, in bytes, after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
