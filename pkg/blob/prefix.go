package blob

import (
	"context"
	"io"
	"iter"
	"strings"
)

// WithPrefix returns the part of a store whose keys start with prefix. Its keys are without the prefix.
func WithPrefix(store Store, prefix string) Store {
	return prefixed{store, prefix}
}

type prefixed struct {
	store  Store
	prefix string
}

func (p prefixed) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	return p.store.Get(ctx, p.prefix+key, offset, length)
}

func (p prefixed) Stat(ctx context.Context, key string) (Object, error) {
	o, err := p.store.Stat(ctx, p.prefix+key)
	o.Key = key
	return o, err
}

func (p prefixed) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Object, error] {
	if opts.StartAfter != "" {
		opts.StartAfter = p.prefix + opts.StartAfter
	}
	return func(yield func(Object, error) bool) {
		for o, err := range p.store.List(ctx, p.prefix+prefix, opts) {
			o.Key = strings.TrimPrefix(o.Key, p.prefix)
			if !yield(o, err) {
				return
			}
		}
	}
}

func (p prefixed) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return p.store.Create(ctx, p.prefix+key, body)
}

func (p prefixed) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return p.store.Put(ctx, p.prefix+key, body)
}

func (p prefixed) Delete(ctx context.Context, key string) error {
	return p.store.Delete(ctx, p.prefix+key)
}
