package chunks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const plain, gz, zst = layout.Plain, layout.Gzip, layout.Zstd

type testChunk struct {
	offset int64
	text   string
	c      layout.Compression
}

// stream stores chunks of one log and lists them.
func stream(t testing.TB, m *storetest.Store, list ...testChunk) *Stream {
	t.Helper()
	s := &Stream{Key: "a.log", Kind: layout.Log}
	for i, c := range list {
		key := layout.LogChunkKey(s.Key, c.offset, c.c)
		if _, taken := m.Objects[key]; taken {
			key = layout.SpelledChunkKey(fmt.Sprintf("%s%d", s.Key, i), c.offset, c.c)
		}
		m.Objects[key] = layouttest.Pack(t, c.text, c.c)
		s.Add(layout.Object{Offset: c.offset, Compression: c.c},
			blob.Object{Key: key, Size: int64(len(m.Objects[key]))})
	}
	s.Sort()
	return s
}

// readAll reads on after gaps.
func readAll(t testing.TB, r *Reader) (text string, gaps []string, err error) {
	t.Helper()
	defer r.Close()
	var out strings.Builder
	for {
		_, err := io.Copy(&out, r)
		if err == nil {
			return out.String(), gaps, nil
		}
		gap := (*Gap)(nil)
		if !errors.As(err, &gap) {
			return out.String(), gaps, err
		}
		says.True(t, gap.From <= gap.To && gap.To == r.Offset(), "a gap %d to %d, then reading goes on at %d", gap.From,
			gap.To, r.Offset())
		gaps = append(gaps, gap.Error())
	}
}

func TestReader(t *testing.T) {
	const text = "one\ntwo\nthree\nfour\nfive\n"
	for name, list := range map[string][]testChunk{
		"one":                   {{0, text, plain}},
		"three":                 {{0, "one\ntwo\n", plain}, {8, "three\n", plain}, {14, "four\nfive\n", plain}},
		"not in order":          {{14, "four\nfive\n", plain}, {0, "one\ntwo\n", plain}, {8, "three\n", plain}},
		"gzip":                  {{0, "one\ntwo\n", gz}, {8, "three\nfour\nfive\n", gz}},
		"zstd":                  {{0, text, zst}},
		"mixed":                 {{0, "one\ntwo\n", zst}, {8, "three\n", plain}, {14, "four\nfive\n", gz}},
		"overlap":               {{0, "one\ntwo\nthr", plain}, {8, "three\nfour\nfive\n", plain}},
		"overlap, zstd":         {{0, "one\ntwo\nthr", zst}, {8, "three\nfour\nfive\n", zst}},
		"twice":                 {{0, "one\n", plain}, {0, "one\n", plain}, {4, "two\nthree\nfour\nfive\n", plain}},
		"empty first":           {{0, "", plain}, {0, text, plain}},
		"longer first":          {{0, "one\ntwo\n", plain}, {8, "three\nfour\nfive\n", gz}, {8, "three\n", zst}},
		"compacted":             {{0, text, plain}, {8, "three\n", plain}, {14, "four\nfive\n", plain}},
		"compacted, some gone":  {{0, text, plain}, {14, "four\n", plain}},
		"compacted, more came":  {{0, text[:14], plain}, {8, "three\n", plain}, {14, "four\nfive\n", plain}},
		"compacted of gzip":     {{0, text, plain}, {0, "one\ntwo\n", gz}, {8, "three\nfour\nfive\n", gz}},
		"within one, and zstd":  {{0, text, zst}, {4, "two\n", zst}},
		"within one, and plain": {{0, text, plain}, {4, "two\n", zst}, {8, "three\n", plain}},
	} {
		t.Run(name, func(t *testing.T) {
			m := storetest.New()
			stream := stream(t, m, list...)
			for _, exact := range []bool{false, true} {
				done := 0
				r := NewReader(t.Context(), m, stream, Options{Exact: exact, OnChunk: func(Chunk) { done++ }})
				if got, gaps, err := readAll(t, r); got != text || len(gaps) > 0 || err != nil || done != len(list) {
					t.Errorf("got %q, gaps %q, %v; %d of %d chunks done", got, gaps, err, done, len(list))
				}
			}
			for from := range int64(len(text)) {
				if strings.HasPrefix(name, "within one, and zstd") && from >= 4 {
					continue // which chunk holds the byte shows only when they are read
				}
				for to := from + 1; to <= int64(len(text)); to++ {
					got, gaps, err := readAll(t, NewReader(t.Context(), m, stream, Options{From: from, To: to}))
					must.True(t, got == text[from:to] && len(gaps) == 0 && err == nil,
						"[%d, %d) is %q, want %q; gaps %q, %v", from, to, got, text[from:to], gaps, err)
					// Who expects to stop may go on.
					got, gaps, err = readAll(t, NewReader(t.Context(), m, stream, Options{From: from, Expect: to}))
					must.True(t, got == text[from:] && len(gaps) == 0 && err == nil,
						"[%d, ∞) is %q, want %q; gaps %q, %v", from, got, text[from:], gaps, err)
				}
			}
		})
	}
}

