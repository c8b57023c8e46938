package sessionlogs

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestRefresh: chunks stored after a log was opened are found, those of other logs are not.
func TestRefresh(t *testing.T) {
	store, err := local.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	whole := layout.LogKey(layout.DefaultRoot, logSession, logNode, "raylet.out")
	put := func(key, text string) {
		t.Helper()
		if err := store.Create(t.Context(), key, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	logs := New(store)
	put(whole, "first\n")
	logs.Add(layout.Object{Kind: layout.Log, Node: logNode, Path: "raylet.out", Stream: whole},
		blob.Object{Key: whole, Size: 6, ModTime: time.Unix(1, 0)})
	f, err := logs.Open(t.Context(), logNode, "raylet.out")
	if err != nil {
		t.Fatal(err)
	}
	read := func() string {
		t.Helper()
		if f, err = f.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := f.ReadRange(t.Context(), 0, f.Size())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, step := range []struct {
		name, key, text, want string
	}{
		{"nothing new", "", "", "first\n"},
		{"another log", layout.LogKey(layout.DefaultRoot, logSession, logNode, "raylet.out.1"), "other\n", "first\n"},
		{"a chunk", layout.LogChunkKey(whole, 6, layout.Plain), "second\n", "first\nsecond\n"},
		{"a compressed chunk", layout.LogChunkKey(whole, 13, layout.Zstd),
			string(layouttest.Pack(t, "third\n", layout.Zstd)), "first\nsecond\nthird\n"},
		{"one after it", layout.LogChunkKey(whole, 19, layout.Plain), "fourth\n", "first\nsecond\nthird\nfourth\n"},
	} {
		if step.key != "" {
			put(step.key, step.text)
		}
		if got := read(); got != step.want {
			t.Fatalf("%s: %q, want %q", step.name, got, step.want)
		}
		if stored := f.StoredBy(math.MaxInt64); stored != f.Size() {
			t.Errorf("%s: %d bytes of %d had been stored in the end", step.name, stored, f.Size())
		}
	}
}
