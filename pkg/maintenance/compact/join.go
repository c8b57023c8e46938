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
	end     int64        // of the stream, in uncompressed bytes
	target  chunks.Chunk // the joined object
	exists  bool         // target is among the chunks
	size    int64        // of the joined object as stored
	removed int          // chunks
}

// span is the range of the stream that a chunk holds: the uncompressed bytes [Offset, end).
type span struct {
	chunks.Chunk
	end int64
	sum []byte // SHA-256 of these bytes
	// from is the offset of the first byte that is taken from this chunk: the end of those before it, which may overlap
	// it. It is end if they hold all of its bytes.
	from int64

	check    hash.Hash // of the joined object's bytes in this range; nil once verified is set
	verified bool      // the joined object holds the chunk's bytes
}

// plan reads the chunks and chooses the joined object. The error is errSkipped if the stream cannot be joined.
func (j *joining) plan() error {
	if err := j.readChunks(); err != nil {
		return err
	}
	j.chooseTarget()
	if j.target.Compression == layout.Plain && j.end > j.maxPlainBytes(maxPlainRatio) {
		return fmt.Errorf("%w: uncompressed it has more than %d times its bytes", errSkipped, maxPlainRatio)
	}
	return nil
}

// join stores the joined object, unless it is stored already, and reads it back.
func (j *joining) join() error {
	if !j.isStored() {
		if err := j.storeJoined(); err != nil {
			return err
		}
	}
	return j.verify()
}

const (
	// A stream is joined only if its uncompressed bytes are at most maxPlainRatio times the stored bytes or, if it
	// stays compressed, maxRatio times. Logs have a ratio of some 10 to 50; a file of zeros has 30,000.
	maxPlainRatio, maxRatio = 100, 1000
	// littleBytes is how many uncompressed bytes a stream may always have.
	littleBytes = 16 << 20
)

// bounded passes at most left bytes on to w, and fails with err if there are more.
type bounded struct {
	w    io.Writer
	left int64
	err  error
}

// Write passes p on, unless more bytes came than are allowed.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, b.err
	}
	return b.w.Write(p)
}

// maxPlainBytes returns how many uncompressed bytes the stream may have at a ratio to its stored bytes.
func (j *joining) maxPlainBytes(ratio int64) int64 {
	var stored int64
	for _, c := range j.stream.Chunks {
		stored += c.Object.Size
	}
	return max(littleBytes, ratio*stored)
}

// readChunks reads all chunks, and sets spans and end. The error is errSkipped if bytes are missing between chunks, or
// if they have too many uncompressed bytes.
func (j *joining) readChunks() error {
	ratio := int64(maxPlainRatio)
	if j.isEvents() {
		ratio = maxRatio // they may stay compressed: chooseTarget decides it when all are read
	}
	in := &bounded{left: j.maxPlainBytes(ratio),
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
		s.from = max(c.Offset, min(j.end, s.end)) // bytes that earlier chunks have are taken from those
		switch {
		case c.Offset > j.end && layout.IsRegion(c.Offset):
			return fmt.Errorf("%w: the length of one of its compressed chunks is not stored, so offsets would "+
				"change", errSkipped)
		case c.Offset > j.end:
			return fmt.Errorf("%w: bytes %d to %d are missing", errSkipped, j.end, c.Offset-1)
		}
		j.end = max(j.end, s.end)
		j.spans = append(j.spans, s)
	}
	return nil
}

// copyChunk copies the uncompressed bytes of a chunk to w, and returns how many there are.
func (j *joining) copyChunk(w io.Writer, c chunks.Chunk) (int64, error) {
	body := j.read(c.Offset, c)
	defer body.Close()
	return io.Copy(w, body)
}

func (j *joining) read(offset int64, some ...chunks.Chunk) *chunks.Reader {
	stream := &chunks.Stream{Key: j.stream.Key, Kind: j.stream.Kind, Chunks: some}
	return chunks.NewReader(j.ctx, j.store, stream, chunks.Options{From: offset, Exact: true})
}

// chooseTarget chooses the key and the compression of the joined object. Events keep their compression, because
// compressed chunks one after the other are a valid compressed object. Logs, metrics and hardware figures become plain,
// because ranges of them are read. So do chunks that overlap or have different compressions.
func (j *joining) chooseTarget() {
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

// isStored says whether the target holds the whole stream already, because an earlier compaction was interrupted.
func (j *joining) isStored() bool {
	for _, s := range j.spans {
		if s.Object.Key == j.target.Object.Key {
			return s.Offset == 0 && s.from == 0 && s.end == j.end
		}
	}
	return false
}

// storeJoined stores the joined object. The error is errSkipped if the target has changed since it was listed.
func (j *joining) storeJoined() error {
	now, err := j.store.Stat(j.ctx, j.target.Object.Key)
	switch {
	case errors.Is(err, os.ErrNotExist) && !j.exists:
	case err != nil:
		return err
	case !j.exists || now.Size != j.target.Object.Size || now.ETag != j.target.Object.ETag:
		return fmt.Errorf("%w: it was changed in the meantime", errSkipped)
	}
	size, body := j.body()
	defer body.Close()
	if size > maxBuffered {
		return j.store.Put(j.ctx, j.target.Object.Key, body)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return j.store.Put(j.ctx, j.target.Object.Key, bytes.NewReader(data))
}

// maxBuffered is the size in bytes up to which a joined object is held in memory. A driver sends such an object by one
// request. If the answer is lost it reads the body again, which fails once the object has replaced one of the chunks.
// Larger objects are sent in parts, each read once.
const maxBuffered = 16 << 20

// body reads what the joined object is to hold: the chunks one after the other, as they are stored if it has their
// compression. Read returns an error if one does not have the size of the listing.
func (j *joining) body() (size int64, body *seekable.Body) {
	size = j.end
	if j.target.Compression != layout.Plain {
		size = 0
	}
	var taken []chunks.Chunk
	for _, s := range j.spans {
		if s.from == s.end {
			continue
		}
		c := s.Chunk
		if j.target.Compression != layout.Plain { // then all have the same, and none overlap
			c.Offset, c.Compression = size, layout.Plain
			size += c.Object.Size
		}
		taken = append(taken, c)
	}
	return size, seekable.New(size, func(offset int64) (io.ReadCloser, error) {
		return j.read(offset, taken...), nil
	})
}

// verify reads the joined object back, and marks the chunks whose bytes it holds as verified. It is an error if the
// object lacks bytes of a chunk that was taken whole. A chunk that overlaps those before it may differ from them; then
// it is not marked, and so not deleted.
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

// removeJoined deletes the chunks that verify has marked, except the joined object itself. The error is errSkipped if
// one was not marked.
func (j *joining) removeJoined() error {
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

// checker is written the joined stream, and hashes the range of each span.
type checker struct {
	spans []*span // in order of their offsets, without the first ones that end before at
	at    int64   // the offset in the stream of the next byte
}

// Write adds the next bytes of the stream to the hashes (span.check) of the spans that contain them.
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