// TestRegions: between a compressed chunk and a region's first nothing is missing, unless the stream is a log. Reading
// may go on there after all that was stored before.
func TestRegions(t *testing.T) {
	region := layout.NextRegion(4)
	must.True(t, !layout.IsRegion(4) && !layout.IsRegion(0) && layout.IsRegion(region) &&
		layout.NextRegion(region) > region, "the region after 4 begins at %d", region)
	for name, tt := range map[string]struct {
		kind layout.Kind
		list []testChunk
		gaps int
	}{
		"events": {layout.NodeEvents, []testChunk{{0, "1\n", zst}, {2, "2\n", gz}, {region, "3\n4\n", zst}}, 0},
		"then plain": {layout.Metrics, []testChunk{{0, "1\n2\n", zst}, {region, "3\n", plain},
			{region + 2, "4\n", zst}}, 0},
		"after plain": {layout.NodeEvents, []testChunk{{0, "1\n2\n", plain}, {region, "3\n4\n", zst}}, 1},
		"not a first": {layout.NodeEvents, []testChunk{{0, "1\n2\n", zst}, {region + 2, "3\n4\n", zst}}, 1},
		"a log":       {layout.Log, []testChunk{{0, "1\n2\n", zst}, {region, "3\n4\n", zst}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := storetest.New()
			stream := stream(t, m, tt.list...)
			stream.Kind = tt.kind
			for from, want := range map[int64]string{0: "1\n2\n3\n4\n", 4: "3\n4\n"} {
				got, gaps, err := readAll(t, NewReader(t.Context(), m, stream, Options{From: from}))
				says.True(t, got == want && len(gaps) == tt.gaps && err == nil, "from %d: %q, gaps %q, %v", from, got,
					gaps, err)
			}
		})
	}
}

