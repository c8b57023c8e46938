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

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// joining is the joining of one whole.
type joining struct {
	ctx   context.Context
	store blob.Store
	whole *inventory.Whole

	spans   []*span
	end     int64 // of the whole
	target  inventory.Chunk
	exists  bool // target is among the chunks
	size    int64
	removed int
}

// span is what a chunk holds of the whole, uncompressed: the bytes [Offset, end).
type span struct {
	inventory.Chunk
	end int64
	sum []byte // SHA-256 of them
	// from is the first byte that is taken from this chunk; end if none is, for those before hold it all.
	from int64

	check hash.Hash // of what the joined object has there
}

func (j *joining) join() error {
	if err := j.survey(); err != nil {
		return err
	}
	j.choose()
	if !j.covered() {
		if err := j.write(); err != nil {
			return err
		}
	}
	if err := j.verify(); err != nil {
		return err
	}
	return j.remove()
}

// survey reads all chunks.
func (j *joining) survey() error {
	for _, c := range j.whole.Chunks {
		s := &span{Chunk: c, check: sha256.New()}
		body, err := inventory.Open(j.ctx, j.store, c)
		if err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, body)
		if err = errors.Join(err, body.Close()); err != nil {
			return err
		}
		s.end, s.sum = c.Offset+n, sum.Sum(nil)
		s.from = max(c.Offset, min(j.end, s.end))
		if c.Offset > j.end {
			return fmt.Errorf("%w: bytes %d to %d are missing", errLeft, j.end, c.Offset-1)
		}
		j.end = max(j.end, s.end)
		j.spans = append(j.spans, s)
	}
	return nil
}

// choose says where the whole goes. Events keep their compression, for compressed parts that follow each other are one; of logs and
// hardware figures parts are read, so they become plain, as do chunks that overlap or were compressed in several ways.
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
	if j.whole.Kind != layout.NodeEvents && j.whole.Kind != layout.JobEvents {
		compression = layout.Plain
	}
	j.target = inventory.Chunk{Object: blob.Object{Key: j.whole.FirstKey(compression)}, Compression: compression}
	for _, s := range j.spans {
		if s.Object.Key == j.target.Object.Key {
			j.target.Object, j.exists = s.Object, true
		}
	}
}

// covered says whether the target holds all already: an earlier joining was cut short.
func (j *joining) covered() bool {
	for _, s := range j.spans {
		if s.Object.Key == j.target.Object.Key {
			return s.Offset == 0 && s.from == 0 && s.end == j.end
		}
	}
	return false
}

// write stores the joined object, where the listing showed what is there now.
func (j *joining) write() error {
	now, err := j.store.Stat(j.ctx, j.target.Object.Key)
	switch {
	case errors.Is(err, os.ErrNotExist) && !j.exists:
	case err != nil:
		return err
	case !j.exists || now.Size != j.target.Object.Size || now.ETag != j.target.Object.ETag:
		return fmt.Errorf("%w: it was changed meanwhile", errLeft)
	}
	if sources, ok := j.parts(); ok {
		return blob.Concatenate(j.ctx, j.store, j.target.Object.Key, sources)
	}
	body := &content{ctx: j.ctx, store: j.store, spans: j.spans, size: j.end}
	return errors.Join(j.store.Put(j.ctx, j.target.Object.Key, body), body.Close())
}

// parts are the objects that make the whole if they are just put together; false if they do not.
func (j *joining) parts() (sources []blob.Object, ok bool) {
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

// verify reads the joined object back. A chunk whose bytes it does not hold is an error, unless the whole never took all of them from it.
func (j *joining) verify() error {
	o, err := j.store.Stat(j.ctx, j.target.Object.Key)
	if err != nil {
		return err
	}
	j.target.Object, j.size = o, o.Size
	body, err := inventory.Open(j.ctx, j.store, j.target)
	if err != nil {
		return err
	}
	check := &checker{spans: j.spans}
	_, err = io.Copy(check, body)
	if err = errors.Join(err, body.Close()); err != nil {
		return err
	}
	if check.at != j.end {
		return fmt.Errorf("the joined object has %d bytes, its chunks have %d; they are all kept: %w", check.at, j.end, inventory.ErrDamaged)
	}
	for _, s := range j.spans {
		if s.from == s.Offset && !s.same() {
			return fmt.Errorf("the joined object differs from %s; all chunks are kept: %w", s.Object.Key, inventory.ErrDamaged)
		}
	}
	return nil
}

// same says whether the joined object holds the chunk's bytes.
func (s *span) same() bool { return bytes.Equal(s.check.Sum(nil), s.sum) }

// remove deletes the chunks that the joined object holds.
func (j *joining) remove() error {
	var kept error
	for _, s := range j.spans {
		if s.Object.Key == j.target.Object.Key {
			continue
		}
		if !s.same() {
			kept = fmt.Errorf("%w: %s is kept: it differs from the chunks before it where they overlap", errLeft, s.Object.Key)
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

// checker hashes the parts of the whole that are written to it, one after the other.
type checker struct {
	spans []*span // those not passed, in order of their offsets
	at    int64
}

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
