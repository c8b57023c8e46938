package session

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// LogSet knows which log files of which nodes are stored, and of which chunks each consists. It holds names and sizes only: bytes are
// read from the store when they are asked for. It may be used by several goroutines.
type LogSet struct {
	store blob.Reader

	mu    sync.RWMutex
	nodes map[rayid.Node]*nodeLogs
	bytes int64 // estimate of the memory held
}

// nodeLogs are the logs of one node.
type nodeLogs struct {
	files  map[string]*logWhole // path below the node's logs folder → its chunks
	sorted []string             // the paths, sorted; nil after one was added
}

// logWhole is one log file: the chunks that make it up, in order of their offsets.
type logWhole struct {
	whole  string // key of the whole, "" where all chunks spell their keys
	chunks []logChunk
}

// logChunk is one stored object of a log.
type logChunk struct {
	offset      int64 // of the chunk's first byte in the whole, uncompressed
	size        int64 // bytes as stored
	compression layout.Compression
	key         string // only where it is not the key that layout builds from the rest
}

// NewLogSet makes an empty set that reads from store.
func NewLogSet(store blob.Reader) *LogSet {
	return &LogSet{store: store, nodes: make(map[rayid.Node]*nodeLogs)}
}

// Add tells of one stored object of a log. Adding it again, with another size if it was rewritten, changes nothing else.
func (l *LogSet) Add(o layout.Object, b blob.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	logs := l.nodes[o.Node]
	if logs == nil {
		logs = &nodeLogs{files: make(map[string]*logWhole)}
		l.nodes[o.Node] = logs
	}
	w := logs.files[o.Path]
	if w == nil {
		w = &logWhole{whole: o.Whole}
		logs.files[o.Path], logs.sorted = w, nil
		l.bytes += int64(len(o.Path)+len(o.Whole)) + 160
	}
	c := logChunk{offset: o.Offset, size: b.Size, compression: o.Compression}
	if b.Key != layout.LogChunkKey(w.whole, o.Offset, o.Compression) {
		c.key = b.Key
	}
	i, found := slices.BinarySearchFunc(w.chunks, c, compareChunks)
	if found {
		w.chunks[i] = c
		return
	}
	w.chunks = slices.Insert(w.chunks, i, c)
	l.bytes += 56 + int64(len(c.key))
}

// compareChunks orders by offset; of several at one offset (a compaction that was cut short leaves such) plain ones come first, because
// their length is known.
func compareChunks(a, b logChunk) int {
	return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.compression, b.compression), cmp.Compare(a.key, b.key))
}

// Nodes lists the nodes that left logs, in order of their IDs.
func (l *LogSet) Nodes() []rayid.Node {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(l.nodes), func(a, b rayid.Node) int { return slices.Compare(a[:], b[:]) })
}

// Paths lists the log files of a node, as paths below its logs folder, sorted; none if the node is unknown. The list must not be changed.
func (l *LogSet) Paths(node rayid.Node) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	logs := l.nodes[node]
	if logs == nil {
		return nil
	}
	if logs.sorted == nil {
		logs.sorted = slices.Sorted(maps.Keys(logs.files))
	}
	return logs.sorted
}

// MemoryBytes estimates the memory the set holds.
func (l *LogSet) MemoryBytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bytes
}

// Open gives one log file as it is stored now. An unknown node or path is os.ErrNotExist.
//
// Where the last chunk is compressed it is read to learn the file's size.
func (l *LogSet) Open(ctx context.Context, node rayid.Node, path string) (*LogFile, error) {
	l.mu.RLock()
	var w *logWhole
	if logs := l.nodes[node]; logs != nil {
		w = logs.files[path]
	}
	var whole string
	var chunks []logChunk
	if w != nil {
		whole, chunks = w.whole, slices.Clone(w.chunks)
	}
	l.mu.RUnlock()
	if w == nil {
		return nil, fmt.Errorf("open log %q of node %s: %w", path, node, os.ErrNotExist)
	}
	f := &LogFile{store: l.store, whole: whole}
	if err := f.index(ctx, chunks); err != nil {
		return nil, fmt.Errorf("open log %q of node %s: %w", path, node, err)
	}
	return f, nil
}