func TestGaps(t *testing.T) {
	const key8 = "a.log.@00000000000000000008"
	for name, tt := range map[string]struct {
		list  []testChunk
		spoil func(m *storetest.Store)
		want  string
		gaps  []string
		is    error // of the first gap
	}{
		"no chunk": {[]testChunk{{0, "one\n", plain}, {8, "two\n", plain}}, nil, "one\ntwo\n",
			[]string{"bytes 4 to 7 of a.log are missing"}, nil},
		"at first": {[]testChunk{{8, "two\n", plain}}, nil, "two\n", []string{"bytes 0 to 7 of a.log are missing"},
			nil},
		"short zstd chunks": {[]testChunk{{0, "one\n", zst}, {8, "two\n", zst}, {16, "six\n", gz}}, nil,
			"one\ntwo\nsix\n",
			[]string{"bytes 4 to 7 of", "bytes 12 to 15 of"}, nil},
		"gone": {[]testChunk{{0, "one\nsix\n", plain}, {8, "two\n", plain}, {12, "ten\n", plain}},
			func(m *storetest.Store) { delete(m.Objects, key8) }, "one\nsix\nten\n",
			[]string{key8 + " was listed but is gone"}, os.ErrNotExist},
		"gone at the end": {[]testChunk{{0, "one\nsix\n", plain}, {8, "two\n", plain}},
			func(m *storetest.Store) { delete(m.Objects, key8) }, "one\nsix\n", []string{"is gone"}, os.ErrNotExist},
		"no frame": {[]testChunk{{0, "one\nsix\n", plain}, {8, "two\n", zst}, {12, "ten\n", plain}},
			func(m *storetest.Store) { m.Objects[key8+".zst"] = []byte("no frame") }, "one\nsix\nten\n",
			[]string{key8 + ".zst is damaged at byte 0 of its content"}, ErrDamaged},
		"no gzip": {[]testChunk{{0, "one\nsix\n", plain}, {8, "two\n", gz}},
			func(m *storetest.Store) { m.Objects[key8+".gz"] = nil },
			"one\nsix\n", []string{key8 + ".gz is damaged at byte 0"}, ErrDamaged},
		"a cut frame": {[]testChunk{{0, "one\nsix\n", plain}, {8, "two\n", gz}, {12, "ten\n", plain}},
			func(m *storetest.Store) { m.Objects[key8+".gz"] = m.Objects[key8+".gz"][:15] }, "one\nsix\nten\n",
			[]string{"is damaged at byte 0"}, ErrDamaged},
		"a cut checksum": {[]testChunk{{0, "one\nsix\n", plain}, {8, "two\n", gz}, {12, "ten\n", plain}},
			func(m *storetest.Store) {
				whole := m.Objects[key8+".gz"]
				m.Objects[key8+".gz"] = whole[:len(whole)-4]
			}, "one\nsix\ntwo\nten\n", []string{"is damaged at byte 4"}, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			m := storetest.New()
			stream := stream(t, m, tt.list...)
			if tt.spoil != nil {
				tt.spoil(m)
			}
			prefetcher := NewPrefetcher(m)
			defer prefetcher.Stop()
			for _, opts := range []Options{{}, {Prefetcher: prefetcher}} {
				done := 0
				opts.OnChunk = func(Chunk) { done++ }
				got, gaps, err := readAll(t, NewReader(t.Context(), m, stream, opts))
				says.True(t, got == tt.want && err == nil && done == len(tt.list),
					"got %q, want %q, %v, %d chunks done", got, tt.want, err, done)
				must.True(t, len(gaps) == len(tt.gaps), "gaps %q, want %q", gaps, tt.gaps)
				for i, want := range tt.gaps {
					says.True(t, strings.Contains(gaps[i], want), "gap %q, want %q", gaps[i], want)
				}
			}
			_, err := io.ReadAll(NewReader(t.Context(), m, stream, Options{Exact: true}))
			if gap := (*Gap)(nil); !errors.As(err, &gap) || (tt.is != nil && !errors.Is(err, tt.is)) && !Changed(err) {
				t.Errorf("who reads strictly gets %v", err)
			}
		})
	}
}

func TestErrorsOfTheStoreAreNoGaps(t *testing.T) {
	refused := errors.New("the store is on fire")
	for _, c := range []layout.Compression{plain, gz, zst} {
		m := storetest.New()
		stream := stream(t, m, testChunk{0, strings.Repeat("one\n", 100), c}, testChunk{400, "two\n", plain})
		first := stream.Chunks[0].Object
		onFire := &storetest.Hooked{Store: m, Body: func(key string, body io.Reader) io.Reader {
			if key != first.Key {
				return body
			}
			return io.MultiReader(io.LimitReader(body, first.Size/2), iotest.ErrReader(refused))
		}}
		_, gaps, err := readAll(t, NewReader(t.Context(), onFire, stream, Options{}))
		if !errors.Is(err, refused) || len(gaps) > 0 || !strings.Contains(err.Error(), stream.Chunks[0].Object.Key) {
			t.Errorf("error %v, gaps %q: want the store's error, with the key", err, gaps)
		}
	}
	m := storetest.New()
	stream := stream(t, m, testChunk{0, "one\n", plain})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, gaps, err := readAll(t, NewReader(ctx, m, stream, Options{})); !errors.Is(err, context.Canceled) ||
		len(gaps) > 0 {
		t.Errorf("error %v, gaps %q", err, gaps)
	}
}

