package backends

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// searchLogs logs make 512 MiB, in chunks like readChunks.
const searchLogs = 4

// BenchmarkSearch searches a session's logs for a text that only their first chunks' last lines have, and reports when
// the first of these came, how long a cancelled search took to end, and the most memory. BenchmarkRead reads as many
// bytes without looking at them.
func BenchmarkSearch(b *testing.B) {
	each(b, func(b *testing.B, s blob.Store) {
		logs := storeLogs(b, s)
		search := func(ctx context.Context, on func(logsearch.Record)) error {
			q := &logsearch.Query{Pattern: "the needle"}
			must.OK(b, q.Prepare())
			sources := func(yield func(logsearch.Source, error) bool) { yield(logsearch.Source{Logs: logs}, nil) }
			return logsearch.Run(ctx, q, sources, func(r logsearch.Record) error {
				on(r)
				return nil
			})
		}
		var first, ended time.Duration
		b.SetBytes(readChunks * chunkSize)
		peak := watchMemory()
		b.ResetTimer()
		for range b.N {
			began, found := time.Now(), 0
			err := search(b.Context(), func(r logsearch.Record) {
				if _, match := r.(*logsearch.Match); match {
					if found++; found == 1 {
						first += time.Since(began)
					}
				}
			})
			if err != nil || found != searchLogs {
				b.Fatal(found, err)
			}
		}
		b.StopTimer()
		b.ReportMetric(float64(peak())/(1<<20), "peak-MiB")
		b.ReportMetric(float64(first.Microseconds())/1000/float64(b.N), "first-ms")
		for range b.N {
			ctx, cancel := context.WithCancel(b.Context())
			var cancelled time.Time
			err := search(ctx, func(r logsearch.Record) {
				if _, match := r.(*logsearch.Match); match && cancelled.IsZero() {
					cancelled = time.Now()
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				b.Fatal(err)
			}
			ended += time.Since(cancelled)
		}
		b.ReportMetric(float64(ended.Microseconds())/1000/float64(b.N), "cancelled-ms")
	})
}

func storeLogs(b *testing.B, s blob.Store) *sessionlogs.Set {
	ref := layout.Session{Namespace: "default", Cluster: "bench", Name: "session_2026-11-20_23-19-45_581717_22125"}
	var text []byte
	for i := 0; len(text) < chunkSize; i++ {
		text = fmt.Appendf(text, "[2026-11-20 23:%02d:%02d,%03d I %d %d] (raylet) node_manager.cc:%d: Granting lease %d to worker %x on node, queue %d\n",
			i/60000%60, i/1000%60, i%1000, 4000+i%7, 4100+i%11, 500+i%900, i*7919%1000003, uint64(i)*0x9e3779b97f4a7c15,
			i%37)
	}
	text = text[:chunkSize]
	hit := []byte("\nthe needle\n")
	withHit := append(bytes.Clone(text[:chunkSize-len(hit)]), hit...)
	keys := make([]string, readChunks)
	each := readChunks / searchLogs
	inParallel(readChunks, func(i int) {
		log := layout.LogKey("log", ref, rayid.Node{byte(i / each)}, "raylet.out")
		body := text
		if i%each == 0 {
			body = withHit
		}
		keys[i] = layout.LogChunkKey(log, int64(i%each)*chunkSize, layout.Plain)
		if err := s.Create(b.Context(), keys[i], bytes.NewReader(body)); err != nil {
			b.Error(err)
		}
	})
	logs := sessionlogs.New(s)
	for _, key := range keys {
		o := must.Get(layout.ParseObject("log", ref, key))(b)
		logs.Add(o, blob.Object{Key: key, Size: chunkSize})
	}
	return logs
}
