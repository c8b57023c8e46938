package collector

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// counting is a store that keeps nothing and counts.
type counting struct{ puts, lists, bytes atomic.Int64 }

func (c *counting) Create(_ context.Context, _ string, body io.ReadSeeker) error {
	n, err := io.Copy(io.Discard, body)
	c.puts.Add(1)
	c.bytes.Add(n)
	return err
}

func (c *counting) List(context.Context, string, blob.ListOptions) iter.Seq2[blob.Object, error] {
	c.lists.Add(1)
	return func(func(blob.Object, error) bool) {}
}

// hour is a collector's work on one node, in time that only seems to pass.
type hour struct {
	t       *testing.T
	dir     string
	store   *counting
	spool   *spool.Spool
	tailer  *logs.Tailer
	shipper *ship.Shipper
	written int64
}

func newHour(t *testing.T, compression layout.Compression) *hour {
	h := &hour{t: t, dir: t.TempDir(), store: &counting{}}
	must.OK(t, os.MkdirAll(h.path(""), 0o755))
	log := silent.Logger()
	node := rayid.Node{1}
	h.tailer = logs.New(logs.Options{
		Dir: h.dir, StateDir: t.TempDir(), Log: log, Registerer: prometheus.NewRegistry(),
		Key: func(name string, node rayid.Node, path string) string {
			return layout.LogKey("log", layout.Session{Namespace: "default", Cluster: "lab", Name: name}, node, path)
		},
		ListEmpty: func(string, rayid.Node, []byte) error { return nil },
		Node:      func(context.Context, string) (rayid.Node, error) { return node, nil },
	})
	var err error
	h.spool = must.Get(spool.Open(t.TempDir(), spool.Options{Log: log, Registerer: prometheus.NewRegistry()}))(t)
	c := Collector{spool: h.spool}
	h.shipper, err = ship.New(ship.Options{
		Store: h.store, Dir: t.TempDir(), Log: log, Registerer: prometheus.NewRegistry(),
		Groups: []ship.Group{
			c.spooledGroup("events", noKind, compression),
			{Name: "logs", Sources: h.tailer.Sources, Logs: true, Compression: compression},
		},
	})
	must.OK(t, err)
	return h
}

func (h *hour) path(name string) string { return filepath.Join(h.dir, session().Name, "logs", name) }

func (h *hour) log(name, text string) {
	h.t.Helper()
	f, err := os.OpenFile(h.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	must.OK(h.t, err)
	h.written += int64(len(text))
}

// grow makes a log longer without writing to the disk.
func (h *hour) grow(name string, n int64) {
	h.t.Helper()
	f, err := os.OpenFile(h.path(name), os.O_WRONLY|os.O_CREATE, 0o644)
	must.OK(h.t, err)
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(info.Size() + n)
	}
	if err == nil {
		err = f.Close()
	}
	must.OK(h.t, err)
	h.written += n
}

// events spools a batch of n events of a job and one of the node.
func (h *hour) events(n int) {
	h.t.Helper()
	now := time.Now()
	line := strings.Repeat("x", 800) + "\n"
	pieces := []spool.Lines{
		{Stream: layout.JobEventsKey("log", session(), rayid.Job{1}, rayid.Node{1}, now),
			Data: []byte(strings.Repeat(line, n))},
		{Stream: layout.NodeEventsKey("log", session(), rayid.Node{1}, now), Data: []byte(line)},
	}
	must.OK(h.t, h.spool.Append(h.t.Context(), pieces))
	h.written += int64((n + 1) * len(line))
}

// run lets seconds pass, in which work is done every step seconds, and stores what is due whenever the collector would.
func (h *hour) run(seconds, step int, work func(second int)) {
	h.t.Helper()
	for second := 0; second < seconds; second += step {
		work(second)
		must.Get(h.tailer.Scan(h.t.Context()))(h.t)
		for {
			n, _, err := h.shipper.ShipOnce(h.t.Context())
			must.OK(h.t, err)
			if n == 0 {
				break
			}
		}
		time.Sleep(time.Duration(step) * time.Second)
	}
}

func (h *hour) close() {
	h.t.Helper()
	says.OK(h.t, h.spool.Close())
}

func (h *hour) flush() {
	h.t.Helper()
	must.OK(h.t, h.shipper.Flush(h.t.Context()))
}

// TestBill counts what a node costs, second by second.
func TestBill(t *testing.T) {
	for name, test := range map[string]struct {
		seconds, step int
		work          func(h *hour, second int)
		maxPuts       int64
	}{
		"quiet: 30 logs, nothing happens": {3600, 10, func(*hour, int) {}, 0},
		"usual: 30 logs grow slowly, 5 events a second": {1200, 1, func(h *hour, second int) {
			h.events(5)
			for i := range 30 {
				if (second+i)%10 == 0 {
					h.log(fmt.Sprintf("worker-%d.out", i), strings.Repeat("y", 100)+"\n")
				}
			}
		}, 700},
		"chatty: 200 logs, one of them 1 MB a second, 100 events a second": {300, 1, func(h *hour, second int) {
			h.events(100)
			h.grow("busy.out", 1<<20)
			for i := range 200 {
				if (second+i)%20 == 0 {
					h.log(fmt.Sprintf("worker-%d.out", i), strings.Repeat("y", 1000)+"\n")
				}
			}
		}, 1200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHour(t, layout.Plain)
				defer h.close()
				for i := range 30 {
					h.log(fmt.Sprintf("worker-%d.out", i), "the first line\n")
				}
				h.run(120, 10, func(int) {}) // in which the first lines are stored
				h.flush()
				puts, lists, bytes := h.store.puts.Load(), h.store.lists.Load(), h.store.bytes.Load()
				h.written = 0
				h.run(test.seconds, test.step, func(second int) { test.work(h, second) })
				puts, lists, bytes = h.store.puts.Load()-puts, h.store.lists.Load()-lists, h.store.bytes.Load()-bytes
				t.Logf("%s: %d puts, %d listings, %d bytes in %d s, of %d written", name, puts, lists, bytes,
					test.seconds, h.written)
				says.True(t, puts <= test.maxPuts && lists <= 20, "%d puts, %d listings", puts, lists)
			})
		})
	}
}

// TestLogOfAGigabyte grows a log to 1 GB in 10,000 steps over an hour (to a tenth where it is compressed): what is
// sent, in how many puts, and in how much memory.
func TestLogOfAGigabyte(t *testing.T) {
	for compression, steps := range map[layout.Compression]int{layout.Plain: 10_000, layout.Zstd: 1_000} {
		synctest.Test(t, func(t *testing.T) {
			h := newHour(t, compression)
			defer h.close()
			const step = 100_000
			done, peak := 0, uint64(0)
			h.run(3600, 4, func(second int) {
				for ; done < steps*(second+4)/3600; done++ {
					h.grow("busy.out", step)
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse)
			})
			h.flush()
			sent, puts := h.store.bytes.Load(), h.store.puts.Load()
			t.Logf("compression %q: %d bytes in %d puts for %d bytes; heap at most %d MiB", compression.Ext(), sent,
				puts, h.written, peak>>20)
			says.True(t, h.written == int64(steps)*step && float64(sent) <= 1.02*float64(h.written) && puts <= 200 &&
				peak <= 64<<20, "that is more than it may cost")
		})
	}
}
