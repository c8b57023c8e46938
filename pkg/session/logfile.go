package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// LogFile reads one stored log by ranges of its uncompressed bytes, whatever chunks it is stored in.
//
// Chunks may overlap (two writers, a compaction that was cut short): every byte is taken from one of them. Bytes that no chunk holds are
// left out of what is read; the offsets of the others stay what they were in the file.
type LogFile struct {
	store    blob.Reader
	whole    string
	segments []logSegment
}

// logSegment is the bytes [start, end) of a log, all taken from one chunk.
type logSegment struct {
	start, end int64
	chunk      logChunk
}

// maxChunkBytes bounds the uncompressed size of one compressed chunk: collectors cut at 8 MiB. It keeps a forged object from filling
// memory.
const maxChunkBytes = 1 << 30

// index decides which chunk every byte is taken from.
func (f *LogFile) index(ctx context.Context, chunks []logChunk) error {
	var covered int64
	for i, c := range chunks {
		end := c.offset + c.size
		if c.compression != layout.Plain {
			next := nextOffset(chunks[i+1:], c.offset)
			if next < 0 {
				n, err := f.uncompressedSize(ctx, c)
				if err != nil {
					return err
				}
				next = c.offset + n
			}
			end = next
		}
		if start := max(covered, c.offset); start < end {
			f.segments = append(f.segments, logSegment{start: start, end: end, chunk: c})
			covered = end
		}
	}
	return nil
}

// nextOffset is the first offset in chunks past offset, or -1: a compressed chunk ends where the next one starts.
func nextOffset(chunks []logChunk, offset int64) int64 {
	for _, c := range chunks {
		if c.offset > offset {
			return c.offset
		}
	}
	return -1
}

func (f *LogFile) uncompressedSize(ctx context.Context, c logChunk) (int64, error) {
	r, err := f.openChunk(ctx, c, 0, maxChunkBytes)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return io.Copy(io.Discard, r)
}

// Size is the length of the log in bytes, as it was on the node's disk.
func (f *LogFile) Size() int64 {
	if len(f.segments) == 0 {
		return 0
	}
	return f.segments[len(f.segments)-1].end
}

// WriteRange copies the bytes [start, end) to w, reading no others where chunks are plain; end is cut at the log's size.
func (f *LogFile) WriteRange(ctx context.Context, w io.Writer, start, end int64) error {
	i := sort.Search(len(f.segments), func(i int) bool { return f.segments[i].end > start })
	for ; i < len(f.segments) && f.segments[i].start < end; i++ {
		s := f.segments[i]
		from, to := max(start, s.start), min(end, s.end)
		if err := f.copySegment(ctx, w, s.chunk, from-s.chunk.offset, to-from); err != nil {
			return err
		}
	}
	return nil
}

func (f *LogFile) copySegment(ctx context.Context, w io.Writer, c logChunk, offset, n int64) error {
	r, err := f.openChunk(ctx, c, offset, n)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("read log chunk %q: %w", f.key(c), err)
	}
	return nil
}

// ReadRange returns the bytes [start, end), cut at the log's size.
func (f *LogFile) ReadRange(ctx context.Context, start, end int64) ([]byte, error) {
	var b bytes.Buffer
	err := f.WriteRange(ctx, &b, start, end)
	return b.Bytes(), err
}

// openChunk reads n uncompressed bytes of a chunk from offset.
func (f *LogFile) openChunk(ctx context.Context, c logChunk, offset, n int64) (io.ReadCloser, error) {
	if c.compression == layout.Plain {
		r, err := f.store.Get(ctx, f.key(c), offset, n)
		if errors.Is(err, os.ErrNotExist) {
			return f.openJoined(ctx, c, offset, n, err)
		}
		return r, err
	}
	raw, err := f.store.Get(ctx, f.key(c), 0, -1)
	if errors.Is(err, os.ErrNotExist) {
		return f.openJoined(ctx, c, offset, n, err)
	}
	if err != nil {
		return nil, err
	}
	plain, err := decompress(raw, c.compression)
	if err != nil {
		return nil, fmt.Errorf("read log chunk %q: %w", f.key(c), errors.Join(err, raw.Close()))
	}
	r := decompressed{io.LimitReader(plain, n), plain, raw}
	if _, err := io.CopyN(io.Discard, plain, offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read log chunk %q: %w", f.key(c), errors.Join(err, r.Close()))
	}
	return r, nil
}

// decompressed reads a part of what is stored with a compression, and closes what it is read through.
type decompressed struct {
	io.Reader
	plain, raw io.Closer
}

func (d decompressed) Close() error { return errors.Join(d.plain.Close(), d.raw.Close()) }

func (f *LogFile) key(c logChunk) string {
	if c.key != "" {
		return c.key
	}
	return layout.LogChunkKey(f.whole, c.offset, c.compression)
}

// tailBlock is how much is read at a time when looking backwards for line ends.
const tailBlock = 64 << 10

// TailStart is the offset at which the last n lines before end begin. It reads backwards from end in blocks, so a tail of a large log
// costs what the tail is long. A last line without a line end counts as a line.
func (f *LogFile) TailStart(ctx context.Context, end int64, n int) (int64, error) {
	end = min(end, f.Size())
	if n <= 0 {
		return end, nil
	}
	newlines := 0
	block := int64(tailBlock)
	for pos := end; pos > 0; {
		start := f.blockStart(pos, block)
		buf, err := f.ReadRange(ctx, start, pos)
		if err != nil {
			return 0, err
		}
		scan := buf
		if pos == end && len(scan) > 0 && scan[len(scan)-1] == '\n' {
			scan = scan[:len(scan)-1] // the end of the last line, not of one before it
		}
		for i := bytes.LastIndexByte(scan, '\n'); i >= 0; i = bytes.LastIndexByte(scan[:i], '\n') {
			if newlines++; newlines == n {
				return start + int64(i) + 1, nil
			}
		}
		pos = start
		block = min(block*2, 4<<20)
	}
	return 0, nil
}

// blockStart is where the block of bytes that ends at pos should start. A compressed chunk is decoded once for all of its lines. A block
// never spans chunks or a gap, so that offsets within it are offsets in the file.
func (f *LogFile) blockStart(pos, block int64) int64 {
	i := sort.Search(len(f.segments), func(i int) bool { return f.segments[i].end >= pos })
	if i == len(f.segments) {
		return max(0, pos-block) // past the end
	}
	s := f.segments[i]
	switch {
	case pos <= s.start && i == 0:
		return 0
	case pos <= s.start: // a gap
		return f.segments[i-1].end
	case s.chunk.compression != layout.Plain:
		return s.start
	}
	return max(s.start, pos-block)
}
