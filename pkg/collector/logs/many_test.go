package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestManyLogs: empty logs are listed a thousand at a time and cost some bytes of memory each, those that are stored a
// put and some bytes, and both are known again after the collector was killed. FAULTTEST_LOGS sets their number.
func TestManyLogs(t *testing.T) {
	empty := 10_000
	if n, err := strconv.Atoi(os.Getenv("FAULTTEST_LOGS")); err == nil {
		empty = n
	}
	const most = 100 // bytes of memory for each, with what does not depend on their number
	filled := min(empty/50, 1000)
	synctest.Test(t, func(t *testing.T) {
		logs.SetMaxFollowed(t, filled/2)
		r := newRig(t)
		for i := range empty {
			must.OK(t, os.WriteFile(r.path(fmt.Sprintf("worker-%056x-01000000-%d.err", i, i)), nil, 0o644))
		}
		before := liveHeap()
		r.scan()
		r.restart() // it was killed before it stored anything
		r.settle()
		each := (liveHeap() - before - int64(cap(r.empty[nodeID]))) / int64(empty)
		puts, _ := r.store.Requests()
		t.Logf("%d empty logs: %d listings, %d bytes of memory each", empty, r.listings, each)
		says.True(t, each <= most && puts == 0 && r.listings <= 3+empty/1000 &&
			bytes.Count(r.empty[nodeID], []byte("\n")) == empty,
			"%d empty logs: %d puts, %d listings, %d bytes of memory each", empty, puts, r.listings, each)
		for i := range filled {
			r.write(fmt.Sprintf("worker-%056x-01000000-%d.err", i, i), "ten bytes\n")
		}
		r.settle()
		filledPuts, _ := r.store.Requests()
		r.restart()
		r.settle()
		after, _ := r.store.Requests()
		says.True(t, filledPuts == puts+filled && after == filledPuts,
			"%d puts for %d logs with bytes, and %d more after a restart", filledPuts-puts, filled, after-filledPuts)
		r.want(fmt.Sprintf("worker-%056x-01000000-%d.err", filled-1, filled-1), "ten bytes\n")
	})
}

// TestManyGrowingLogs: beside many empty logs, what grows is stored without a scan of all files, also after the
// collector was killed, and nothing of it is lost or stored twice. FAULTTEST_LOGS sets the number of empty logs.
func TestManyGrowingLogs(t *testing.T) {
	empty := 2_000
	if n, err := strconv.Atoi(os.Getenv("FAULTTEST_LOGS")); err == nil {
		empty = n
	}
	growing := min(empty/50, 1000)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		emptyName := func(i int) string { return fmt.Sprintf("worker-%056x-01000000-%d.err", i, i) }
		for i := range empty {
			must.OK(t, os.WriteFile(r.path(emptyName(i)), nil, 0o644))
		}
		written := make(map[string]string)
		write := func(name, text string) {
			r.write(name, text)
			written[name] += text
		}
		grow := func() {
			for i := range growing {
				name := fmt.Sprintf("grow-%d.log", i)
				write(name, fmt.Sprintf("line of %d bytes is followed by more\n", len(written[name])))
			}
		}
		ship := func(paths ...string) { // a collector ships what it has looked at
			t.Helper()
			if len(paths) > 0 {
				r.tailer.LookAt(paths...)
			} else if err := r.tailer.LookAtFollowed(t.Context()); err != nil {
				t.Fatal(err)
			}
			must.OK(t, r.shipper.Flush(t.Context()))
			for name, want := range written {
				r.want(name, want)
			}
		}
		grow()
		r.scan()
		for life := range 3 {
			grow()
			ship()
			grow()
			r.restart() // it was killed, and the next one has not scanned yet
			grow()
			ship()
			late := fmt.Sprintf("job-driver-%d.log", life)
			write(late, "a new log\n")
			write(emptyName(life), "the first line\n")
			ship(session+"/logs/"+late, session+"/logs/"+emptyName(life))
			r.scan()
		}
		puts, lists := r.store.Requests()
		t.Logf("%d growing logs: %d puts, %d listings", growing, puts, lists)
		r.settle()
		again, _ := r.store.Requests()
		says.True(t, again <= puts+3+empty/50_000, "%d puts though nothing grew", again-puts)
	})
}

// liveHeap is how many bytes are in use.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkScan looks at quiet log files, as a collector does every 10 s: its time per operation over 10 s is the share
// of a core that an idle collector takes.
func BenchmarkScan(b *testing.B) {
	for _, files := range []int{200, 2000, 10000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			tmp := b.TempDir()
			dir := filepath.Join(tmp, session, "logs")
			must.OK(b, os.MkdirAll(dir, 0o755))
			for i := range files {
				must.OK(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("worker-%d.out", i)), []byte("a line\n"), 0o644))
			}
			t := logs.New(logs.Options{Dir: tmp, StateDir: b.TempDir(), Key: key,
				ListEmpty: func(string, rayid.Node, []byte) error { return nil },
				Log:       silent.Logger(), Registerer: prometheus.NewRegistry(),
				Node: func(context.Context, string) (rayid.Node, error) { return nodeID, nil }})
			scan := func() { must.Get(t.Scan(b.Context()))(b) }
			scan()
			b.ReportAllocs()
			for b.Loop() {
				scan()
			}
		})
	}
}
