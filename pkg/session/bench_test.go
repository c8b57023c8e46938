package session

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// generated is a session of n tasks in memory, its events as lines.
func generated(b *testing.B, n int) (ref layout.Session, store *bucket, size int64) {
	b.Helper()
	dir := b.TempDir()
	stats := must.Get(sessiongen.Write(dir, sessiongen.Options{Tasks: n, Hours: 1}))(b)
	store = newBucket()
	must.OK(b, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		key, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		store.objects[filepath.ToSlash(key)], err = os.ReadFile(path)
		return err
	}))
	return stats.Session, store, stats.Bytes
}

func (b *bucket) load(t testing.TB, ref layout.Session) *Session {
	t.Helper()
	s := must.Get(Load(t.Context(), b, layout.DefaultRoot, ref, Options{}))(t)
	return s
}

// BenchmarkLoad is a cold load from memory, in each form that events are stored in. Bytes per second are those of the
// events' text.
func BenchmarkLoad(b *testing.B) {
	ref, store, size := generated(b, 20_000)
	for _, form := range []struct {
		name string
		ext  string
		of   func(lines []byte) []byte
	}{
		{"lines", "", func(lines []byte) []byte { return lines }},
		{"array", "", func(lines []byte) []byte {
			return append(append([]byte{'['}, bytes.ReplaceAll(bytes.TrimSpace(lines), []byte("\n"), []byte(","))...),
				']')
		}},
		{"zstd", ".zst", func(lines []byte) []byte { return layouttest.Pack(b, string(lines), layout.Zstd) }},
		{"gzip", ".gz", func(lines []byte) []byte { return layouttest.Pack(b, string(lines), layout.Gzip) }},
	} {
		b.Run(form.name, func(b *testing.B) {
			stored := newBucket()
			for key, lines := range store.objects {
				if strings.Contains(key, "_events/") {
					stored.objects[key+form.ext] = form.of(lines)
				}
			}
			b.SetBytes(size)
			b.ReportAllocs()
			var s *Session
			for b.Loop() {
				s = stored.load(b, ref)
			}
			b.ReportMetric(float64(s.Tasks.MemoryBytes())/float64(s.Tasks.Len()), "B/attempt")
		})
	}
}

// BenchmarkDecode gets events into the tables, an event after the other. What libraries take to fill structs alone is
// measured in test/decoders, so that this module does not need them.
func BenchmarkDecode(b *testing.B) {
	ref, store, size := generated(b, 2_000)
	var events [][]byte
	for _, lines := range store.objects {
		if len(lines) > 0 {
			events = append(events, bytes.Split(bytes.TrimSpace(lines), []byte("\n"))...)
		}
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		tables := tasktable.NewBuilder()
		d := eventjson.NewDecoder(tablesSink{tables, entities.NewBuilder()}, tables.Strings, tables.States, ref.Name)
		for _, e := range events {
			must.Get(d.Decode(e))(b)
		}
	}
}

// BenchmarkQueries are queries of a session of 100,000 tasks.
func BenchmarkQueries(b *testing.B) {
	ref, store, _ := generated(b, 100_000)
	s := store.load(b, ref)
	for _, q := range []struct {
		name  string
		query tasktable.Query
	}{
		{"all, limit 100", tasktable.Query{Limit: 100, ExcludeDriver: true}},
		{"state", tasktable.Query{Limit: 100, ExcludeDriver: true,
			Filters: []tasktable.Filter{{Key: "state", Value: "FAILED", SentLowerCase: true}}}},
		{"name", tasktable.Query{Limit: 100, ExcludeDriver: true,
			Filters: []tasktable.Filter{{Key: "name", Value: "stage_1", SentLowerCase: true}}}},
		{"job", tasktable.Query{Limit: 100, ExcludeDriver: true,
			Filters: []tasktable.Filter{{Key: "job_id", Value: "01000000", SentLowerCase: true}}}},
		{"node", tasktable.Query{Limit: 100, ExcludeDriver: true,
			Filters: []tasktable.Filter{{Key: "node_id", Value: strings.Repeat("00", 28)}}}},
		{"task", tasktable.Query{Limit: 100, ExcludeDriver: true,
			Filters: []tasktable.Filter{{Key: "task_id", Value: taskID(1).String(), SentLowerCase: true}}}},
	} {
		b.Run("select "+q.name, func(b *testing.B) {
			for b.Loop() {
				must.Get(s.Tasks.Select(q.query))(b)
			}
		})
	}
	b.Run("summarize", func(b *testing.B) {
		for b.Loop() {
			must.Get(s.Tasks.Summarize(tasktable.Query{ExcludeDriver: true}, false))(b)
		}
	})
	b.Run("lineage", func(b *testing.B) {
		for b.Loop() {
			must.Get(s.Tasks.Lineage(tasktable.Query{ExcludeDriver: true, Limit: 10_000},
				func(rayid.Actor) string { return "" }, 100))(b)
		}
	})
}
