package sessionlogs

import (
	"context"
	"fmt"
	"os"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// NewReader reads one log, the part that opts name, without listing or measuring anything first. Where bytes are not
// stored, Read returns a *chunks.Gap and then goes on behind it. An unknown node or path is os.ErrNotExist. The caller
// closes the reader.
func (l *Set) NewReader(ctx context.Context, node rayid.Node, path string, opts chunks.Options) (*chunks.Reader,
	error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	log := l.find(node, path)
	if log == nil {
		return nil, fmt.Errorf("read log %q of node %s: %w", path, node, os.ErrNotExist)
	}
	in := &chunks.Stream{Key: log.key, Kind: layout.Log, Chunks: make([]chunks.Chunk, 0, len(log.chunks))}
	for _, c := range log.chunks {
		if c.offset > maxOffset || c.size > maxOffset {
			continue
		}
		in.Chunks = append(in.Chunks, c.toChunk(log.key))
	}
	return chunks.NewReader(ctx, l.store, in, opts), nil
}

// toChunk is the chunk as one of the log whose chunks' keys begin with stream.
func (c chunk) toChunk(stream string) chunks.Chunk {
	return chunks.Chunk{Object: blob.Object{Key: c.keyIn(stream), Size: c.size}, Offset: c.offset,
		Compression: c.compression}
}

// NewPrefetcher makes a prefetcher for readers of the set's logs.
func (l *Set) NewPrefetcher() *chunks.Prefetcher { return chunks.NewPrefetcher(l.store) }

// StoredBytes is the size of a log's chunks as they are stored, 0 if there are none.
func (l *Set) StoredBytes(node rayid.Node, path string) (bytes int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if log := l.find(node, path); log != nil {
		for _, c := range log.chunks {
			bytes += c.size
		}
	}
	return bytes
}

// find returns the stream of a path: one without chunks for an empty log, nil if there is no such log. l.mu must be
// held.
func (l *Set) find(node rayid.Node, path string) *stream {
	logs := l.logsOf(node)
	if logs == nil {
		return nil
	}
	if log := logs.files[path]; log != nil || !logs.isEmpty(path) {
		return log
	}
	return &stream{key: logs.prefix + path}
}
