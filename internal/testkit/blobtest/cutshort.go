package blobtest

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// ErrCut is what creating returns once a store is cut short.
var ErrCut = errors.New("cut short by the test")

// CutShort is the store s that creates so many objects and no more. These are created even if the caller gives up
// because of the first object that is refused, so their number is always the same.
func CutShort(s blob.Store, creates int) blob.Store {
	cut := &cutShort{Store: s}
	cut.left.Store(int64(creates))
	return cut
}

type cutShort struct {
	blob.Store
	left atomic.Int64
}

// Create implements blob.Creator.
func (c *cutShort) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if c.left.Add(-1) < 0 {
		return ErrCut
	}
	return c.Store.Create(context.WithoutCancel(ctx), key, body)
}