// TestArchived: a part of a log or of events that the store has archived is a gap. A part of metrics is not, because
// the tables that are made of them would be valid when the part is restored.
func TestArchived(t *testing.T) {
	for _, kind := range []layout.Kind{layout.Log, layout.NodeEvents, layout.Metrics} {
		m := storetest.New()
		s := stream(t, m, testChunk{0, "one\n", plain}, testChunk{4, "two\n", zst}, testChunk{8, "six\n", plain})
		s.Kind = kind
		archive := &storetest.Hooked{Store: m, Before: func(_ context.Context, _ storetest.Op, key string) error {
			if key == s.Chunks[1].Object.Key {
				return fmt.Errorf("%w: its words", blob.ErrArchived)
			}
			return nil
		}}
		got, gaps, err := readAll(t, NewReader(t.Context(), archive, s, Options{}))
		if kind == layout.Metrics {
			says.True(t, errors.Is(err, blob.ErrArchived) && len(gaps) == 0, "metrics: %v, gaps %q", err, gaps)
			continue
		}
		want := s.Chunks[1].Object.Key + " is archived by the store: restore it"
		says.True(t, err == nil && got == "one\nsix\n" && slices.Equal(gaps, []string{want}),
			"kind %d: %q, %v, gaps %q", kind, got, err, gaps)
	}
}

// TestExact: an object of another size than it was listed with is refused, where that matters.
func TestExact(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"longer":  func(b []byte) []byte { return append(slices.Clone(b), 'x') },
		"shorter": func(b []byte) []byte { return b[:len(b)-1] },
	} {
		m := storetest.New()
		stream := stream(t, m, testChunk{0, "one\n", plain})
		m.Objects["a.log"] = change(m.Objects["a.log"])
		_, err := io.ReadAll(NewReader(t.Context(), m, stream, Options{Exact: true}))
		says.True(t, errors.Is(err, ErrChanged) && Changed(err), "%s: error %v", name, err)
		if got, err := io.ReadAll(NewReader(t.Context(), m, stream,
			Options{})); string(got) != string(m.Objects["a.log"]) || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

// TestExactStopsAtTheListedSize: who reads only as many bytes as all chunks had when they were listed is also told that
// one has become longer, as the first does when what was joined replaces it.
func TestExactStopsAtTheListedSize(t *testing.T) {
	m := storetest.New()
	stream := stream(t, m, testChunk{0, "one\n", plain}, testChunk{4, "two\n", plain})
	m.Objects["a.log"] = []byte("one\ntwo\n")
	got := make([]byte, 8)
	n, err := io.ReadFull(NewReader(t.Context(), m, stream, Options{Exact: true}), got)
	says.True(t, string(got[:n]) == "one\n" && errors.Is(err, ErrChanged), "read %q, %v", got[:n], err)
}

// TestCompacted: chunks that compaction removed since they were listed are read from the object that replaces them, and
// from no other.
func TestCompacted(t *testing.T) {
	const text = "one\ntwo\nsix\n"
	for name, tt := range map[string]struct {
		kind layout.Kind
		c    layout.Compression // of the chunks
		put  string             // where the compacted object is
		as   layout.Compression
		want string
	}{
		"a log":                              {layout.Log, plain, "a", plain, text},
		"a log of zstd":                      {layout.Log, zst, "a", plain, text},
		"another log that ends in .zst":      {layout.Log, zst, "a.zst", zst, "one\n"},
		"events":                             {layout.NodeEvents, plain, "a", plain, text},
		"events of zstd":                     {layout.NodeEvents, zst, "a", plain, text},
		"events that keep their compression": {layout.JobEvents, zst, "a.zst", zst, text},
	} {
		t.Run(name, func(t *testing.T) {
			m := storetest.New()
			stream := &Stream{Key: "a", Kind: tt.kind}
			for i, line := range []string{"one\n", "two\n", "six\n"} {
				key := layout.SpelledChunkKey("a", int64(4*i), tt.c)
				m.Objects[key] = layouttest.Pack(t, line, tt.c)
				stream.Add(layout.Object{Offset: int64(4 * i), Compression: tt.c},
					blob.Object{Key: key, Size: int64(len(m.Objects[key]))})
			}
			r := NewReader(t.Context(), m, stream, Options{})
			var first [4]byte
			must.Get(io.ReadFull(r, first[:]))(t)
			clear(m.Objects)
			m.Objects[tt.put] = layouttest.Pack(t, text, tt.as)
			rest, gaps, err := readAll(t, r)
			if got := string(first[:]) + rest; got != tt.want || (len(gaps) > 0) != (tt.want != text) || err != nil {
				t.Errorf("got %q, gaps %q, %v; want %q", got, gaps, err, tt.want)
			}
		})
	}
}

// TestExpect: no more is requested of a large plain chunk than the caller expects to read.
func TestExpect(t *testing.T) {
	m := storetest.New()
	stream := stream(t, m, testChunk{0, strings.Repeat("x", 1<<20), plain})
	r := NewReader(t.Context(), m, stream, Options{From: 1000, Expect: 3000})
	_, err := io.ReadFull(r, make([]byte, 2000))
	says.True(t, err == nil && m.Read.Load() == 2000, "%d bytes were requested, %v", m.Read.Load(), err)
	if rest, gaps, err := readAll(t, r); len(rest) != 1<<20-3000 || len(gaps) > 0 || err != nil {
		t.Errorf("the rest has %d bytes, gaps %q, %v", len(rest), gaps, err)
	}
}

// TestWideWindow: a chunk that asks for a larger window than any collector uses is refused before it is allocated.
func TestWideWindow(t *testing.T) {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithWindowSize(512<<20), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderConcurrency(1))
	must.OK(t, err)
	for range 3 {
		_, err := z.Write(make([]byte, 1<<20))
		must.OK(t, errors.Join(err, z.Flush()))
	}
	must.OK(t, z.Close())
	m := storetest.New()
	stream := stream(t, m, testChunk{0, "", zst})
	m.Objects[stream.Chunks[0].Object.Key] = b.Bytes()
	n := testing.Benchmark(func(bench *testing.B) {
		for bench.Loop() {
			says.ErrorIs(t, says.Err(io.Copy(io.Discard, NewReader(t.Context(), m, stream, Options{}))), ErrDamaged,
				"error")
		}
	}).AllocedBytesPerOp()
	says.True(t, n <= 16<<20, "%d bytes were allocated", n)
}

