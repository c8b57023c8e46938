package spool

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// manyLines is n events of 895 bytes, the mean of Ray 2.60's, of eight jobs.
func manyLines(n int) []Lines {
	var list []Lines
	event := append(bytes.Repeat([]byte("x"), 894), '\n')
	for i := range n {
		list = append(list, Lines{Stream: fmt.Sprintf("log/lab_default/session/job_events/AAAAA%d==/node-2026-11-20-23",
			i*8/n), Data: event})
	}
	return list
}

// BenchmarkAppend appends batches of 1,000 events to a spool on the disk of the test's folder, from one and from
// several goroutines.
func BenchmarkAppend(b *testing.B) {
	for _, goroutines := range []int{1, 8} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			opts := testOptions()
			opts.MaxBytes, opts.Registerer = restartGap-1, prometheus.NewRegistry()
			s := must.Get(Open(b.TempDir(), opts))(b)
			batch := manyLines(1000)
			b.SetBytes(895_000)
			b.ReportAllocs()
			b.SetParallelism(goroutines)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go discard(s, stop, stopped)
			b.ResetTimer()
			if goroutines == 1 {
				for b.Loop() {
					must.OK(b, s.Append(b.Context(), batch))
				}
			} else {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := s.Append(b.Context(), batch); err != nil {
							b.Error(err)
						}
					}
				})
			}
			b.StopTimer()
			close(stop)
			<-stopped
			must.OK(b, s.Close())
		})
	}
}

// discard keeps the disk from filling up.
func discard(s *Spool, stop, stopped chan struct{}) {
	defer close(stopped)
	for {
		select {
		case <-stop:
			return
		case <-s.Notify():
		}
		for _, st := range s.Streams() {
			if offset, n, _ := st.Pending(1 << 40); n > 64<<20 {
				st.Shipped(offset + n)
			}
		}
	}
}

// BenchmarkRead reads chunks of 8 MiB of one of eight streams, as shipping does.
func BenchmarkRead(b *testing.B) {
	opts := testOptions()
	s := must.Get(Open(b.TempDir(), opts))(b)
	batch := manyLines(1000)
	for range 100 {
		must.OK(b, s.Append(b.Context(), batch))
	}
	st := s.Streams()[0]
	must.OK(b, st.Resume(0))
	offset, n, _ := st.Pending(8 << 20)
	b.SetBytes(n)
	b.ReportAllocs()
	for b.Loop() {
		r := must.Get(st.Open(offset, n))(b)
		if got, err := io.Copy(io.Discard, r); got != n || err != nil {
			b.Fatal(got, err)
		}
		must.OK(b, r.Close())
	}
	b.StopTimer()
	must.OK(b, s.Close())
}

// BenchmarkOpen opens a spool of 100 batches, 90 MB: what a restart after an outage costs.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := must.Get(Open(dir, testOptions()))(b)
	for range 100 {
		must.OK(b, s.Append(b.Context(), manyLines(1000)))
	}
	b.SetBytes(s.used)
	b.ReportAllocs()
	for b.Loop() {
		must.OK(b, s.Close())
		s = must.Get(Open(dir, testOptions()))(b)
	}
	b.StopTimer()
	must.OK(b, s.Close())
}
