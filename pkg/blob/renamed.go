package blob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
)

// WithPrefix returns the part of a store whose keys start with prefix. Its keys are without the prefix.
func WithPrefix(store Store, prefix string) Store {
	below := func(key string) string { return prefix + key }
	return renamed{
		store: store, prefix: below,
		key:   func(key string) (string, error) { return below(key), nil },
		found: func(key string) string { return strings.TrimPrefix(key, prefix) },
	}
}

// InFolder returns a store whose keys all begin with folder, which ends with a slash; store has the same objects
// without this prefix. It is the reverse of WithPrefix. A prefix to list must begin with folder, or be empty to list
// all. Keys outside the folder do not exist.
func InFolder(store Store, folder string) Store {
	return renamed{
		store: store, prefix: func(prefix string) string { return strings.TrimPrefix(prefix, folder) },
		key: func(key string) (string, error) {
			rest, ok := strings.CutPrefix(key, folder)
			if !ok {
				return "", fmt.Errorf("%s is not in %s: %w", key, folder, fs.ErrNotExist)
			}
			return rest, nil
		},
		found: func(key string) string { return folder + key },
	}
}

// renamed is a store whose keys are others in the store that holds its objects.
type renamed struct {
	store  Store
	prefix func(prefix string) string       // of a listing, in that store
	key    func(key string) (string, error) // in that store
	found  func(key string) string          // the key here of a listed one
}

func (r renamed) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	name, err := r.key(key)
	if err != nil {
		return nil, err
	}
	return r.store.Get(ctx, name, offset, length)
}

// Stat implements Reader.
func (r renamed) Stat(ctx context.Context, key string) (Object, error) {
	name, err := r.key(key)
	if err != nil {
		return Object{Key: key}, err
	}
	o, err := r.store.Stat(ctx, name)
	o.Key = key
	return o, err
}

// List implements Lister.
func (r renamed) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Object, error] {
	if opts.StartAfter != "" {
		opts.StartAfter = r.prefix(opts.StartAfter)
	}
	return func(yield func(Object, error) bool) {
		for o, err := range r.store.List(ctx, r.prefix(prefix), opts) {
			o.Key = r.found(o.Key)
			if !yield(o, err) {
				return
			}
		}
	}
}

func (r renamed) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	name, err := r.key(key)
	if err != nil {
		return err
	}
	return r.store.Create(ctx, name, body)
}

func (r renamed) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	name, err := r.key(key)
	if err != nil {
		return err
	}
	return r.store.Put(ctx, name, body)
}

func (r renamed) Delete(ctx context.Context, key string) error {
	name, err := r.key(key)
	if err != nil {
		return err
	}
	return r.store.Delete(ctx, name)
}
