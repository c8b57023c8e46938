package ship

import (
	"fmt"
	"io"
	"sync/atomic"
)

// exactReader reads n bytes of a source, no more and no fewer: a log that is truncated while it is read is an error, never a shorter chunk.
type exactReader struct {
	src    io.ReadSeeker
	n, pos int64
	err    error // of the source, to distinguish it from one of the store
}

func (e *exactReader) Read(p []byte) (int, error) {
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

func (e *exactReader) Seek(offset int64, whence int) (int64, error) {
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

// countingReader counts the bytes of a body that were read, even while a transport that gave up still holds the body.
type countingReader struct {
	io.ReadSeeker
	at atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.ReadSeeker.Read(b)
	c.at.Add(int64(n))
	return n, err
}

func (c *countingReader) Seek(offset int64, whence int) (int64, error) {
	at, err := c.ReadSeeker.Seek(offset, whence)
	if err == nil {
		c.at.Store(at)
	}
	return at, err
}
