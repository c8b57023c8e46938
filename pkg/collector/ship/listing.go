package ship

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

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

	mu      sync.Mutex
	folders map[string]*folder
}

type folder struct {
	mu     sync.Mutex // held while the folder is listed
	listed bool
	tails  map[string]*tail // a stream whose tail was returned has nil
	// incomplete says that the shipper forgot streams of the folder, so a stream that is not in tails may be stored.
	incomplete atomic.Bool // not guarded: forget must not wait for a listing
}

// find returns the stream's tail, nil if nothing of it is stored. fresh lists the stream even if its folder was listed before.
func (l *listings) find(ctx context.Context, g *Group, stream string, fresh bool) (*tail, error) {
	prefix := g.folder(stream)
	if prefix == "" || fresh {
		tails, err := l.list(ctx, g, stream, stream)
		return tails[stream], err
	}
	l.mu.Lock()
	dir := l.folders[prefix]
	if dir == nil {
		dir = &folder{}
		l.folders[prefix] = dir
	}
	l.mu.Unlock()
	dir.mu.Lock()
	defer dir.mu.Unlock()
	if !dir.listed {
		tails, err := l.list(ctx, g, prefix, "")
		if err != nil {
			return nil, err
		}
		dir.tails, dir.listed = tails, true
	}
	if t, known := dir.tails[stream]; t != nil || (!known && !dir.incomplete.Load()) {
		dir.tails[stream] = nil // the stream's state is newer from now on
		return t, nil
	}
	tails, err := l.list(ctx, g, stream, stream)
	return tails[stream], err
}

// forget says that the shipper no longer remembers the stream. The caller holds the shipper's mutex, which all workers and the metrics need.
func (l *listings) forget(g *Group, stream string) {
	l.mu.Lock()
	dir := l.folders[g.folder(stream)]
	l.mu.Unlock()
	if dir != nil {
		dir.incomplete.Store(true)
	}
}

// list collects the tails of the streams below prefix, or of only one stream.
func (l *listings) list(ctx context.Context, g *Group, prefix, only string) (map[string]*tail, error) {
	tails := make(map[string]*tail)
	for object, err := range l.store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
		stream, offset, c := g.parseKey(object.Key)
		if only != "" && stream != only {
			continue
		}
		if t := tails[stream]; t == nil {
			tails[stream] = &tail{offset: offset, size: object.Size, compression: c}
		} else {
			t.add(offset, object.Size, c)
		}
	}
	return tails, nil
}
