package index

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// BenchmarkIndex opens the index of a session of 100,000 tasks, and asks for what reads all of its rows.
func BenchmarkIndex(b *testing.B) {
	s := generated(b, 100_000)
	s.write(s.load())
	load := func(b *testing.B) *session.Session {
		loaded, err := session.Load(b.Context(), s.store, layout.DefaultRoot, s.ref,
			session.Options{Log: s.log, Index: s.opener()})
		if err != nil || !loaded.Indexed() {
			b.Fatal(err, loaded.Indexed())
		}
		return loaded
	}
	for name, ask := range map[string]func(*session.Session) error{
		"open": func(*session.Session) error { return nil },
		"summarize": func(s *session.Session) error {
			_, err := s.Tasks.Summarize(tasktable.Query{}, false)
			return err
		},
		"lineage": func(s *session.Session) error {
			_, err := s.Tasks.Lineage(tasktable.Query{Limit: 10_000}, func(rayid.Actor) string { return "" }, 100)
			return err
		},
		"all columns": func(s *session.Session) error {
			_, err := s.Tasks.Select(tasktable.Query{Limit: 1,
				Filters: []tasktable.Filter{{Key: "node_id", Value: "00"}}})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must.OK(b, ask(load(b)))
			}
		})
	}
}
