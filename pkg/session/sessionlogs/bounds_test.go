package sessionlogs

import (
	"bytes"
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// bomb is so many bytes without a line end, compressed to some thousandths of them.
func bomb(t *testing.T, size int64) string {
	t.Helper()
	var b bytes.Buffer
	z := must.Get(zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20)))(t)
	zeros := make([]byte, 1<<20)
	for n := int64(0); n < size; n += int64(len(zeros)) {
		must.Get(z.Write(zeros))(t)
	}
	must.OK(t, z.Close())
	return b.String()
}

// stored adds an object as it is to a log.
func stored(t *testing.T, set *Set, store *storetest.Store, path string, offset int64, c layout.Compression,
	body string) {
	t.Helper()
	key := layout.LogChunkKey(layout.LogKey("log", logSession, logNode, path), offset, c)
	store.Objects[key] = []byte(body)
	o := must.Get(layout.ParseObject("log", logSession, key))(t)
	set.Add(o, blob.Object{Key: key, Size: int64(len(body))})
}

// TestBombs: however much a chunk of a log decodes to, and wherever the next one says that it begins, the tail takes
// little memory and no more is read of a chunk than one may have.
func TestBombs(t *testing.T) {
	zeros := bomb(t, 4*layout.MaxChunk)
	for name, offset := range map[string]int64{"alone": 0, "before a gap": 1 << 40,
		"before the last offset there is": math.MaxInt64} {
		t.Run(name, func(t *testing.T) {
			set, store := logOf(t, "raylet.out")
			stored(t, set, store, "raylet.out", 0, layout.Zstd, zeros)
			if offset > 0 {
				stored(t, set, store, "raylet.out", offset, layout.Zstd, "")
				stored(t, set, store, "raylet.out", offset-1, layout.Plain, "x\ny\n")
			}
			var written byteCounter
			used := storetest.Allocated(func() {
				f := open(t, set, "raylet.out")
				start, err := f.TailStart(t.Context(), f.Size(), 10, f.Size())
				says.True(t, err == nil && start == 0, "the tail begins at %d, %v", start, err)
				says.OK(t, f.WriteRange(t.Context(), &written, start, f.Size()))
			})
			says.True(t, used <= 32<<20, "%d bytes were allocated", used)
			says.True(t, written <= layout.MaxChunk+8, "%d bytes were read of a chunk, want at most %d", written,
				layout.MaxChunk)
		})
	}
}

// TestWideWindow: a chunk that asks for a larger window than any collector uses is refused before it is allocated.
func TestWideWindow(t *testing.T) {
	var b bytes.Buffer
	z := must.Get(zstd.NewWriter(&b, zstd.WithWindowSize(512<<20), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderConcurrency(1)))(t)
	for range 3 {
		must.Get(z.Write(make([]byte, 1<<20)))(t)
		must.OK(t, z.Flush())
	}
	must.OK(t, z.Close())
	set, store := logOf(t, "raylet.out")
	stored(t, set, store, "raylet.out", 0, layout.Zstd, b.String())
	stored(t, set, store, "raylet.out", 1<<20, layout.Plain, "x")
	used := storetest.Allocated(func() {
		says.True(t, open(t, set, "raylet.out").WriteRange(t.Context(), io.Discard, 0, 10) != nil, "it was read")
	})
	says.True(t, used <= 16<<20, "%d bytes were allocated", used)
}

// TestTailOfChunks: where lines begin does not depend on how they are stored; a compressed chunk may end before the
// next one begins.
func TestTailOfChunks(t *testing.T) {
	const first, last = "one\ntwo\nthree\n", "four\nfive"
	for _, compression := range []layout.Compression{layout.Plain, layout.Gzip, layout.Zstd} {
		for _, gap := range []int64{0, 100} {
			set, _ := logOf(t, "raylet.out", testChunk{0, first, compression},
				testChunk{int64(len(first)) + gap, last, compression})
			f := open(t, set, "raylet.out")
			for n, want := range []string{"", "five", last, "three\n" + last, "two\nthree\n" + last, first + last,
				first + last} {
				start := must.Get(f.TailStart(t.Context(), f.Size(), n, f.Size()))(t)
				says.Equal(t, readRange(t, f, start, f.Size()), want, "compression %d, gap %d: the last %d lines",
					compression, gap, n)
			}
			start, err := f.TailStart(t.Context(), int64(len("one\ntwo\n")), 1, f.Size())
			says.True(t, err == nil && start == 4, "the line before 8 begins at %d, %v", start, err)
		}
	}
}

