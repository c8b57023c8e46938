package index

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Cache is a folder of indexes whose sessions' store may not be written to. It may be used by several goroutines and processes.
type Cache struct {
	store    *local.Store
	maxBytes int64
}

// OpenCache opens the folder dir, which is made if need be. Indexes are let go, the oldest first, when all take more than maxBytes.
func OpenCache(dir string, maxBytes int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the folder of indexes: %w", err)
	}
	store, err := local.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of indexes: %w", err)
	}
	return &Cache{store: store, maxBytes: maxBytes}, nil
}

// list gives the sizes of a session's tables by key.
func (c *Cache) list(ctx context.Context, root string, ref layout.Session) (map[string]int64, error) {
	sizes := make(map[string]int64)
	for o, err := range c.store.List(ctx, layout.Prefix(root, ref)+"index/", blob.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		sizes[o.Key] = o.Size
	}
	return sizes, nil
}

// trim lets indexes go until the rest is within the bound; the one written last stays.
func (c *Cache) trim(ctx context.Context, root string) error {
	type kept struct {
		keys  []string // meta first, so that what is left of an index that was deleted in part is none
		bytes int64
		last  time.Time
	}
	var total int64
	bySession := make(map[string]*kept)
	for o, err := range c.store.List(ctx, root+"/", blob.ListOptions{}) {
		if err != nil {
			return err
		}
		session, table := splitKey(o.Key)
		k := bySession[session]
		if k == nil {
			k = &kept{}
			bySession[session] = k
		}
		if table == metaTable {
			k.keys = slices.Insert(k.keys, 0, o.Key)
		} else {
			k.keys = append(k.keys, o.Key)
		}
		k.bytes += o.Size
		total += o.Size
		if o.ModTime.After(k.last) {
			k.last = o.ModTime
		}
	}
	var all []*kept
	for _, k := range bySession {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *kept) int { return a.last.Compare(b.last) })
	for i := 0; i < len(all)-1 && total > c.maxBytes; i++ {
		for _, key := range all[i].keys {
			if err := c.store.Delete(ctx, key); err != nil {
				return err
			}
		}
		total -= all[i].bytes
	}
	return nil
}