// FuzzReader: however a text is cut into chunks, which may overlap, the reader gives the bytes that chunks hold, each
// once and in order.
func FuzzReader(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree\n"), []byte{0, 4, 0, 4, 4, 1, 8, 6, 2}, uint16(3), uint16(9))
	f.Add([]byte("one\ntwo\nthree\n"), []byte{2, 6, 0, 4, 4, 1, 9, 6, 2}, uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, text, cuts []byte, from, to uint16) {
		if len(text) > 1<<12 || len(cuts) > 60 {
			return
		}
		m := storetest.New()
		held := map[int64]bool{}
		var list []testChunk
		for c := range slices.Chunk(cuts, 3) {
			if len(c) < 3 {
				break
			}
			start := min(int(c[0]), len(text))
			end := min(start+int(c[1]), len(text))
			list = append(list, testChunk{int64(start), string(text[start:end]), layout.Compression(c[2] % 3)})
			for at := start; at < end; at++ {
				held[int64(at)] = true
			}
		}
		stream := stream(t, m, list...)
		var want strings.Builder
		for _, at := range slices.Sorted(maps.Keys(held)) {
			want.WriteByte(text[at])
		}
		prefetcher := NewPrefetcher(m)
		defer prefetcher.Stop()
		for _, opts := range []Options{{}, {Exact: true}, {Prefetcher: prefetcher}, {Expect: int64(to)}} {
			got, gaps, err := readAll(t, NewReader(t.Context(), m, stream, opts))
			must.True(t, got == want.String() && err == nil, "%+v: got %q, want %q; gaps %q, %v", opts, got,
				want.String(), gaps, err)
		}
		if slices.ContainsFunc(list, func(c testChunk) bool { return c.c != plain }) || from >= to {
			return
		}
		want.Reset()
		for _, at := range slices.Sorted(maps.Keys(held)) {
			if at >= int64(from) && at < int64(to) {
				want.WriteByte(text[at])
			}
		}
		got, gaps, err := readAll(t, NewReader(t.Context(), m, stream, Options{From: int64(from), To: int64(to)}))
		must.True(t, got == want.String() && err == nil, "[%d, %d): got %q, want %q; gaps %q, %v", from, to, got,
			want.String(), gaps, err)
	})
}
