package sessionlogs

import (
	"os"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

var (
	logSession = layout.Session{Version: layout.V16, Namespace: "default", Cluster: "lab",
		Name: "session_2026-11-20_23-19-45_581717_22125"}
	logNode = rayid.Node{0x11, 27: 0x58}
)

// testChunk is a part of a log: text from offset on.
type testChunk struct {
	offset      int64
	text        string
	compression layout.Compression
}

// logOf stores chunks as one log, in the order they come.
func logOf(t *testing.T, path string, chunks ...testChunk) (*Set, *storetest.Store) {
	t.Helper()
	store := storetest.New()
	set := New(store)
	for _, c := range chunks {
		key := layout.LogChunkKey(layout.LogKey("log", logSession, logNode, path), c.offset, c.compression)
		store.Objects[key] = layouttest.Pack(t, c.text, c.compression)
		o := must.Get(layout.ParseObject("log", logSession, key))(t)
		set.Add(o, blob.Object{Key: key, Size: int64(len(store.Objects[key]))})
	}
	return set, store
}

func open(t *testing.T, set *Set, path string) *File {
	t.Helper()
	return must.Get(set.Open(t.Context(), logNode, path))(t)
}

func readRange(t *testing.T, f *File, start, end int64) string {
	t.Helper()
	b := must.Get(f.ReadRange(t.Context(), start, end))(t)
	return string(b)
}

func TestLogOfChunks(t *testing.T) {
	const whole = "one\ntwo\nthree\nfour\nfive\n"
	for name, chunks := range map[string][]testChunk{
		"one": {{0, whole, layout.Plain}},
		"three": {{0, "one\ntwo\n", layout.Plain}, {8, "three\n", layout.Plain},
			{14, "four\nfive\n", layout.Plain}},
		"not in order": {{14, "four\nfive\n", layout.Plain}, {0, "one\ntwo\n", layout.Plain},
			{8, "three\n", layout.Plain}},
		"gzip": {{0, "one\ntwo\n", layout.Gzip}, {8, "three\nfour\nfive\n", layout.Gzip}},
		"zstd": {{0, whole, layout.Zstd}},
		"mixed": {{0, "one\ntwo\n", layout.Zstd}, {8, "three\n", layout.Plain},
			{14, "four\nfive\n", layout.Gzip}},
		"two writers": {{0, "one\ntwo\nthr", layout.Plain}, {8, "three\nfour\nfive\n", layout.Plain}},
		"compacted":   {{0, whole, layout.Plain}, {8, "three\n", layout.Plain}, {14, "four\nfive\n", layout.Plain}},
		"compacted, gzip": {{0, whole, layout.Plain}, {0, "one\ntwo\n", layout.Gzip},
			{8, "three\nfour\nfive\n", layout.Gzip}},
	} {
		t.Run(name, func(t *testing.T) {
			set, _ := logOf(t, "raylet.out", chunks...)
			f := open(t, set, "raylet.out")
			says.Equal(t, f.Size(), int64(len(whole)), "size, want %d", len(whole))
			for start := range int64(len(whole)) {
				for end := start; end <= int64(len(whole)); end++ {
					if got := readRange(t, f, start, end); got != whole[start:end] {
						t.Fatalf("[%d, %d) is %q, want %q", start, end, got, whole[start:end])
					}
				}
			}
			for n := range 7 {
				start, err := f.TailStart(t.Context(), f.Size(), n, f.Size())
				lines := strings.SplitAfter(whole, "\n")
				if want := strings.Join(lines[max(0, 5-n):], ""); err != nil || whole[start:] != want {
					t.Errorf("last %d lines: %q, %v, want %q", n, whole[start:], err, want)
				}
			}
		})
	}
}

// TestTextWithGap: a text goes on behind a gap, and says where each of its bytes was.
func TestTextWithGap(t *testing.T) {
	for _, compression := range []layout.Compression{layout.Plain, layout.Zstd} {
		set, _ := logOf(t, "a.log", testChunk{0, "one\n", compression}, testChunk{50, "two\n", compression},
			testChunk{1 << 40, "three\n", layout.Plain})
		f := open(t, set, "a.log")
		for _, c := range []struct {
			start, end, most int64
			text             string
			offsets          []int64
		}{
			{0, f.Size(), 100, "one\ntwo\nthree\n", []int64{0, 1, 2, 3, 50, 51, 52, 53, 1 << 40, 1<<40 + 1, 1<<40 + 2,
				1<<40 + 3, 1<<40 + 4, 1<<40 + 5, 1<<40 + 6}},
			{1, 52, 100, "ne\ntw", []int64{1, 2, 3, 50, 51, 52}},
			{2, 60, 3, "e\nt", []int64{2, 3, 50, 51}},
			{10, 20, 100, "", []int64{20}},
			{60, f.Size(), 2, "th", []int64{1 << 40, 1<<40 + 1, 1<<40 + 2}},
			{f.Size(), f.Size(), 100, "", []int64{f.Size()}},
		} {
			text, err := f.ReadText(t.Context(), c.start, c.end, c.most)
			must.True(t, err == nil && string(text.Bytes) == c.text,
				"compression %d, %d bytes of [%d, %d): %q, %v, want %q", compression, c.most, c.start, c.end,
				text.Bytes, err, c.text)
			for i, want := range c.offsets {
				says.Equal(t, text.Offset(i), want,
					"compression %d, %d bytes of [%d, %d): byte %d was at", compression, c.most, c.start, c.end, i)
			}
		}
	}
}

// TestTailReadsLittle: a tail of a large log costs what the tail is long.
func TestTailReadsLittle(t *testing.T) {
	const chunkLines, chunks = 40_000, 8
	var parts []testChunk
	line := strings.Repeat("x", 99) + "\n"
	for i := range chunks {
		parts = append(parts, testChunk{int64(i * chunkLines * len(line)), strings.Repeat(line, chunkLines),
			layout.Plain})
	}
	set, store := logOf(t, "big.log", parts...)
	f := open(t, set, "big.log")
	start, err := f.TailStart(t.Context(), f.Size(), 1000, f.Size())
	want := f.Size() - 1000*int64(len(line))
	must.True(t, err == nil && start == want, "start %d, %v, want %d", start, err, want)
	limit := 4 * 1000 * int64(len(line))
	says.True(t, store.Read.Load() <= limit, "read %d bytes of %d, want at most %d", store.Read.Load(), f.Size(), limit)
}

// TestTailOfLongLines: who wants some bytes of a tail does not pay for a line that is longer.
func TestTailOfLongLines(t *testing.T) {
	const size, most = 16 << 20, 100_000
	set, store := logOf(t, "bar.log", testChunk{0, "one\n" + strings.Repeat("\r12%", size/4) + "\n", layout.Plain})
	f := open(t, set, "bar.log")
	for n, want := range map[int]int64{1: f.Size() - most, 1000: f.Size() - most} {
		says.Equal(t, must.Get(f.TailStart(t.Context(), f.Size(), n, most))(t), want, "last %d lines start at", n)
	}
	says.True(t, store.Read.Load() <= 10*most, "read %d bytes for %d", store.Read.Load(), most)
	for _, end := range []int64{4, f.Size()} { // lines that fit
		start, err := f.TailStart(t.Context(), end, 2, end)
		says.True(t, err == nil && start == 0, "last lines before %d start at %d, %v, want 0", end, start, err)
	}
}

func TestLogSetNames(t *testing.T) {
	set, _ := logOf(t, "serve/replica.log", testChunk{0, "x\n", layout.Plain}, testChunk{2, "y\n", layout.Plain})
	says.EqualSlices(t, set.Nodes(), []rayid.Node{logNode}, "nodes")
	says.EqualSlices(t, set.Paths(logNode), []string{"serve/replica.log"}, "paths")
	says.True(t, set.Paths(rayid.Node{1}) == nil, "an unknown node has paths")
	for _, path := range []string{"serve", "nope", "", "../x"} {
		says.ErrorIs(t, says.Err(set.Open(t.Context(), logNode, path)), os.ErrNotExist, "open %q", path)
	}
}

// TestBrokenChunk: what cannot be decompressed is an error that names the object.
func TestBrokenChunk(t *testing.T) {
	set, store := logOf(t, "a.log", testChunk{0, "one\n", layout.Gzip}, testChunk{4, "two\n", layout.Plain})
	for key := range store.Objects {
		if strings.HasSuffix(key, ".gz") {
			store.Objects[key] = []byte("not gzip")
		}
	}
	f := open(t, set, "a.log")
	says.Error(t, says.Err(f.ReadRange(t.Context(), 0, 4)), "a.log.@", "error")
	says.Equal(t, readRange(t, f, 4, 8), "two\n", "the chunk after")
}
