package sessiongen

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/event"
)

// TestWrite: every object parses, every line is an event of a known type, chunks follow each other, and the same
// options give the same bytes.
func TestWrite(t *testing.T) {
	for _, o := range []Options{{Tasks: 400}, {Tasks: 400, Version: layout.V17},
		{Tasks: 400, ChunkEvents: 7, Hours: 1}} {
		dir := t.TempDir()
		stats := must.Get(Write(dir, o))(t)
		lines, objects := 0, 0
		sum := visit(t, dir, func(key string, body []byte) {
			if key == layout.MarkerKey(layout.DefaultRoot, stats.Session) {
				return
			}
			object := must.Get(layout.ParseObject(layout.DefaultRoot, stats.Session, key))(t)
			objects++
			says.True(t, object.Offset == 0 || o.ChunkEvents != 0, "%s is a chunk", key)
			for line := range bytes.Lines(body) {
				lines++
				var e struct{ EventType string }
				must.OK(t, json.Unmarshal(line, &e), "%s: %s", key, line)
				says.True(t, event.ParseType([]byte(e.EventType)) != event.Unknown, "%s: type %q", key, e.EventType)
			}
		})
		says.True(t, lines == stats.Events && objects == stats.Objects, "%d events in %d objects, stats say %+v", lines,
			objects, stats)
		perTask := float64(stats.Events) / float64(o.Tasks)
		says.True(t, perTask >= 5 && perTask <= 5.6, "%.2f events a task", perTask)
		again := t.TempDir()
		must.Get(Write(again, o))(t)
		says.Equal(t, visit(t, again, func(string, []byte) {}), sum, "the same options gave other bytes")
	}
}

// visit calls f for each object in order of keys, and hashes all of it.
func visit(t *testing.T, dir string, f func(key string, body []byte)) [sha256.Size]byte {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(file)
		f(filepath.ToSlash(rel), body)
		h.Write([]byte(rel))
		h.Write(body)
		return err
	})
	must.OK(t, err)
	return [sha256.Size]byte(h.Sum(nil))
}
