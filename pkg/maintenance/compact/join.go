package compact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/rayhistory/historyserver/internal/seekable"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// joining joins the chunks of one stream.
type joining struct {
	ctx    context.Context
	store  blob.Store
	stream *chunks.Stream

	spans   []*span
	end     int64 // of the stream
	target  chunks.Chunk
	exists  bool // target is among the chunks
	size    int64
	removed int
}

// span is the range of the stream that a chunk holds: the uncompressed bytes [Offset, end).
type span struct {
	chunks.Chunk
	end int64
	sum []byte // SHA-256 of them
	// from is the first byte that is taken from this chunk. It is end if the chunks before hold all of its bytes.
	from int64

	check    hash.Hash // of the joined object's bytes in this range; nil once verified is set
	verified bool      // the joined object holds the chunk's bytes
}

// plan reads the chunks and decides what they become.
func (j *joining) plan() error {
	if err := j.survey(); err != nil {
		return err
	}
	j.choose()
	if j.target.Compression == layout.Plain && j.end > j.maxBytes(maxPlainRatio) {
		return fmt.Errorf("%w: uncompressed it has more than %d times its bytes", errSkipped, maxPlainRatio)
	}
	return nil
}

// join stores the joined object, unless it is stored already, and reads it back.
func (j *joining) join() error {
	if !j.covered() {
		if err := j.write(); err != nil {
			return err
		}
	}
	return j.verify()
}

const (
	// maxPlainRatio is how many times the stored bytes of a stream may become when they are stored uncompressed, and
	// maxRatio when they stay compressed. Logs have some 10 to 50; a file of zeros has 30,000.
	maxPlainRatio, maxRatio = 100, 1000
	// littleBytes may be had of few bytes.
	littleBytes = 16 << 20
)

// bounded passes on at most left bytes.
type bounded struct {
	w    io.Writer
	left int64
	err  error // for more
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, b.err
	}
	return b.w.Write(p)
}

// maxBytes is how many bytes the stream may have at a ratio.
func (j *joining) maxBytes(ratio int64) int64 {
	var stored int64
	for _, c := range j.stream.Chunks {
		stored += c.Object.Size
	}
	return max(littleBytes, ratio*stored)
}

// survey reads all chunks.
func (j *joining) survey() error {
	limit, ratio := j.maxBytes(maxRatio), maxRatio
	if !j.isEvents() {
		limit, ratio = j.maxBytes(maxPlainRatio), maxPlainRatio
	}
	in := &bounded{left: limit,
		err: fmt.Errorf("%w: uncompressed it has more than %d times its bytes", errSkipped, ratio)}
	for _, c := range j.stream.Chunks {
		s := &span{Chunk: c, check: sha256.New()}
		sum := sha256.New()
		in.w = sum
		n, err := j.copyChunk(in, c)
		if err != nil {
			return err
		}
		s.end, s.sum = c.Offset+n, sum.Sum(nil)
		s.from = max(c.Offset, min(j.end, s.end))
		switch {
		case c.Offset > j.end && layout.IsRegion(c.Offset):
			return fmt.Errorf("%w: one of its chunks continues after another whose end its collector did not know, so "+
				"offsets would change", errSkipped)
		case c.Offset > j.end:
			return fmt.Errorf("%w: bytes %d to %d are missing", errSkipped, j.end, c.Offset-1)
		}
		j.end = max(j.end, s.end)
		j.spans = append(j.spans, s)
	}
	return nil
}

// copyChunk copies the uncompressed bytes of a chunk.
func (j *joining) copyChunk(w io.Writer, c chunks.Chunk) (int64, error) {
	body := j.read(c.Offset, c)
	defer body.Close()
	return io.Copy(w, body)
}

// read reads some of the stream's chunks, from an offset of the stream.
func (j *joining) read(offset int64, some ...chunks.Chunk) *chunks.Reader {
	stream := &chunks.Stream{Key: j.stream.Key, Kind: j.stream.Kind, Chunks: some}
	return chunks.NewReader(j.ctx, j.store, stream, chunks.Options{From: offset, Exact: true})
}

// choose chooses the target. Events keep their compression: compressed chunks one after the other are a valid
// compressed object. Logs and hardware figures become plain, because ranges of them are read. So do chunks that overlap
// or have different compressions.
func (j *joining) choose() {
	compression, first := layout.Plain, true
	for _, s := range j.spans {
		switch {
		case s.from == s.end: // nothing is taken from it
		case first:
			compression, first = s.Compression, false
		case s.Compression != compression || s.from != s.Offset:
			compression = layout.Plain
		}
	}
	if !j.isEvents() {
		compression = layout.Plain
	}
	j.target = chunks.Chunk{Object: blob.Object{Key: j.stream.FirstKey(compression)}, Compression: compression}
	for _, s := range j.spans {
		if s.Object.Key == j.target.Object.Key {
			j.target.Object, j.exists = s.Object, true
		}
	}
}

