package sink

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
)

// batchOf is n recorded events as Ray's aggregator posts them.
func batchOf(b *testing.B, n int) []byte {
	var events []json.RawMessage
	recorded := recording.Open(b)
	for len(events) < n {
		for _, name := range []string{"head", "w1", "w2"} {
			for _, post := range recorded.Posts(name) {
				events = append(events, post.Body...)
			}
		}
	}
	return array(events[:n])
}

// BenchmarkSink posts batches of 1,000 recorded events over HTTP to a sink with a spool on disk, fsync included. The
// client shares the process, so events/CPU-s is somewhat less than the sink's own.
func BenchmarkSink(b *testing.B) {
	const events = 1000
	s, err := spool.Open(b.TempDir(), spool.Options{MaxBytes: 1 << 39, Log: silent.Logger(),
		Registerer: prometheus.NewRegistry()})
	must.OK(b, err)
	server := httptest.NewServer(newSink(b, s, nil))
	defer server.Close()
	body := batchOf(b, events)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go ship(s, stop, stopped)
	b.ResetTimer()
	cpu := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			response, err := http.Post(server.URL, "application/json", bytes.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != 200 {
				b.Error(response.Status, err)
			}
			_ = response.Body.Close()
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N*events)/(cpuTime(b)-cpu).Seconds(), "events/CPU-s")
	close(stop)
	<-stopped
	must.OK(b, s.Close())
}

// ship takes everything off the spool, so that the disk does not fill up.
func ship(s *spool.Spool, stop, stopped chan struct{}) {
	defer close(stopped)
	for {
		select {
		case <-stop:
			return
		case <-s.Notify():
		}
		for _, st := range s.Streams() {
			_ = st.Resume(0) // never fails
			if offset, n, _ := st.Pending(1 << 40); n > 8<<20 {
				st.Shipped(offset + n)
			}
		}
	}
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkScan sorts a batch of 1,000 events, without HTTP and disk.
func BenchmarkScan(b *testing.B) {
	body := batchOf(b, 1000)
	again := bytes.Clone(body)
	now := time.Now()
	find := func(name string) (Destination, error) { return Destination{name, node}, nil }
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		copy(again, body) // what scanBody gives becomes lines in place
		batch := newBatch()
		if p := batch.scanBody(again, now, find); p != nil {
			b.Fatal(p.text)
		}
		batch.linesByStream(func(d Destination, _ stream) string { return d.Session })
		batch.recycle()
	}
}
