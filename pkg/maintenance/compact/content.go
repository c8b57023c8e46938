package compact

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// content is the body of a put: size bytes, which the store may read again from any offset.
type content struct {
	open func(offset int64) io.ReadCloser
	size int64

	at   int64
	body io.ReadCloser // nil: none is open
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if c.at == c.size {
		return 0, io.EOF
	}
	if c.body == nil {
		c.body = c.open(c.at)
	}
	n, err := c.body.Read(p[:min(int64(len(p)), c.size-c.at)])
	c.at += int64(n)
	if errors.Is(err, io.EOF) && c.at < c.size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Seek implements io.Seeker.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 || offset > c.size {
		return 0, fmt.Errorf("seek to %d of %d bytes: %w", offset, c.size, os.ErrInvalid)
	}
	if offset == c.at {
		return offset, nil
	}
	c.at = offset
	return offset, c.Close()
}

// Close closes the open body, if any. Reading may continue.
func (c *content) Close() error {
	if c.body == nil {
		return nil
	}
	body := c.body
	c.body = nil
	return body.Close()
}
