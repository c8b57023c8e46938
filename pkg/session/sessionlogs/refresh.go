package sessionlogs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Refresh returns the log with the chunks that were stored since f was opened, or f itself if there are none. It lists
// only the keys from the last known byte on.
func (f *File) Refresh(ctx context.Context) (*File, error) {
	if f.stream == "" {
		return f, nil // the zero File
	}
	var chunks []chunk
	known := map[string]bool{}
	for _, s := range f.segments {
		if key := s.chunk.keyIn(f.stream); !known[key] {
			known[key] = true
			chunks = append(chunks, s.chunk)
		}
	}
	grown := false
	add := func(object blob.Object) {
		stream, offset, compression := layout.ParseLogChunk(object.Key)
		if stream == f.stream && !known[object.Key] && offset >= f.Size() {
			chunks, grown = append(chunks, newChunk(f.stream, offset, compression, object)), true
		}
	}
	var after blob.ListOptions
	if f.Size() > 0 {
		after.StartAfter = layout.SpelledChunkKey(f.stream, f.Size()-1, layout.Plain)
	} else if first, err := f.store.Stat(ctx, f.stream); err == nil { // that of a log that was empty
		add(first)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look for new chunks of log %q: %w", f.stream, err)
	}
	// Not all keys that begin as the log's: there may be very many logs whose names begin with this one's.
	for object, err := range f.store.List(ctx, layout.OffsetPrefix(f.stream), after) {
		if err != nil {
			return nil, fmt.Errorf("look for new chunks of log %q: %w", f.stream, err)
		}
		add(object)
	}
	if !grown {
		return f, nil
	}
	slices.SortFunc(chunks, compareChunks)
	next := &File{store: f.store, stream: f.stream}
	if err := next.makeSegments(ctx, chunks); err != nil {
		return nil, fmt.Errorf("look for new chunks of log %q: %w", f.stream, err)
	}
	return next, nil
}
