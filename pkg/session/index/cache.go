package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
)

// Cache is a folder of indexes, for sessions whose store may not be written to. It is safe for concurrent use, also by
// several processes. The folder is made when the first index is put there.
type Cache struct {
	dir      string
	maxBytes int64

	mu    sync.Mutex
	store *local.Store // nil until it is needed
}

// NewCache keeps indexes in the folder dir. The oldest are removed when all take more than maxBytes.
func NewCache(dir string, maxBytes int64) *Cache { return &Cache{dir: dir, maxBytes: maxBytes} }

// What open does if the folder does not exist.
const makeFolder, ifExists = true, false

// open returns the folder as a store. If it does not exist, the store is nil or, with makeFolder, it is made.
func (c *Cache) open(mayMake bool) (_ *local.Store, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		if _, err := os.Stat(c.dir); errors.Is(err, os.ErrNotExist) && !mayMake {
			return nil, nil
		}
		if c.store, err = local.Open(c.dir); err != nil {
			return nil, fmt.Errorf("open the folder of indexes: %w", err)
		}
	}
	return c.store, nil
}

// put stores an object of an index in the folder, which it makes if there is none.
func (c *Cache) put(ctx context.Context, key string, body io.ReadSeeker) error {
	store, err := c.open(makeFolder)
	if err != nil {
		return err
	}
	return store.Put(ctx, key, body)
}

// list returns the cached objects whose keys have a prefix, and the store that they are in; both are nil if there is no
// folder yet.
func (c *Cache) list(ctx context.Context, prefix string) (store *local.Store, objects []blob.Object, err error) {
	store, err = c.open(ifExists)
	if err != nil || store == nil {
		return nil, nil, err
	}
	for o, err := range store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return nil, nil, err
		}
		objects = append(objects, o)
	}
	return store, objects, nil
}

// trim removes the indexes below a root that were written longest ago, until the rest is within c.maxBytes. The one
// written last stays, whatever its size.
func (c *Cache) trim(ctx context.Context, root string) error {
	store, err := c.open(ifExists)
	if err != nil || store == nil {
		return err
	}
	type cached struct {
		keys  []string // meta first, so that a partly deleted index is not used
		bytes int64
		last  time.Time // when its last object was written
	}
	var total int64
	bySession := make(map[string]*cached)
	for o, err := range store.List(ctx, root+"/", blob.ListOptions{}) {
		if err != nil {
			return err
		}
		session, table := splitKey(o.Key)
		index := bySession[session]
		if index == nil {
			index = &cached{}
			bySession[session] = index
		}
		if table == metaTable {
			index.keys = slices.Insert(index.keys, 0, o.Key)
		} else {
			index.keys = append(index.keys, o.Key)
		}
		index.bytes += o.Size
		total += o.Size
		if o.ModTime.After(index.last) {
			index.last = o.ModTime
		}
	}
	all := slices.Collect(maps.Values(bySession))
	slices.SortFunc(all, func(a, b *cached) int { return a.last.Compare(b.last) })
	for i := 0; i < len(all)-1 && total > c.maxBytes; i++ {
		for _, key := range all[i].keys {
			if err := store.Delete(ctx, key); err != nil {
				return err
			}
		}
		total -= all[i].bytes
	}
	return nil
}
