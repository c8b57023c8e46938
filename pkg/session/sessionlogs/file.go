package sessionlogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// File reads one stored log by ranges of its uncompressed bytes, whatever chunks it is stored in.
//
// Chunks may overlap (two writers, an interrupted compaction): every byte is read from one of them. Bytes that no chunk
// holds are skipped; the others keep the offsets that they had in the file.
type File struct {
	store    blob.Reader
	stream   string // the key that its chunks share
	segments []segment
}

// segment is the bytes [start, end) of a log, all taken from one chunk.
type segment struct {
	start, end int64
	chunk      chunk
}

const (
	// maxRatio is how much a stored byte can become: of the formats, zstd writes 128 KiB of one repeated byte as 4
	// bytes.
	maxRatio = 1 << 15
	// maxOffset bounds where a chunk may begin, so that sums of offsets and sizes cannot overflow.
	maxOffset = 1 << 60
)

// makeSegments decides which chunk every byte is taken from. chunks are in the order of compareChunks. A compressed
// chunk is taken to hold the bytes up to the next chunk's, though it may end before: reading it shows that. The last
// one is read here, because its length decides the log's size.
func (f *File) makeSegments(ctx context.Context, chunks []chunk) error {
	var covered int64
	next := 0 // the first chunk behind c's offset
	for _, c := range chunks {
		for next < len(chunks) && chunks[next].offset <= c.offset {
			next++
		}
		if c.offset > maxOffset || c.size > maxOffset {
			continue
		}
		end := c.offset + c.size
		if c.compression != layout.Plain {
			if next < len(chunks) { // it ends where that one begins
				maxBytes := min(layout.MaxChunk, min(c.size, layout.MaxChunk)*maxRatio)
				end = min(chunks[next].offset, c.offset+maxBytes)
			} else {
				n, err := f.uncompressedSize(ctx, c)
				if err != nil {
					return err
				}
				end = c.offset + n
			}
		}
		if start := max(covered, c.offset); start < end {
			f.segments = append(f.segments, segment{start: start, end: end, chunk: c})
			covered = end
		}
	}
	return nil
}

// uncompressedSize reads a compressed chunk to learn how many bytes it holds.
func (f *File) uncompressedSize(ctx context.Context, c chunk) (int64, error) {
	var n byteCounter
	const begin = 0
	err := f.copySegment(ctx, &n, c, begin, layout.MaxChunk)
	return int64(n), err
}

type byteCounter int64

func (n *byteCounter) Write(p []byte) (int, error) {
	*n += byteCounter(len(p))
	return len(p), nil
}

// Size is the length of the log in bytes, as it was on the node's disk.
func (f *File) Size() int64 {
	if len(f.segments) == 0 {
		return 0
	}
	return f.segments[len(f.segments)-1].end
}

// MostStored is how many of the bytes before end are stored, or more: compressed chunks may hold less than it seems. It
// is bounded by what the chunks' stored bytes can become, wherever their names say that they begin.
func (f *File) MostStored(end int64) (n int64) {
	for _, s := range f.segments {
		n += max(0, min(end, s.end)-s.start)
	}
	return n
}

// WriteRange copies the bytes [start, end) to w, reading no others where chunks are plain; end is cut at the log's
// size.
func (f *File) WriteRange(ctx context.Context, w io.Writer, start, end int64) error {
	return f.WriteRuns(ctx, func(int64) io.Writer { return w }, start, end)
}

// WriteRuns is WriteRange to a writer for each run of bytes without a gap: it is asked for with the offset of the first
// byte. A run may end where the next one begins.
func (f *File) WriteRuns(ctx context.Context, writer func(offset int64) io.Writer, start, end int64) error {
	for i := f.segmentAt(start); i < len(f.segments) && f.segments[i].start < end; i++ {
		s := f.segments[i]
		from, to := max(start, s.start), min(end, s.end)
		if err := f.copySegment(ctx, writer(from), s.chunk, from-s.chunk.offset, to-from); err != nil {
			return err
		}
	}
	return nil
}

// segmentAt is the index of the segment that has a byte or, if none does, of the next one.
func (f *File) segmentAt(offset int64) int {
	return sort.Search(len(f.segments), func(i int) bool { return f.segments[i].end > offset })
}

// decoders bounds how many compressed chunks are read at a time: each takes a window of up to 8 MiB. Clusters take
// turns, because a client may read what it is sent as slowly as it likes.
var decoders = turns.New(maxDecoders, decoderTurn)

// decoderTurn is how long a compressed chunk may be read while others wait. In its next turn it is read up to that
// place again, so turns are much longer than that takes, unless the store is slow.
const maxDecoders, decoderTurn = 16, 10 * time.Second

// copySegment copies n uncompressed bytes of a chunk to w. The first one is at offset within the chunk. A chunk that
// ends before is no error. It waits while too many compressed chunks are read. One that others wait for is read in
// several turns: each goes on where the one before ended.
func (f *File) copySegment(ctx context.Context, w io.Writer, c chunk, offset, n int64) error {
	in := &chunks.Stream{Key: f.stream, Kind: layout.Log, Chunks: []chunks.Chunk{c.toChunk(f.stream)}}
	cluster, _, _ := strings.Cut(f.stream, "/session_")
	mayEnd := true // the next turn; not after one in which a slow store gave nothing that was wanted
	for start, end := c.offset+offset, c.offset+offset+n; ; {
		turn, done, err := ctx, func() {}, error(nil)
		if c.compression != layout.Plain {
			if turn, done, err = decoders.Take(ctx, cluster, turns.NoLimit); err != nil {
				return err
			}
		}
		if !mayEnd {
			turn = ctx
		}
		r := &turnReader{ctx: turn, chunk: chunks.NewReader(turn, f.store, in, chunks.Options{From: start, To: end})}
		endTurn := func() {
			r.close()
			done()
		}
		stop := context.AfterFunc(turn, endTurn) // also while w does not take what was read
		copied, err := io.Copy(w, r)
		stop()
		endTurn()
		mayEnd = copied > 0
		if start += copied; err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, turns.ErrEnded) { // ctx may be that of a turn of other work
			return fmt.Errorf("read a log: %w", err)
		}
	}
}

// turnReader reads a chunk in a turn. It may be closed, which frees the chunk's decoder, while its caller does
// something else. The error is turns.ErrEnded if the turn has ended.
type turnReader struct {
	ctx context.Context // of the turn

	mu     sync.Mutex
	chunk  *chunks.Reader
	closed bool
}

// Read implements io.Reader.
func (t *turnReader) Read(p []byte) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		n, err = t.chunk.Read(p)
	}
	if t.closed || err != nil && t.ctx.Err() != nil {
		err = context.Cause(t.ctx)
	}
	return n, err
}

// close closes the chunk, once nobody reads it. It may be called again.
func (t *turnReader) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		_ = t.chunk.Close()
	}
}

// ReadRange returns the bytes [start, end), cut at the log's size.
func (f *File) ReadRange(ctx context.Context, start, end int64) ([]byte, error) {
	var b bytes.Buffer
	err := f.WriteRange(ctx, &b, start, end)
	return b.Bytes(), err
}

// StoredBy is how many bytes from the log's start had been stored by a moment (Unix nanoseconds): those were written
// before it. More may have been written: collectors store at intervals, and a copied bucket has the times of the copy.
func (f *File) StoredBy(at int64) int64 {
	var end int64
	for _, s := range f.segments {
		if s.chunk.stored == 0 || s.chunk.stored > at {
			break
		}
		end = s.end
	}
	return end
}
