package sessionlogs

import (
	"context"
	"fmt"
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
	var after blob.ListOptions
	if f.Size() > 0 { // the first chunk of a log that was empty may have the log's own key
		after.StartAfter = layout.SpelledChunkKey(f.stream, f.Size()-1, layout.Plain)
	}
	for object, err := range f.store.List(ctx, f.stream, after) {
		if err != nil {
			return nil, fmt.Errorf("look for new chunks of log %q: %w", f.stream, err)
		}
		stream, offset, compression := layout.ParseLogChunk(object.Key)
		if stream != f.stream || known[object.Key] || offset < f.Size() {
			continue
		}
		chunks, grown = append(chunks, newChunk(f.stream, offset, compression, object)), true
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
