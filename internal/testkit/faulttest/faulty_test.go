package faulttest

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// kinds are the faults that a store can have.
var kinds = []string{"500", "503", "403", "break", "stall", "lose", "truncate"}

// faulty is a store of which a third of the requests meets a fault: one of the kinds, or with "all" any of them. With
// "down" all fail.
type faulty struct {
	blob.Store
	faults string
	count  *os.File // gets a byte for each fault, and outlives the process

	mu     sync.Mutex
	random *rand.Rand
}

func (f *faulty) roll(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

// draw decides what a request meets, "" for nothing; only those of kinds that can happen to it.
func (f *faulty) draw(listing bool) string {
	if f.faults == "down" {
		_, _ = f.count.WriteString(".")
		return "500"
	}
	if f.roll(3) != 0 {
		return ""
	}
	kind := f.faults
	if kind == "all" {
		kind = kinds[f.roll(len(kinds))]
	}
	if (kind == "truncate") != listing && kind != "500" {
		return ""
	}
	_, _ = f.count.WriteString(".")
	return kind
}

// Create implements blob.Creator.
func (f *faulty) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	switch f.draw(false) {
	case "500":
		return fmt.Errorf("create %s: status 500", key)
	case "503":
		return fmt.Errorf("create %s: status 503: %w", key, blob.ErrThrottled)
	case "403":
		return fmt.Errorf("create %s: status 403: %w", key, blob.ErrPermission)
	case "break":
		_, err := io.CopyN(io.Discard, body, 10)
		return fmt.Errorf("create %s: connection reset: %w", key, err)
	case "stall":
		select {
		case <-time.After(time.Duration(f.roll(2000)) * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("create %s: %w", key, ctx.Err())
		}
	case "lose":
		if err := f.Store.Create(ctx, key, body); err != nil {
			return err
		}
		return fmt.Errorf("create %s: the answer was lost", key)
	}
	return f.Store.Create(ctx, key, body)
}

// List implements blob.Lister; a listing that meets a fault breaks off.
func (f *faulty) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	left := 1 << 30
	if f.draw(true) != "" {
		left = f.roll(3)
	}
	return func(yield func(blob.Object, error) bool) {
		for o, err := range f.Store.List(ctx, prefix, opts) {
			if left--; left < 0 {
				yield(blob.Object{}, fmt.Errorf("list %s: status 500", prefix))
				return
			}
			if !yield(o, err) {
				return
			}
		}
	}
}
