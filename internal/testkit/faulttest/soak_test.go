package faulttest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// soakers write, rotate and remove logs for as long as they are let.
type soakers struct {
	dir   string
	files int
}

func (s soakers) run(ctx context.Context, t *testing.T) {
	random := rand.New(rand.NewPCG(1, 6))
	w := writers{dir: s.dir, written: map[string]*bytes.Buffer{}}
	for n := 0; ctx.Err() == nil; n++ {
		path := fmt.Sprintf("worker-%d.out", random.IntN(s.files))
		if err := w.append(path, fmt.Sprintf("line %d of %s: %0*d\n", n, path, 20+random.IntN(1000), n)); err != nil {
			t.Error(err)
			return
		}
		w.written[path].Reset() // what a log that vanishes held is not compared
		full := filepath.Join(s.dir, path)
		switch random.IntN(500) {
		case 0:
			says.OK(t, w.rotate(path, true))
		case 1:
			says.OK(t, w.rotate(path, false))
		case 2:
			_ = os.Remove(full)
		case 3:
			old, _ := filepath.Glob(full + "[.-]*")
			for _, name := range old {
				_ = os.Remove(name)
			}
		case 4:
			_ = os.Truncate(full, 0)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestSoak runs a collector under load for FAULTTEST_SOAK seconds (default 12): its memory, goroutines and open files
// must not grow.
func TestSoak(t *testing.T) {
	t.Parallel()
	seconds := setting("FAULTTEST_SOAK", 12)
	r := newRig(t, ourselves(role{Faults: "all"}))
	r.start(false)
	r.waitReady()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	e := r.events()
	var running sync.WaitGroup
	running.Go(func() { e.run(ctx, t) })
	running.Go(func() { soakers{dir: r.logs(), files: 50}.run(ctx, t) })
	names := []string{"process_resident_memory_bytes", "go_goroutines", "process_open_fds"}
	samples := map[string][]float64{}
	for ctx.Err() == nil {
		for _, name := range names {
			if v, err := r.read(name); err == nil {
				samples[name] = append(samples[name], v)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	running.Wait()
	lost, err := r.read("rayhistory_collector_logs_lost_bytes_total")
	says.OK(t, err)
	r.kill() // with whatever waits
	r.start(true)
	r.waitReady()
	r.end()
	stored := r.storedEvents(r.subject.Store(t, r.dir))
	for id := range e.sent {
		says.True(t, stored[id], "event %s is not stored", id)
	}
	growth := 1.1
	if seconds < 60 {
		growth = 1.3 // it is hardly warm
	}
	for _, name := range names {
		s := samples[name]
		warm, end := mean(s[len(s)/4:len(s)/2]), mean(s[3*len(s)/4:])
		t.Logf("%s: %.0f after warm-up, %.0f at the end", name, warm, end)
		says.True(t, !(end > growth*warm+5), "%s grew from %.0f to %.0f", name, warm, end)
	}
	t.Logf("%d s, %d events, %.0f bytes of logs removed before they could be stored", seconds, len(e.sent), lost)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}
