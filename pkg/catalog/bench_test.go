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

	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// BenchmarkRestart prints what the list of SESSIONS sessions (100,000) of three years costs a server that starts with their packs in a folder: the time until the list is
// complete, the memory that it keeps, and searches by a submission's ID. Run it with -benchtime 1x.
func BenchmarkRestart(b *testing.B) {
	sessions := 100_000
	if given := os.Getenv("SESSIONS"); given != "" {
		var err error
		if sessions, err = strconv.Atoi(given); err != nil {
			b.Fatal(err)
		}
	}
	store, err := local.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	packed := packs.Packs{Store: store, Root: root}
	writePacks(b, packed, sessions)
	for b.Loop() {
		before := heap()
		c := New(Options{Store: store, Root: root, Log: quiet(), Registerer: prometheus.NewRegistry(), Facts: true, Packs: &packed})
		began, starting := time.Now(), cpu()
		c.begin(b.Context())
		entries := c.Known().Entries
		b.ReportMetric(time.Since(began).Seconds(), "s/start")
		b.ReportMetric((cpu() - starting).Seconds(), "cpu-s/start")
		if len(entries) != sessions {
			b.Fatalf("%d sessions", len(entries))
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		var searches []time.Duration
		searching := cpu()
		for n := range 50 {
			f, _ := ParseFilter(url.Values{"q": {fmt.Sprintf("raysubmit_%08d memory", n*997)}})
			began := time.Now()
			found := 0
			for i := range entries {
				if f.Passes(&entries[i], began) {
					found++
				}
			}
			searches = append(searches, time.Since(began))
			if found > 2 {
				b.Fatalf("%d sessions have the submission", found)
			}
		}
		b.ReportMetric(float64((cpu()-searching).Microseconds())/1000/float64(len(searches)), "cpu-ms/search")
		slices.Sort(searches)
		b.ReportMetric(float64(searches[len(searches)/2].Microseconds())/1000, "ms/search")
		b.ReportMetric(float64(searches[len(searches)-1].Microseconds())/1000, "ms/search-worst")
		runtime.KeepAlive(c)
	}
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

// writePacks packs sessions of three years.
func writePacks(b *testing.B, packed packs.Packs, sessions int) {
	b.Helper()
	days := 1000
	first := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	for d := range days {
		var all []packs.Facts
		for n := d * sessions / days; n < (d+1)*sessions/days; n++ {
			start := first.Add(time.Duration(d)*24*time.Hour + time.Duration(n%86400)*time.Second)
			f := packs.Facts{
				Ref:       layout.Session{Namespace: fmt.Sprintf("team-%d", n%40), Cluster: fmt.Sprintf("rayjob-%05d", n*3/10), Name: start.Format("session_2006-01-02_15-04-05_") + fmt.Sprintf("%06d_%d", n%1_000_000, n%30_000)},
				OwnerKind: RayJob, OwnerName: fmt.Sprintf("training-%d", n%5000), RayVersion: "2.60.0", Start: start, End: start.Add(time.Hour), LastWrite: start.Add(time.Hour),
				Seen: start.Add(2 * time.Hour), Bytes: int64(n) * 1000, Objects: 200, Nodes: 4, Outcome: "succeeded", Findings: []packs.Finding{}, Hours: &packs.Hours{Node: 4},
				Jobs: []packs.Job{{ID: "01000000", Submission: fmt.Sprintf("raysubmit_%08d", n), Status: "SUCCEEDED", Entrypoint: fmt.Sprintf("python train.py --seed %d", n), User: fmt.Sprintf("user-%d", n%300)}},
			}
			if n%5 == 0 {
				f.Outcome, f.Cause = "failed", "Task train failed: torch.cuda.OutOfMemoryError: CUDA out of memory"
				f.Findings = []packs.Finding{{Kind: "task_failed", Severity: "error", Signature: "task_failed CUDA out of memory", Title: f.Cause, Count: 1}}
			}
			all = append(all, f)
		}
		if err := packed.Append(b.Context(), first.Add(time.Duration(d)*24*time.Hour), nil, all); err != nil {
			b.Fatal(err)
		}
	}
}
