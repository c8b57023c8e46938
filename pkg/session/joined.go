package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// Compaction (see package compact) takes chunks away once one object holds their whole. Who listed them before finds their bytes there.

// joined puts the object that the current chunk was joined into in front of the chunks to come; false if there is none.
func (w *wholeReader) joined() (bool, error) {
	whole, _, compression, _ := layout.ParseChunk(w.current.object.Key)
	for _, c := range []layout.Compression{layout.Plain, compression} {
		key := layout.ChunkKey(whole, 0, c)
		if key == w.current.object.Key {
			continue
		}
		o, err := w.store.Stat(w.ctx, key)
		switch {
		case errors.Is(err, os.ErrNotExist) || (err == nil && c == layout.Plain && o.Size <= w.pos):
			continue
		case err != nil:
			return false, fmt.Errorf("look for what %s was joined into: %w", w.current.object.Key, err)
		}
		w.chunks = slices.Insert(w.chunks, 0, chunk{object: o, compression: c, joined: true})
		return true, nil
	}
	return false, nil
}

// openJoined reads n bytes of a chunk that is gone, from offset, out of the log's one object; gone is why the chunk cannot be read.
func (f *LogFile) openJoined(ctx context.Context, c logChunk, offset, n int64, gone error) (io.ReadCloser, error) {
	key := layout.LogChunkKey(f.whole, 0, layout.Plain)
	if f.key(c) == key {
		return nil, gone
	}
	o, err := f.store.Stat(ctx, key)
	if errors.Is(err, os.ErrNotExist) || (err == nil && o.Size < c.offset+offset) {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	return f.store.Get(ctx, key, c.offset+offset, n)
}
