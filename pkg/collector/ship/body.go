package ship

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// exact reads n bytes of a source, no more and no fewer: a log that is cut short while it is read is an error, never a shorter chunk.
type exact struct {
	src    io.ReadSeeker
	n, pos int64
	err    error // of reading the source, as told from one of the store
}

func (e *exact) Read(p []byte) (int, error) {
	if e.pos == e.n {
		return 0, io.EOF
	}
	if left := e.n - e.pos; int64(len(p)) > left {
		p = p[:left]
	}
	k, err := e.src.Read(p)
	e.pos += int64(k)
	if err == io.EOF {
		err = nil
		if e.pos < e.n {
			err = fmt.Errorf("the source ended %d bytes early: %w", e.n-e.pos, io.ErrUnexpectedEOF)
		}
	}
	if err != nil {
		e.err = err
	}
	return k, err
}

func (e *exact) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += e.pos
	case io.SeekEnd:
		offset += e.n
	}
	if offset < 0 || offset > e.n {
		return 0, fmt.Errorf("seek to %d of %d bytes", offset, e.n)
	}
	if _, err := e.src.Seek(offset, io.SeekStart); err != nil {
		e.err = err
		return 0, err
	}
	e.pos = offset
	return offset, nil
}

// compressor compresses chunks one at a time, which bounds its memory: one encoder, however many chunks are under way.
type compressor struct {
	mu   sync.Mutex
	gzip *gzip.Writer
	zstd *zstd.Encoder
}

// zstdWindow is how far back a match may lie. Larger gains little on logs and costs the reader memory.
const zstdWindow = 1 << 20

func (c *compressor) compress(r io.Reader, how layout.Compression) (*bytes.Reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out bytes.Buffer
	w, err := c.writer(&out, how)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(w, r)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(out.Bytes()), nil
}

func (c *compressor) writer(out io.Writer, how layout.Compression) (io.WriteCloser, error) {
	if how == layout.Gzip {
		if c.gzip == nil {
			c.gzip = gzip.NewWriter(out)
		}
		c.gzip.Reset(out)
		return c.gzip, nil
	}
	if c.zstd == nil {
		var err error
		c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(zstdWindow))
		if err != nil {
			return nil, fmt.Errorf("make a zstd encoder: %w", err)
		}
	}
	c.zstd.Reset(out)
	return c.zstd, nil
}
