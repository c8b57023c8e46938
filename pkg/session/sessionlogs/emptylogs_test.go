package sessionlogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// addList stores a list of empty logs, and adds it to the set.
func addList(t *testing.T, set *Set, store *storetest.Store, offset int64, text string) {
	t.Helper()
	key := layout.ChunkKey(layout.EmptyLogsKey("log", logSession, logNode), offset, layout.Plain)
	store.Objects[key] = []byte(text)
	o, err := layout.ParseObject("log", logSession, key)
	must.True(t, err == nil && o.Kind == layout.EmptyLogs && o.Node == logNode && o.Offset == offset, "%s is %+v, %v",
		key, o, err)
	set.AddList(o, layout.LogPrefix("log", logSession, logNode), blob.Object{Key: key, Size: int64(len(text))})
}

// TestEmptyLogs: listed logs are logs of 0 bytes unless they are stored. Lines that are no paths are skipped.
func TestEmptyLogs(t *testing.T) {
	set, store := logOf(t, "b.out", testChunk{text: "hello\n"})
	addList(t, set, store, 0, "worker.err\nb.out\n../../escape\n\n/abs\nserve/x.log\n")
	addList(t, set, store, 100, "a.err\nworker.err\ntorn")
	read := func(set, former *Set) {
		t.Helper()
		must.OK(t, set.ReadLists(t.Context(), former, func(int64) error { return nil }))
	}
	read(set, nil)
	want := []string{"a.err", "b.out", "serve/x.log", "worker.err"}
	says.EqualSlices(t, set.Paths(logNode), want, "the logs")
	for _, path := range want {
		f := open(t, set, path)
		r := must.Get(set.NewReader(t.Context(), logNode, path, chunks.Options{}))(t)
		text, err := io.ReadAll(r)
		if wantSize := int64(len(text)); err != nil || f.Size() != wantSize || (wantSize == 0) == (path == "b.out") {
			t.Errorf("%s has %d bytes, %q, %v", path, f.Size(), text, err)
		}
		_ = r.Close()
	}
	for _, none := range []string{"torn", "escape", "worker", "z"} {
		says.ErrorIs(t, says.Err(set.Open(t.Context(), logNode, none)), os.ErrNotExist, none)
	}
	// Lists that were read are not read again.
	next := New(store)
	addList(t, next, store, 0, "worker.err\nb.out\n../../escape\n\n/abs\nserve/x.log\n")
	addList(t, next, store, 200, "late.err\n")
	delete(store.Objects, layout.EmptyLogsKey("log", logSession, logNode))
	read(next, set)
	says.EqualSlices(t, next.Paths(logNode), []string{"b.out", "late.err", "serve/x.log", "worker.err"},
		"later the logs")
}

// TestManyEmptyLogs: the memory of their names counts, and reading ends when it is too much.
func TestManyEmptyLogs(t *testing.T) {
	store := storetest.New()
	set := New(store)
	const names = 500 // of 200 bytes in each list, which take 100 KB, and twice as much while they are read
	for i := range int64(4) {
		var text strings.Builder
		for n := range names {
			fmt.Fprintf(&text, "worker-%d-%s%03d\n", i, strings.Repeat("x", 187), n)
		}
		addList(t, set, store, i, text.String())
	}
	tooMuch := errors.New("too much")
	err := set.ReadLists(t.Context(), nil, func(bytes int64) error {
		if bytes > 400_000 {
			return tooMuch
		}
		return nil
	})
	got := len(set.Paths(logNode))
	says.True(t, errors.Is(err, tooMuch) && got == 2*names, "%d names were read, %v", got, err)
}

// TestManyLinesOfEmptyLogs: a list of short lines takes many times its size until its names are known, which is counted
// before.
func TestManyLinesOfEmptyLogs(t *testing.T) {
	store := storetest.New()
	set := New(store)
	const lines = 1 << 20
	addList(t, set, store, 0, strings.Repeat("a\n", lines))
	var most, last int64
	if err := set.ReadLists(t.Context(), nil, func(bytes int64) error {
		most, last = max(most, bytes), bytes
		return nil
	}); err != nil || most < 16*lines || last > 100 {
		t.Errorf("%d bytes were reserved, and %d at the end: %v", most, last, err)
	}
	got := set.Paths(logNode)
	says.True(t, slices.Equal(got, []string{"a"}), "%d logs", len(got))
}

