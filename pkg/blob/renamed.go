package blob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
)

// Renamed returns the objects of a store whose keys begin with there: here their keys begin with here instead. Other
// keys do not exist. A prefix to list begins with here, or is empty to list all.
func Renamed(store Store, here, there string) Store { return renamed{store, here, there} }

type renamed struct {
	store Store
	here  string // what keys begin with for the caller
	there string // what they begin with in the store instead
}

func (r renamed) storeKey(key string) (string, error) {
	rest, ok := strings.CutPrefix(key, r.here)
	if !ok {
		return "", fmt.Errorf("%s is not in %s: %w", key, r.here, fs.ErrNotExist)
	}
	return r.there + rest, nil
}

func (r renamed) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	name, err := r.storeKey(key)
	if err != nil {
		return nil, err
	}
	return r.store.Get(ctx, name, offset, length)
}

func (r renamed) Stat(ctx context.Context, key string) (Object, error) {
	name, err := r.storeKey(key)
	if err != nil {
		return Object{Key: key}, err
	}
	o, err := r.store.Stat(ctx, name)
	o.Key = key
	return o, err
}

// List implements Lister. Prefixes and keys to start after are the caller's, as the keys that it returns.
func (r renamed) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Object, error] {
	if opts.StartAfter != "" {
		opts.StartAfter = r.there + strings.TrimPrefix(opts.StartAfter, r.here)
	}
	return func(yield func(Object, error) bool) {
		for o, err := range r.store.List(ctx, r.there+strings.TrimPrefix(prefix, r.here), opts) {
			o.Key = r.here + strings.TrimPrefix(o.Key, r.there)
			if !yield(o, err) {
				return
			}
		}
	}
}

func (r renamed) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	name, err := r.storeKey(key)
	if err != nil {
		return err
	}
	return r.store.Create(ctx, name, body)
}

func (r renamed) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	name, err := r.storeKey(key)
	if err != nil {
		return err
	}
	return r.store.Put(ctx, name, body)
}

func (r renamed) Delete(ctx context.Context, key string) error {
	name, err := r.storeKey(key)
	if err != nil {
		return err
	}
	return r.store.Delete(ctx, name)
}
