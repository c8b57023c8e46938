package findings_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
)

// BenchmarkFindings computes the findings of a session with 100,000 tasks, of which some thousand attempts failed: from
// memory and from its index. It also reads them as they are kept with the index.
func BenchmarkFindings(b *testing.B) { benchmark(b, 100_000) }

// BenchmarkFindingsOfAMillion is the same with 1,000,000 tasks; it takes 5 GB of TMPDIR.
func BenchmarkFindingsOfAMillion(b *testing.B) { benchmark(b, 1_000_000) }

func benchmark(b *testing.B, tasks int) {
	dir := b.TempDir()
	stats := must.Get(sessiongen.Write(dir, sessiongen.Options{Tasks: tasks, Ended: true}))(b)
	writeIndex(b, dir, stats.Session, false)
	read := func(s *session.Session) *findings.Report { return reportWith(b, s, nil) }
	readKept := func(s *session.Session) *findings.Report { return reportKept(b, dir, s, false) }
	fromEvents := func() *session.Session { return load(b, dir, stats.Session, nil) }
	fromIndex := func() *session.Session { return indexed(b, folder(b, dir), fromEvents()) }
	for _, from := range []struct {
		name string
		open func() *session.Session
		read func(*session.Session) *findings.Report
	}{
		{"events", fromEvents, read},
		{"index", fromIndex, read},
		{"kept", fromIndex, readKept},
	} {
		b.Run(from.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := from.open()
				b.StartTimer()
				if r := from.read(s); len(r.Findings) == 0 {
					b.Fatal("nothing was found")
				}
			}
		})
	}
}

// BenchmarkFigures measures what metrics in the evidence cost. The session has 100,000 tasks and is in memory. Its
// workers ran out of memory on eight nodes, each with 2,000 series that were read every 15 s for four hours, so all
// twelve queries are sent. The metrics are read from chunks, from their index, and from what the server keeps of them
// in memory.
func BenchmarkFigures(b *testing.B) { benchmarkFigures(b, 100_000) }

// BenchmarkFiguresOfAMillion is the same with 1,000,000 tasks; it takes 5 GB of TMPDIR.
func BenchmarkFiguresOfAMillion(b *testing.B) { benchmarkFigures(b, 1_000_000) }

func benchmarkFigures(b *testing.B, tasks int) {
	dir := b.TempDir()
	stats := must.Get(sessiongen.Write(dir, sessiongen.Options{Tasks: tasks, Ended: true, OutOfMemory: true}))(b)
	store := must.Get(local.Open(dir))(b)
	generated := metricsgen.Session{Ref: stats.Session, Begin: sessiongen.Start, Nodes: 9, Series: 2000, Hours: 4,
		Interval: 15 * time.Second, ChunkReads: 240}
	if _, err := generated.Store(b.Context(), store, layout.DefaultRoot); err != nil {
		b.Fatal(err)
	}
	s := load(b, dir, stats.Session, nil)
	run := func(name string, of func() moment.Metrics, want bool) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := reportWith(b, s, of())
				if got := shown(r); (got > 0) != want {
					b.Fatalf("%d figures are shown; missing %q", got, r.Missing)
				}
			}
		})
	}
	run("without", func() moment.Metrics { return nil }, false)
	run("chunks", func() moment.Metrics { return stored(b, dir) }, true)
	w := metrics.IndexWriter{Store: store, Root: layout.DefaultRoot,
		Put: func(ctx context.Context, key string, body io.ReadSeeker) error { return store.Create(ctx, key, body) }}
	must.OK(b, w.Write(b.Context(), stats.Session, false))
	run("index", func() moment.Metrics { return stored(b, dir) }, true)
	kept := stored(b, dir)
	run("again", func() moment.Metrics { return kept }, true)
}

// shown counts the figures of a report.
func shown(r *findings.Report) (n int) {
	for _, f := range r.Findings {
		for _, e := range f.Evidence {
			if e.Source == "metric" && strings.HasPrefix(e.Text, "memory of node") {
				n++
			}
		}
	}
	return n
}