// TestEmptyLogGrows: the first bytes of an empty log are stored under the log's own key, or, by collectors that stored
// it as an empty object, under one with an offset.
func TestEmptyLogGrows(t *testing.T) {
	for name, key := range map[string]func(stream string) string{
		"own key":    func(stream string) string { return stream },
		"compressed": func(stream string) string { return layout.LogChunkKey(stream, 0, layout.Zstd) },
		"spelled":    func(stream string) string { return layout.SpelledChunkKey(stream, 0, layout.Plain) },
	} {
		store := must.Get(local.Open(t.TempDir()))(t)
		empty := &File{store: store, stream: layout.LogKey("log", logSession, logNode, "a.gz")}
		says.Equal(t, must.Get(empty.Refresh(t.Context()))(t), empty, name)
		compression := layout.Plain
		if name == "compressed" {
			compression = layout.Zstd
		}
		must.OK(t, store.Put(t.Context(), key(empty.stream), bytes.NewReader(layouttest.Pack(t, "now\n", compression))))
		f, err := empty.Refresh(t.Context())
		says.True(t, err == nil && readRange(t, f, 0, 10) == "now\n", "%s: %d bytes, %v", name, f.Size(), err)
	}
}

// TestLogChunkTakenAwayWhileRead: what is left of a chunk that compaction removes while it is read comes from the
// joined object.
func TestLogChunkTakenAwayWhileRead(t *testing.T) {
	store := must.Get(local.Open(t.TempDir()))(t)
	defer store.Close()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	key := layout.LogKey("log", ref, rayid.Node{1}, "grown.log")
	content := strings.Repeat("0123456\n", 100)
	logs := New(&takenAway{Store: store, half: len(content) / 2, join: func() {
		says.OK(t,
			store.Put(t.Context(), layout.LogChunkKey(key, 0, layout.Plain), strings.NewReader("begin\n"+content)))
	}})
	for offset, body := range map[int64]string{0: "begin\n", 6: content} {
		chunk := layout.LogChunkKey(key, offset, layout.Plain)
		must.OK(t, store.Create(t.Context(), chunk, strings.NewReader(body)))
		o := must.Get(layout.ParseObject("log", ref, chunk))(t)
		logs.Add(o, blob.Object{Key: chunk, Size: int64(len(body))})
	}
	file := must.Get(logs.Open(t.Context(), rayid.Node{1}, "grown.log"))(t)
	got, err := file.ReadRange(t.Context(), 6, file.Size())
	says.True(t, string(got) == content && err == nil, "reads %d bytes of %d, %v", len(got), len(content), err)
}

// takenAway is a store in which a compaction joins chunks and removes those read from past their start when half of one
// is read.
type takenAway struct {
	*local.Store
	half int
	join func()
	gone bool
}

func (s *takenAway) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	body, err := s.Store.Get(ctx, key, offset, length)
	if err != nil || s.gone {
		return body, err
	}
	s.gone = true
	s.join()
	if err := s.Delete(ctx, key); err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(body, int64(s.half)), iotest.ErrReader(os.ErrNotExist)), body}, nil
}

// listings is a store that notes what is listed.
type listings struct {
	*local.Store
	prefixes []string
}

func (l *listings) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	l.prefixes = append(l.prefixes, prefix)
	return l.Store.List(ctx, prefix, opts)
}

// TestRefresh: chunks stored after a log was opened are found, those of other logs are not.
func TestRefresh(t *testing.T) {
	store := &listings{Store: must.Get(local.Open(t.TempDir()))(t)}
	whole := layout.LogKey(layout.DefaultRoot, logSession, logNode, "raylet.out")
	put := func(key, text string) {
		t.Helper()
		must.OK(t, store.Create(t.Context(), key, strings.NewReader(text)))
	}
	logs := New(store)
	put(whole, "first\n")
	logs.Add(layout.Object{Kind: layout.Log, Node: logNode, Path: "raylet.out", Stream: whole},
		blob.Object{Key: whole, Size: 6, ModTime: time.Unix(1, 0)})
	f, err := logs.Open(t.Context(), logNode, "raylet.out")
	must.OK(t, err)
	read := func() string {
		t.Helper()
		if f, err = f.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		text := must.Get(f.ReadRange(t.Context(), 0, f.Size()))(t)
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
		got := read()
		must.True(t, got == step.want, "%s: %q, want %q", step.name, got, step.want)
		for _, prefix := range store.prefixes { // not of logs whose names begin with this one's
			says.Equal(t, prefix, whole+".@", "%s: listed", step.name)
		}
		stored := f.StoredBy(math.MaxInt64)
		says.True(t, stored == f.Size(), "%s: %d bytes of %d had been stored in the end", step.name, stored, f.Size())
	}
}
