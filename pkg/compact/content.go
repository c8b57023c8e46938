package compact

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/inventory"
)

// content reads a whole out of its chunks, uncompressed, every byte once: where they cannot just be put together.
type content struct {
	ctx   context.Context
	store blob.Getter
	spans []*span
	size  int64

	at   int64
	next int // the span after the one that is open
	body io.ReadCloser
	left int64 // bytes to come from body
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	for c.left == 0 {
		if err := c.Close(); err != nil {
			return 0, err
		}
		if c.at == c.size {
			return 0, io.EOF
		}
		if err := c.open(); err != nil {
			return 0, err
		}
	}
	n, err := c.body.Read(p[:min(int64(len(p)), c.left)])
	c.at, c.left = c.at+int64(n), c.left-int64(n)
	if err == io.EOF && c.left == 0 {
		err = nil
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// open goes on with the chunk that the next byte is taken from.
func (c *content) open() error {
	for ; c.next < len(c.spans); c.next++ {
		s := c.spans[c.next]
		if s.from > c.at || c.at >= s.end || s.from == s.end {
			continue
		}
		body, err := inventory.Open(c.ctx, c.store, s.Chunk)
		if err != nil {
			return err
		}
		c.body, c.left = body, s.end-c.at
		c.next++
		_, err = io.CopyN(io.Discard, body, c.at-s.Offset)
		return err
	}
	return io.ErrUnexpectedEOF
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
	c.at, c.next = offset, 0
	return offset, c.Close()
}

// Close closes what is open; reading may go on after it.
func (c *content) Close() error {
	c.left = 0
	if c.body == nil {
		return nil
	}
	body := c.body
	c.body = nil
	return body.Close()
}
