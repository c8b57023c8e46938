package redact

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// Store wraps a store so that its errors hold no secrets.
func (r *Redactor) Store(store blob.Store) blob.Store { return redacted{store, r} }

type redacted struct {
	store blob.Store
	r     *Redactor
}

func (s redacted) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	body, err := s.store.Get(ctx, key, offset, length)
	if err != nil {
		return nil, s.r.Error(err)
	}
	return reader{body, s.r}, nil
}

type reader struct {
	io.ReadCloser
	r *Redactor
}

func (b reader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.r.Error(err)
	}
	return n, err
}

func (s redacted) Stat(ctx context.Context, key string) (blob.Object, error) {
	o, err := s.store.Stat(ctx, key)
	return o, s.r.Error(err)
}

func (s redacted) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		for o, err := range s.store.List(ctx, prefix, opts) {
			if !yield(o, s.r.Error(err)) {
				return
			}
		}
	}
}

func (s redacted) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.r.Error(s.store.Create(ctx, key, body))
}

func (s redacted) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.r.Error(s.store.Put(ctx, key, body))
}

func (s redacted) Delete(ctx context.Context, key string) error {
	return s.r.Error(s.store.Delete(ctx, key))
}