// isEvents says whether the stream may stay compressed.
func (j *joining) isEvents() bool {
	return j.stream.Kind == layout.NodeEvents || j.stream.Kind == layout.JobEvents
}

// covered says whether the target holds the stream already, because an earlier joining was interrupted.
func (j *joining) covered() bool {
	for _, s := range j.spans {
		if s.Object.Key == j.target.Object.Key {
			return s.Offset == 0 && s.from == 0 && s.end == j.end
		}
	}
	return false
}

// write stores the joined object, unless the target has changed since it was listed.
func (j *joining) write() error {
	now, err := j.store.Stat(j.ctx, j.target.Object.Key)
	switch {
	case errors.Is(err, os.ErrNotExist) && !j.exists:
	case err != nil:
		return err
	case !j.exists || now.Size != j.target.Object.Size || now.ETag != j.target.Object.ETag:
		return fmt.Errorf("%w: it was changed in the meantime", errSkipped)
	}
	if sources, ok := j.sources(); ok {
		return blob.Concatenate(j.ctx, j.store, j.target.Object.Key, sources)
	}
	body := seekable.New(j.end, j.readFrom)
	return errors.Join(j.store.Put(j.ctx, j.target.Object.Key, body), body.Close())
}

// readFrom reads the stream from an offset.
func (j *joining) readFrom(offset int64) (io.ReadCloser, error) {
	var rest []chunks.Chunk
	for _, s := range j.spans {
		if s.from < s.end && s.end > offset {
			rest = append(rest, s.Chunk)
		}
	}
	return j.read(offset, rest...), nil
}

// sources returns the objects whose concatenation is the joined object; false if the chunks must be decoded first.
func (j *joining) sources() (sources []blob.Object, ok bool) {
	for _, s := range j.spans {
		if s.from == s.end {
			continue
		}
		if s.from != s.Offset || s.Compression != j.target.Compression {
			return nil, false
		}
		sources = append(sources, s.Object)
	}
	return sources, len(sources) > 0
}

// verify reads the joined object back, and marks the chunks whose bytes it holds. It is an error if it does not hold a
// chunk that all bytes were taken from. One that overlaps those before it may differ from them: it is not deleted.
func (j *joining) verify() error {
	o, err := j.store.Stat(j.ctx, j.target.Object.Key)
	if err != nil {
		return err
	}
	j.target.Object, j.size = o, o.Size
	check := &checker{spans: j.spans}
	if _, err := j.copyChunk(check, j.target); err != nil {
		return err
	}
	if check.at != j.end {
		return fmt.Errorf("the joined object has %d bytes, its chunks have %d; they are all kept: %w", check.at, j.end,
			chunks.ErrDamaged)
	}
	for _, s := range j.spans {
		s.verified = bytes.Equal(s.check.Sum(nil), s.sum)
		s.check, s.sum = nil, nil
		if s.from == s.Offset && !s.verified {
			return fmt.Errorf("the joined object differs from %s; all chunks are kept: %w", s.Object.Key,
				chunks.ErrDamaged)
		}
	}
	return nil
}

// remove deletes the chunks that the joined object holds.
func (j *joining) remove() error {
	var kept error
	for _, s := range j.spans {
		if s.Object.Key == j.target.Object.Key {
			continue
		}
		if !s.verified {
			kept = fmt.Errorf("%w: %s is kept: it differs from the chunks before it where they overlap", errSkipped,
				s.Object.Key)
			continue
		}
		if err := context.Cause(j.ctx); err != nil {
			return err
		}
		if err := j.store.Delete(j.ctx, s.Object.Key); err != nil {
			return err
		}
		j.removed++
	}
	return kept
}

// checker takes the joined stream and hashes the range of each span.
type checker struct {
	spans []*span // that do not end before at, in order of their offsets
	at    int64
}

// Write hashes the bytes of the spans that are to be checked.
func (c *checker) Write(p []byte) (int, error) {
	end := c.at + int64(len(p))
	for len(c.spans) > 0 && c.spans[0].end <= c.at {
		c.spans = c.spans[1:]
	}
	for _, s := range c.spans {
		if s.Offset >= end {
			break
		}
		if from, to := max(s.Offset, c.at), min(s.end, end); from < to {
			s.check.Write(p[from-c.at : to-c.at])
		}
	}
	c.at = end
	return len(p), nil
}
