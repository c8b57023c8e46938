package chunks

import (
	"errors"
	"fmt"
	"os"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// findCompacted looks for the object that compaction stored before it removed the current chunk: it holds the whole
// stream, under the key of its first chunk. If there is one it is read next.
func (r *Reader) findCompacted() (bool, error) {
	compressions := []layout.Compression{layout.Plain}
	if c := r.current.Compression; c != layout.Plain &&
		(r.stream.Kind == layout.NodeEvents || r.stream.Kind == layout.JobEvents) {
		compressions = append(compressions, c) // events may keep their compression
	}
	for _, c := range compressions {
		key := r.stream.FirstKey(c)
		if key == r.current.Object.Key {
			continue
		}
		o, err := r.store.Stat(r.ctx, key)
		switch {
		case errors.Is(err, os.ErrNotExist) || (err == nil && c == layout.Plain && o.Size <= r.offset):
			continue
		case err != nil:
			return false, fmt.Errorf("find the object that replaces %s: %w", r.current.Object.Key, err)
		}
		r.reopen = source{Chunk: Chunk{Object: o, Compression: c}, compacted: true}
		return true, nil
	}
	return false, nil
}