// TestLogReaderLeaves: who has left does not wait for a decoder.
func TestLogReaderLeaves(t *testing.T) {
	for range maxDecoders {
		_, done, err := decoders.Take(t.Context(), "others", turns.NoLimit)
		must.OK(t, err)
		defer done()
	}
	set, _ := logOf(t, "raylet.out", testChunk{0, strings.Repeat("x", 100), layout.Zstd})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	says.True(t, says.Err(set.Open(ctx, logNode, "raylet.out")) != nil, "it was read")
}

// stuck is a client that takes nothing until it is let go.
type stuck struct {
	took  bytes.Buffer
	waits chan struct{} // gets a token when a write waits
	goOn  chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case s.waits <- struct{}{}:
	default:
	}
	<-s.goOn
	return s.took.Write(p)
}

// TestSlowClients: clients that do not take what is read for them keep nobody else from reading compressed logs, and
// get all of it in the end.
func TestSlowClients(t *testing.T) {
	const text = "one\ntwo\nthree\n"
	long := strings.Repeat(text, 20_000)
	set, _ := logOf(t, "slow.log", testChunk{0, long, layout.Zstd})
	other, _ := logOf(t, "other.log", testChunk{0, text, layout.Zstd})
	usual := decoders
	decoders = turns.New(maxDecoders, 100*time.Millisecond)
	defer func() { decoders = usual }()
	goOn := make(chan struct{})
	clients := make([]stuck, 100)
	var reading sync.WaitGroup
	for i := range clients {
		clients[i] = stuck{waits: make(chan struct{}, 1), goOn: goOn}
		f := open(t, set, "slow.log")
		reading.Go(func() {
			says.OK(t, f.WriteRange(t.Context(), &clients[i], 3, f.Size()-2))
		})
		if i < maxDecoders {
			<-clients[i].waits
		}
	}
	says.Equal(t, readRange(t, open(t, other, "other.log"), 0, 100), text, "read")
	close(goOn)
	reading.Wait()
	for i := range clients {
		got := clients[i].took.String()
		must.True(t, got == long[3:len(long)-2], "client %d got %d bytes, want %d", i, len(got), len(long)-5)
	}
}

// TestManyChunksAtOnePlace: an ID of a node has very many spellings, so very many chunks may say that they begin at the
// same byte. They are looked at once: for each other it would take hours.
func TestManyChunksAtOnePlace(t *testing.T) {
	set, _ := logOf(t, "a.log", testChunk{0, "one\n", layout.Zstd}, testChunk{4, "two\n", layout.Plain})
	chunks := set.find(logNode, "a.log").chunks
	chunks = slices.Concat(slices.Repeat(chunks[:1], 1<<20), chunks[1:])
	f := &File{store: set.store, stream: layout.LogKey("log", logSession, logNode, "a.log")}
	if err := f.makeSegments(t.Context(), chunks); err != nil || f.Size() != 8 || len(f.segments) != 2 {
		t.Errorf("%d bytes in %d segments, %v", f.Size(), len(f.segments), err)
	}
}

// slowGet is a store that gives nothing for a while.
type slowGet struct{ blob.Reader }

func (s slowGet) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(200 * time.Millisecond):
		return s.Reader.Get(ctx, key, offset, length)
	}
}

// TestSlowStore: who gets nothing of a chunk in its turn, because the store is slow, reads it whole in the next.
func TestSlowStore(t *testing.T) {
	usual := decoders
	decoders = turns.New(1, 10*time.Millisecond)
	defer func() { decoders = usual }()
	var reading sync.WaitGroup
	for _, name := range []string{"a.log", "b.log", "c.log"} {
		set, _ := logOf(t, name, testChunk{0, "one\n", layout.Zstd})
		set.store = slowGet{set.store}
		reading.Go(func() {
			f, err := set.Open(t.Context(), logNode, name)
			says.True(t, err == nil && f.Size() == 4, "%s: %v", name, err)
		})
	}
	reading.Wait()
}

// TestTurnOfCallerEnds: a reader whose own turn of other work ends, such as a webhook's, ends too.
func TestTurnOfCallerEnds(t *testing.T) {
	for _, compression := range []layout.Compression{layout.Plain, layout.Gzip, layout.Zstd} {
		set, _ := logOf(t, "raylet.out", testChunk{0, "one\n", compression})
		f := open(t, set, "raylet.out")
		ctx, end := context.WithCancelCause(t.Context())
		end(turns.ErrEnded)
		says.ErrorIs(t, f.WriteRange(ctx, io.Discard, 0, f.Size()), turns.ErrEnded, "compression %d", compression)
	}
}
