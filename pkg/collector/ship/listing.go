package ship

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// tail is the last stored chunk of a stream, and the end of the others.
type tail struct {
	offset, size int64
	compression  layout.Compression
	othersEnd    int64
}

func (t *tail) add(offset, size int64, c layout.Compression) {
	if offset >= t.offset {
		offset, t.offset = t.offset, offset
		size, t.size = t.size, size
		c, t.compression = t.compression, c
	}
	if c == layout.Plain { // a compressed chunk before the last needs no end: the next chunk begins there
		t.othersEnd = max(t.othersEnd, offset+size)
	}
}

// end returns the end of the bytes that are certainly stored. exact is false if the last chunk may have more: it is compressed, and there is no
// note of its length. It is then another collector's chunk, or one that compaction joined.
func (t *tail) end(stream string, lengths *lengthLog) (end int64, exact bool) {
	if t.compression == layout.Plain {
		return max(t.othersEnd, t.offset+t.size), true
	}
	if length, ok := lengths.length(stream, t.offset, t.size); ok {
		return t.offset + length, true
	}
	return t.offset + 1, false
}

// listings finds the stored tails of streams. A folder that many streams share is listed once. After that no other collector should add to
// it; if one does, a create-only put fails because the key exists.
type listings struct {
	store blob.Lister
	seed  maphash.Seed

	mu      sync.Mutex
	folders map[string]*folder
}

// folder is one listing of a folder. It may have half a million streams, so they are remembered by hashes of their keys.
type folder struct {
	mu     sync.Mutex // held while the folder is listed
	listed bool
	tails  map[uint64]tail     // of the streams that were not asked for yet
	asked  map[uint64]struct{} // streams that were asked for: the listing is older than what is stored of them
}

func newListings(store blob.Lister) *listings {
	return &listings{store: store, seed: maphash.MakeSeed(), folders: make(map[string]*folder)}
}

// find returns the stream's tail, nil if nothing of it is stored. fresh lists the stream even if its folder was listed before.
func (l *listings) find(ctx context.Context, g *Group, stream string, fresh bool) (*tail, error) {
	prefix := g.folder(stream)
	if prefix == "" || fresh {
		return l.one(ctx, g, stream)
	}
	l.mu.Lock()
	dir := l.folders[prefix]
	if dir == nil {
		dir = &folder{asked: make(map[uint64]struct{})}
		l.folders[prefix] = dir
	}
	l.mu.Unlock()
	dir.mu.Lock()
	defer dir.mu.Unlock()
	if !dir.listed {
		tails, err := l.list(ctx, g, prefix)
		if err != nil {
			return nil, err
		}
		dir.tails, dir.listed = tails, true
	}
	id := maphash.String(l.seed, stream)
	if _, asked := dir.asked[id]; asked {
		return l.one(ctx, g, stream)
	}
	dir.asked[id] = struct{}{}
	t, stored := dir.tails[id]
	if !stored {
		return nil, nil
	}
	if delete(dir.tails, id); len(dir.tails) == 0 {
		dir.tails = nil
	}
	return &t, nil
}

// one lists a single stream.
func (l *listings) one(ctx context.Context, g *Group, stream string) (t *tail, err error) {
	for object, err := range l.store.List(ctx, stream, blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", stream, err)
		}
		if of, offset, c := g.parseKey(object.Key); of == stream {
			if t == nil {
				t = &tail{offset: offset, size: object.Size, compression: c}
			} else {
				t.add(offset, object.Size, c)
			}
		}
	}
	return t, nil
}

// list collects the tails of the streams below prefix.
func (l *listings) list(ctx context.Context, g *Group, prefix string) (map[uint64]tail, error) {
	tails := make(map[uint64]tail)
	for object, err := range l.store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
		stream, offset, c := g.parseKey(object.Key)
		id := maphash.String(l.seed, stream)
		t, known := tails[id]
		if known {
			t.add(offset, object.Size, c)
		} else {
			t = tail{offset: offset, size: object.Size, compression: c}
		}
		tails[id] = t
	}
	return tails, nil
}
