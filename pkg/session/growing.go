package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Grown gives the log with the chunks that were stored since f was opened, or f itself if there are none. A log whose chunks are not
// named after their offsets does not grow.
func (f *LogFile) Grown(ctx context.Context) (*LogFile, error) {
	if f.whole == "" {
		return f, nil
	}
	var chunks []logChunk
	known := map[string]bool{}
	for _, s := range f.segments {
		if key := f.key(s.chunk); !known[key] {
			known[key] = true
			chunks = append(chunks, s.chunk)
		}
	}
	grown := false
	after := blob.ListOptions{StartAfter: layout.SpelledChunkKey(f.whole, f.Size()-1, layout.Plain)}
	for object, err := range f.store.List(ctx, f.whole, after) {
		if err != nil {
			return nil, fmt.Errorf("look for more of log %q: %w", f.whole, err)
		}
		whole, offset, compression, _ := layout.ParseChunk(object.Key)
		if whole != f.whole || known[object.Key] || offset < f.Size() {
			continue
		}
		c := logChunk{offset: offset, size: object.Size, compression: compression}
		if object.Key != layout.LogChunkKey(f.whole, offset, compression) {
			c.key = object.Key
		}
		chunks, grown = append(chunks, c), true
	}
	if !grown {
		return f, nil
	}
	slices.SortFunc(chunks, compareChunks)
	next := &LogFile{store: f.store, whole: f.whole}
	if err := next.index(ctx, chunks); err != nil {
		return nil, fmt.Errorf("look for more of log %q: %w", f.whole, err)
	}
	return next, nil
}
