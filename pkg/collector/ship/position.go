package ship

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// position is what a shipper remembers of one whole.
type position struct {
	prepared  bool // Options.Prepare succeeded
	located   bool // a listing told the end before
	known     bool // the source was resumed, at the end of what is stored
	end       int64
	noted     bool // the whole is stored as an empty object: see Emptiable
	backoff   Backoff
	notBefore time.Time // of the next try after an error
	used      time.Time
}

// tail is the last of a whole's chunks, and how far the others reach.
type tail struct {
	offset, size int64
	compression  layout.Compression
	others       int64
}

func (t *tail) add(offset, size int64, c layout.Compression) {
	if offset < t.offset {
		t.others = max(t.others, offset+size) // exact for plain chunks, and for compressed ones the next begins where one ends
		return
	}
	if t.compression == layout.Plain {
		t.others = max(t.others, t.offset+t.size)
	}
	t.offset, t.size, t.compression = offset, size, c
}

// end is where the bytes that are surely stored end.
func (t *tail) end(whole string, notes *ledger) int64 {
	if t.compression == layout.Plain {
		return max(t.others, t.offset+t.size)
	}
	if length, ok := notes.length(whole, t.offset, t.size); ok {
		return t.offset + length
	}
	return t.offset + 1
}

// folders remembers listings that many wholes share. Each is asked once; from then on nobody else adds to the folder, and if somebody
// does after all, create-only puts find out.
type folders struct {
	store blob.Lister

	mu    sync.Mutex
	known map[string]*folder
}

type folder struct {
	once  sync.Mutex // held while the folder is listed
	tails map[string]*tail
	done  bool
	// doubted: wholes of the folder were forgotten, so that one which is not in tails may be stored all the same.
	doubted bool
}

// find is the stored tail of whole, nil where nothing of it is stored. fresh asks the store even if it was asked before.
func (f *folders) find(ctx context.Context, names Naming, whole string, fresh bool) (*tail, error) {
	prefix := names.Folder(whole)
	if prefix == "" || fresh {
		tails, err := f.list(ctx, names, whole, whole)
		return tails[whole], err
	}
	f.mu.Lock()
	dir := f.known[prefix]
	if dir == nil {
		dir = &folder{}
		f.known[prefix] = dir
	}
	f.mu.Unlock()
	dir.once.Lock()
	defer dir.once.Unlock()
	if !dir.done {
		tails, err := f.list(ctx, names, prefix, "")
		if err != nil {
			return nil, err
		}
		dir.tails, dir.done = tails, true
	}
	if t, listed := dir.tails[whole]; t != nil || (!listed && !dir.doubted) {
		dir.tails[whole] = nil // told once: from here on the position knows better, or the store is asked again
		return t, nil
	}
	tails, err := f.list(ctx, names, whole, whole)
	return tails[whole], err
}

// forget says that the position of a whole of the folder is no longer remembered.
func (f *folders) forget(names Naming, whole string) {
	f.mu.Lock()
	dir := f.known[names.Folder(whole)]
	f.mu.Unlock()
	if dir != nil {
		dir.once.Lock()
		dir.doubted = true
		dir.once.Unlock()
	}
}

// list collects the tails below prefix, of one whole only if it is given.
func (f *folders) list(ctx context.Context, names Naming, prefix, only string) (map[string]*tail, error) {
	tails := make(map[string]*tail)
	for object, err := range f.store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
		whole, offset, c := names.Parse(object.Key)
		if only != "" && whole != only {
			continue
		}
		if t := tails[whole]; t == nil {
			tails[whole] = &tail{offset: offset, size: object.Size, compression: c}
		} else {
			t.add(offset, object.Size, c)
		}
	}
	return tails, nil
}
