package storetest

import (
	"context"
	"io"
	"iter"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// Op is an operation of a store.
type Op string

// The operations.
const (
	List   Op = "list"
	Stat   Op = "stat"
	Get    Op = "get"
	Create Op = "create"
	Put    Op = "put"
	Delete Op = "delete"
)

// Writes says whether an operation changes the store.
func (op Op) Writes() bool { return op == Create || op == Put || op == Delete }

// Hooked is a store of whose operations a test is told. Hooks that are nil do nothing.
type Hooked struct {
	blob.Store
	// Before is called before each operation with its key or, for a listing, its prefix. Its error is the operation's.
	Before func(ctx context.Context, op Op, key string) error
	// After is called after an operation that went well, for a listing at its end. Its error is the operation's: the
	// answer was lost.
	After func(ctx context.Context, op Op, key string) error
	// Object changes what Stat and listings tell of an object.
	Object func(*blob.Object)
	// Body changes what is read of an object.
	Body func(key string, body io.Reader) io.Reader
}

// On makes a hook of one operation.
func On(op Op, hook func(ctx context.Context, key string) error) func(context.Context, Op, string) error {
	return func(ctx context.Context, o Op, key string) error {
		if o != op {
			return nil
		}
		return hook(ctx, key)
	}
}

// Hang does not answer until the caller gives up. Its error is the context's, not the cause, as that of most SDKs.
func Hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h *Hooked) do(ctx context.Context, op Op, key string, do func() error) error {
	if h.Before != nil {
		if err := h.Before(ctx, op, key); err != nil {
			return err
		}
	}
	if err := do(); err != nil || h.After == nil {
		return err
	}
	return h.After(ctx, op, key)
}

// List implements blob.Lister.
func (h *Hooked) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		left := false
		err := h.do(ctx, List, prefix, func() error {
			for o, err := range h.Store.List(ctx, prefix, opts) {
				if err != nil {
					return err
				}
				if h.Object != nil {
					h.Object(&o)
				}
				if left = !yield(o, nil); left {
					return nil
				}
			}
			return nil
		})
		if err != nil && !left {
			yield(blob.Object{}, err)
		}
	}
}

// Stat implements blob.Reader.
func (h *Hooked) Stat(ctx context.Context, key string) (o blob.Object, err error) {
	err = h.do(ctx, Stat, key, func() (err error) {
		o, err = h.Store.Stat(ctx, key)
		return err
	})
	if err == nil && h.Object != nil {
		h.Object(&o)
	}
	return o, err
}

// Get implements blob.Reader.
func (h *Hooked) Get(ctx context.Context, key string, offset, length int64) (body io.ReadCloser, err error) {
	err = h.do(ctx, Get, key, func() (err error) {
		body, err = h.Store.Get(ctx, key, offset, length)
		return err
	})
	if err != nil {
		if body != nil {
			_ = body.Close()
		}
		return nil, err
	}
	if h.Body != nil {
		body = struct {
			io.Reader
			io.Closer
		}{h.Body(key, body), body}
	}
	return body, nil
}

// Create implements blob.Creator.
func (h *Hooked) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return h.do(ctx, Create, key, func() error { return h.Store.Create(ctx, key, body) })
}

// Put implements blob.Store.
func (h *Hooked) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return h.do(ctx, Put, key, func() error { return h.Store.Put(ctx, key, body) })
}

// Delete implements blob.Store.
func (h *Hooked) Delete(ctx context.Context, key string) error {
	return h.do(ctx, Delete, key, func() error { return h.Store.Delete(ctx, key) })
}
