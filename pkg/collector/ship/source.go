package ship

import (
	"context"
	"hash/maphash"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Source is one stream to store. Its methods are called from several goroutines, but only one chunk of a source is
// shipped at a time.
type Source interface {
	// Key returns the stream's key.
	Key() string
	// Resume is called before the first chunk, after any error but blob.ErrThrottled, and when a key exists already. It
	// says that a listing shows the bytes [0, stored) of the stream.
	Resume(stored int64) error
	// Unresumed says that Resume must be called before the next chunk, although the last one was stored.
	Unresumed() bool
	// Pending returns what to ship next: n bytes from offset, at most limit unless the stream cannot be cut there. n =
	// 0 means nothing. oldest is the arrival time of the first of them.
	Pending(limit int64) (offset, n int64, oldest time.Time)
	// Open reads the bytes [offset, offset+n) of the stream: a log that is truncated while it is read is an error,
	// never a shorter chunk.
	Open(offset, n int64) (io.ReadSeekCloser, error)
	// Shipped says that the bytes before end are stored. The source may forget them.
	Shipped(end int64)
}

// Group is the sources of one kind.
type Group struct {
	// Name is the name of the kind in metrics and log lines.
	Name string
	// Sources lists the sources that may have something to ship. It is called often, so it should leave out those that
	// have nothing.
	Sources func() []Source
	// Waiting returns the number of unstored bytes of all sources, and the arrival time of the oldest. It is called for
	// the metrics. If it is nil, the metrics leave the group out.
	Waiting     func() (bytes int64, oldest time.Time)
	Compression layout.Compression
	// Logs says that the streams are logs, whose chunks have other keys than those of events (layout.LogChunkKey). The
	// streams of a node's logs are then listed together, once, instead of one by one. Folders of events are shared with
	// other nodes, so their streams are not.
	Logs bool
}

func (g *Group) chunkKey(stream string, offset int64) string {
	if g.Logs {
		return layout.LogChunkKey(stream, offset, g.Compression)
	}
	return layout.ChunkKey(stream, offset, g.Compression)
}

// parseKey splits a chunk's key.
func (g *Group) parseKey(key string) (stream string, offset int64, c layout.Compression) {
	if g.Logs {
		return layout.ParseLogChunk(key)
	}
	stream, offset, c, _ = layout.ParseChunk(key)
	return stream, offset, c
}

// listingPrefix returns the prefix of all streams that are listed together with this one. For a log that is its key up
// to and including the folder of its node, whose name is the node's ID. "" means that the stream is listed alone.
func (g *Group) listingPrefix(stream string) string {
	if !g.Logs {
		return ""
	}
	const nodeDigits = 2 * rayid.NodeSize
	for i := 1; i < len(stream); i++ {
		if stream[i-1] != '/' || i+nodeDigits >= len(stream) || stream[i+nodeDigits] != '/' {
			continue
		}
		if _, err := rayid.Parse[rayid.Node](stream[i : i+nodeDigits]); err == nil {
			return stream[:i+nodeDigits+1]
		}
	}
	return ""
}

// tail is the last stored chunk of a stream, and the end of the others.
type tail struct {
	offset, size int64
	compression  layout.Compression
	othersEnd    int64 // the furthest end of a plain chunk before: it may be longer than those that follow
}

// addChunk takes in a chunk, in any order: if it is later than the last one so far, that becomes one of the others.
func (t *tail) addChunk(offset, size int64, c layout.Compression) {
	if offset >= t.offset {
		offset, t.offset = t.offset, offset
		size, t.size = t.size, size
		c, t.compression = t.compression, c
	}
	if c == layout.Plain { // a compressed chunk before the last needs no end: the next chunk begins there
		t.othersEnd = max(t.othersEnd, offset+size)
	}
}

// streamEnd returns the offset at which the stream continues after its last chunk. If that chunk is compressed and
// there is no note of its length, it is another collector's chunk, or one that compaction joined. Then a log continues
// one byte after the chunk's offset, because its file has the same bytes there. Lines of the spool are others than
// those in the chunk and must not take their place: their stream continues in the next region.
func (t *tail) streamEnd(g *Group, stream string, lengths *lengthLog) int64 {
	if t.compression == layout.Plain {
		return max(t.othersEnd, t.offset+t.size)
	}
	if length, ok := lengths.lengthOf(stream, t.offset, t.size); ok {
		return t.offset + length
	}
	if g.Logs {
		return t.offset + 1
	}
	return layout.NextRegion(t.offset)
}

// listings finds the stored tails of streams. A folder that many streams share is listed once. After that no other
// collector should add to it; if one does, a create-only put fails because the key exists.
type listings struct {
	store blob.Lister
	seed  maphash.Seed

	mu      sync.Mutex
	folders map[string]*folder
}

// folder is one listing of a folder. It may have half a million streams, so they are remembered by hashes of their
// keys.
type folder struct {
	usedAt time.Time  // guarded by the listings' mu
	mu     sync.Mutex // held while the folder is listed
	listed bool
	tails  map[uint64]tail     // of the streams that were not asked for yet
	asked  map[uint64]struct{} // streams that were asked for: the listing is older than what is stored of them
}

func newListings(store blob.Lister) *listings {
	return &listings{store: store, seed: maphash.MakeSeed(), folders: make(map[string]*folder)}
}

// lastChunk returns the stream's last stored chunk, nil if nothing of it is stored. The first time that a stream of a
// folder is asked for, the whole folder is listed, and each other stream in it is answered once from that listing. With
// fresh, only the stream is listed, in any case.
func (l *listings) lastChunk(ctx context.Context, g *Group, stream string, fresh bool) (*tail, error) {
	prefix := g.listingPrefix(stream)
	if prefix == "" || fresh {
		return l.listStream(ctx, g, stream)
	}
	dir := l.folderAt(prefix, time.Now())
	dir.mu.Lock()
	defer dir.mu.Unlock()
	if !dir.listed {
		tails, err := l.listFolder(ctx, g, prefix)
		if err != nil {
			return nil, err
		}
		dir.tails, dir.listed = tails, true
	}
	id := maphash.String(l.seed, stream)
	if _, asked := dir.asked[id]; asked { // the stream may have got chunks since the folder was listed
		return l.listStream(ctx, g, stream)
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

// folderAt finds the listing of a prefix, or makes one that is not listed yet. When it makes one, it forgets the
// listings that nothing was asked of for stateAge: those of a machine's sessions of years would add up. If a stream of
// one grows later, the folder is listed again.
func (l *listings) folderAt(prefix string, now time.Time) *folder {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir := l.folders[prefix]
	if dir == nil {
		maps.DeleteFunc(l.folders, func(_ string, other *folder) bool { return now.Sub(other.usedAt) >= stateAge })
		dir = &folder{asked: make(map[uint64]struct{})}
		l.folders[prefix] = dir
	}
	dir.usedAt = now
	return dir
}

func (l *listings) listStream(ctx context.Context, g *Group, stream string) (*tail, error) {
	tails, err := l.listFolder(ctx, g, stream)
	if t, stored := tails[maphash.String(l.seed, stream)]; stored {
		return &t, err
	}
	return nil, err
}

// listFolder lists the store below prefix, and returns the last chunk of each stream there, by the hash of its key.
func (l *listings) listFolder(ctx context.Context, g *Group, prefix string) (map[uint64]tail, error) {
	tails := make(map[uint64]tail)
	for object, err := range l.store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return nil, err // it names what was listed
		}
		stream, offset, c := g.parseKey(object.Key)
		id := maphash.String(l.seed, stream)
		t, known := tails[id]
		if known {
			t.addChunk(offset, object.Size, c)
		} else {
			t = tail{offset: offset, size: object.Size, compression: c}
		}
		tails[id] = t
	}
	return tails, nil
}
