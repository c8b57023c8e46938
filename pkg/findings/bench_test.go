package findings_test

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/session"
)

// BenchmarkFindings: a session of 100,000 tasks, of which some thousand attempts failed: in memory, from its index, and as kept with the index.
func BenchmarkFindings(b *testing.B) { benchmark(b, 100_000) }

// BenchmarkFindingsOfAMillion is the same with 1,000,000 tasks; it takes 5 GB of TMPDIR.
func BenchmarkFindingsOfAMillion(b *testing.B) { benchmark(b, 1_000_000) }

func benchmark(b *testing.B, tasks int) {
	dir := b.TempDir()
	stats, err := sessiongen.Write(dir, sessiongen.Options{Tasks: tasks, Ended: true})
	if err != nil {
		b.Fatal(err)
	}
	writeIndex(b, dir, stats.Session, false)
	read := func(s *session.Session) *findings.Report { return report(b, s) }
	readKept := func(s *session.Session) *findings.Report { return reportKept(b, dir, s, false) }
	for _, from := range []struct {
		name string
		open func() *session.Session
		read func(*session.Session) *findings.Report
	}{
		{"events", func() *session.Session { return load(b, dir, stats.Session, nil) }, read},
		{"index", func() *session.Session { return indexed(b, dir, stats.Session) }, read},
		{"kept", func() *session.Session { return indexed(b, dir, stats.Session) }, readKept},
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
