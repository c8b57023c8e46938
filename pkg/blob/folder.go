package blob

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
)

// InFolder returns a store all of whose keys begin with folder, which ends with a slash: what it holds is in store without it. It is the
// reverse of WithPrefix. Listings must begin with folder, or with nothing to list all.
func InFolder(store Store, folder string) Store {
	return inFolder{store, folder}
}

type inFolder struct {
	store  Store
	folder string
}

// cut gives the key in the store. Other keys than the folder's are none of it.
func (f inFolder) cut(key string) (string, error) {
	rest, ok := strings.CutPrefix(key, f.folder)
	if !ok {
		return "", fmt.Errorf("%s is not in %s: %w", key, f.folder, fs.ErrNotExist)
	}
	return rest, nil
}

func (f inFolder) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	rest, err := f.cut(key)
	if err != nil {
		return nil, err
	}
	return f.store.Get(ctx, rest, offset, length)
}

func (f inFolder) Stat(ctx context.Context, key string) (Object, error) {
	rest, err := f.cut(key)
	if err != nil {
		return Object{Key: key}, err
	}
	o, err := f.store.Stat(ctx, rest)
	o.Key = key
	return o, err
}

func (f inFolder) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Object, error] {
	opts.StartAfter = strings.TrimPrefix(opts.StartAfter, f.folder)
	return func(yield func(Object, error) bool) {
		for o, err := range f.store.List(ctx, strings.TrimPrefix(prefix, f.folder), opts) {
			o.Key = f.folder + o.Key
			if !yield(o, err) {
				return
			}
		}
	}
}

func (f inFolder) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	rest, err := f.cut(key)
	if err != nil {
		return err
	}
	return f.store.Create(ctx, rest, body)
}

func (f inFolder) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	rest, err := f.cut(key)
	if err != nil {
		return err
	}
	return f.store.Put(ctx, rest, body)
}

func (f inFolder) Delete(ctx context.Context, key string) error {
	rest, err := f.cut(key)
	if err != nil {
		return err
	}
	return f.store.Delete(ctx, rest)
}
