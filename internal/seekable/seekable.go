// Package seekable makes a body that can be read again, as stores ask of what they are given, of a function that opens
// it at an offset.
package seekable

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Body has size bytes. It is opened where it is read, so moving in it costs nothing.
type Body struct {
	size int64
	open func(offset int64) (io.ReadCloser, error)

	at   int64
	body io.ReadCloser // from at on; nil: none is open
}

// New makes a body. What open returns has the bytes from an offset to the end: fewer or more are an error of Read.
func New(size int64, open func(offset int64) (io.ReadCloser, error)) *Body {
	return &Body{size: size, open: open}
}

// Read implements io.Reader. It opens the body at the present offset if it is not open. That the data does not have the
// announced size is an error.
func (b *Body) Read(p []byte) (int, error) {
	if b.body == nil {
		body, err := b.open(b.at)
		if err != nil {
			return 0, err
		}
		b.body = body
	}
	n, err := b.body.Read(p)
	b.at += int64(n)
	switch {
	case b.at > b.size:
		return 0, fmt.Errorf("there are more than %d bytes: %w", b.size, io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF) && b.at < b.size:
		err = fmt.Errorf("the data ended %d bytes early: %w", b.size-b.at, io.ErrUnexpectedEOF)
	}
	return n, err
}

// Seek implements io.Seeker. The next Read opens the body anew, unless the offset is the present one.
func (b *Body) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 || offset > b.size {
		return 0, fmt.Errorf("seek to %d of %d bytes: %w", offset, b.size, os.ErrInvalid)
	}
	if offset == b.at {
		return offset, nil // what is open stays open
	}
	b.at = offset
	return offset, b.Close()
}

// Close closes what is open, if anything. Reading may continue.
func (b *Body) Close() error {
	if b.body == nil {
		return nil
	}
	body := b.body
	b.body = nil
	return body.Close()
}
