package session

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// chunk is one stored object of a whole.
type chunk struct {
	object      blob.Object
	offset      int64 // of its first byte in the whole, uncompressed
	compression layout.Compression
	joined      bool // found in the place of chunks that are gone
}

// whole is one file of events, stored as chunks.
type whole struct {
	key    string
	chunks []chunk // in order of their offsets
	size   int64   // bytes stored
}

// inventory is what a listing of a session's objects tells.
type inventory struct {
	events    []*whole // the largest first
	logs      *LogSet
	snapshots *SnapshotSet
	ended     bool // session/end.json is there
	foreign   int  // objects that are none of the layout's
	sources   Sources
	seal      seal
}

// seal changes when anything is stored.
type seal struct {
	objects int
	bytes   int64
	last    time.Time // when an object was written last
}

func (s *seal) add(o blob.Object) {
	s.objects++
	s.bytes += o.Size
	if o.ModTime.After(s.last) {
		s.last = o.ModTime
	}
}

// takeInventory lists the session's objects.
func takeInventory(ctx context.Context, store blob.Reader, root string, ref layout.Session, progress *Progress) (*inventory, error) {
	return inventoryOf(store, root, ref, store.List(ctx, layout.Prefix(root, ref), blob.ListOptions{}), progress)
}

// inventoryOf sorts objects that were listed.
func inventoryOf(store blob.Reader, root string, ref layout.Session, objects iter.Seq2[blob.Object, error], progress *Progress) (*inventory, error) {
	inv := &inventory{logs: NewLogSet(store), snapshots: NewSnapshotSet(store)}
	wholes := make(map[string]*whole)
	hash := newSourceHash()
	for object, err := range objects {
		if err != nil {
			return nil, fmt.Errorf("list session %s: %w", ref, err)
		}
		o, err := layout.ParseObject(root, ref, object.Key)
		if err != nil {
			inv.foreign++
			inv.seal.add(object)
			continue
		}
		hash.add(o, object)
		if o.Kind != layout.Index {
			inv.seal.add(object)
		}
		switch o.Kind {
		case layout.NodeEvents, layout.JobEvents:
			w := wholes[o.Whole]
			if w == nil {
				w = &whole{key: o.Whole}
				wholes[o.Whole] = w
				inv.events = append(inv.events, w)
			}
			w.chunks = append(w.chunks, chunk{object: object, offset: o.Offset, compression: o.Compression})
			w.size += object.Size
			progress.ObjectsTotal.Add(1)
			progress.BytesTotal.Add(object.Size)
		case layout.Log:
			inv.logs.Add(o, object)
		case layout.Snapshot, layout.Series:
			inv.snapshots.Add(o, object)
		case layout.Index:
			inv.sources.Index = append(inv.sources.Index, object)
		case layout.Facts:
			inv.ended = inv.ended || object.Key == layout.FactsKey(root, ref, layout.End)
		}
	}
	inv.sources.Fingerprint = hash.sum()
	for _, w := range inv.events {
		slices.SortFunc(w.chunks, compareEventChunks)
	}
	// Large ones first, so that the last of several readers does not begin with the largest.
	slices.SortFunc(inv.events, func(a, b *whole) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.key, b.key)) })
	return inv, nil
}

// compareEventChunks orders by offset; of several at one offset plain ones come first, and what the others hold more is read after them.
func compareEventChunks(a, b chunk) int {
	return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.compression, b.compression), cmp.Compare(a.object.Key, b.object.Key))
}
