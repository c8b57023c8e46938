package remote

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rayhistory/historyserver/internal/backoff"
)

// Open asks a store for the bytes [offset, offset+length) of an object; length < 0 means to its end. It returns the
// body and the number of bytes that the body must have. Later calls must ask for the same version of the object.
type Open func(ctx context.Context, offset, length int64) (body io.ReadCloser, n int64, err error)

// NewReader reads a range of an object. A download that breaks, stalls or ends early is continued by a further request.
// NewReader returns the error of the first request.
func NewReader(ctx context.Context, open Open, offset, length int64) (io.ReadCloser, error) {
	offset = max(offset, 0)
	if offset+length < offset {
		length = -1 // further than any object is long
	}
	body, n, err := open(ctx, offset, length)
	if err != nil {
		return nil, err
	}
	return &reader{ctx: ctx, open: open, body: body, offset: offset, left: n}, nil
}

type reader struct {
	ctx    context.Context
	open   Open
	body   io.ReadCloser // nil after a failure
	offset int64         // of the next byte
	left   int64         // bytes to deliver
	failed int           // failures since the last byte
}

// Read implements io.Reader. Where the connection breaks, it pauses and requests the rest of the range.
func (r *reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > r.left {
		p = p[:r.left] // a store may send more than the range
	}
	for len(p) > 0 {
		if r.body == nil {
			if err := r.reopen(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(p)
		if n > 0 {
			r.failed = 0
			r.offset, r.left = r.offset+int64(n), r.left-int64(n)
			return n, nil // an error comes again with the next read
		}
		if err == nil {
			continue
		}
		_ = r.body.Close()
		r.body = nil
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err := r.pause(err); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// reopen requests the bytes that are not delivered yet. An object of another length was replaced meanwhile.
func (r *reader) reopen() error {
	body, n, err := r.open(r.ctx, r.offset, r.left)
	if err != nil {
		return fmt.Errorf("continue reading at byte %d: %w", r.offset, err)
	}
	if n != r.left {
		_ = body.Close()
		return fmt.Errorf("continue reading at byte %d: %d bytes are left, want %d: %w", r.offset, n, r.left,
			io.ErrUnexpectedEOF)
	}
	r.body = body
	return nil
}

// pause counts a failure and waits before the next attempt.
func (r *reader) pause(cause error) error {
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	r.failed++
	if r.failed >= MaxAttempts {
		return fmt.Errorf("%d attempts: %w", r.failed, cause)
	}
	return backoff.Sleep(r.ctx, Delay(r.failed-1, 0))
}

func (r *reader) Close() error {
	r.left = 0
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}
