package storetest

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// ErrFault is what a failing operation returns.
var ErrFault = errors.New("injected fault")

// Fault is what happens to one Create.
type Fault uint8

const (
	None          Fault = iota
	Refuse              // nothing is stored, ErrFault
	LostReply           // it is stored, but ErrFault
	Denied              // nothing is stored, blob.ErrPermission
	Stall               // nothing happens until the context ends
	Broken              // a part is read, nothing is stored, ErrFault
	Unwanted            // nothing is stored, blob.ErrRefused
	Throttled           // nothing is stored, blob.ErrThrottled
	LostThrottled       // it is stored, but blob.ErrThrottled: the answer to an earlier attempt was lost
)

// before is what happens before an object is stored; with an error it is not.
func (f Fault) before(ctx context.Context, body io.Reader) error {
	switch f {
	case Refuse:
		return ErrFault
	case Denied:
		return blob.ErrPermission
	case Stall:
		<-ctx.Done()
		return ctx.Err()
	case Unwanted:
		return blob.ErrRefused
	case Throttled:
		return blob.ErrThrottled
	case Broken:
		_, _ = io.CopyN(io.Discard, body, 1)
		return ErrFault
	}
	return nil
}

// after is the error of an object that was stored.
func (f Fault) after() error {
	switch f {
	case LostReply:
		return ErrFault
	case LostThrottled:
		return blob.ErrThrottled
	}
	return nil
}

// Link is a slow way to the store that all uploads share, a packet at a time.
type Link struct {
	bytesPerSecond int64
	free           chan struct{}
}

// packet is how many bytes of one upload pass before those of another may.
const packet = 4 << 10

// NewLink makes a link, in the synctest bubble that is to use it.
func NewLink(bytesPerSecond int64) *Link {
	return &Link{bytesPerSecond: bytesPerSecond, free: make(chan struct{}, 1)}
}

func (l *Link) reader(ctx context.Context, body io.Reader) io.Reader {
	if l == nil {
		return body
	}
	return &linkReader{ctx, l, body}
}

type linkReader struct {
	ctx  context.Context
	link *Link
	body io.Reader
}

func (r *linkReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p[:min(len(p), packet)])
	select {
	case r.link.free <- struct{}{}:
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
	defer func() { <-r.link.free }()
	select {
	case <-time.After(time.Duration(n) * time.Second / time.Duration(r.link.bytesPerSecond)):
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
	return n, err
}
