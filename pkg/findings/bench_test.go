package findings_test

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/session"
)

// BenchmarkFindings: a session of 100,000 tasks, of which some thousand attempts failed, in memory and from its index.
func BenchmarkFindings(b *testing.B) {
	dir := b.TempDir()
	stats, err := sessiongen.Write(dir, sessiongen.Options{Tasks: 100_000, Ended: true})
	if err != nil {
		b.Fatal(err)
	}
	for name, open := range map[string]func() *session.Session{
		"events": func() *session.Session { return load(b, dir, stats.Session, nil) },
		"index":  func() *session.Session { return indexed(b, dir, stats.Session) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := open()
				b.StartTimer()
				if r := report(b, s); len(r.Findings) == 0 {
					b.Fatal("nothing was found")
				}
			}
		})
	}
}
