// Package sessionlogs knows a session's stored log files and reads ranges of them, by bytes, lines and time.
//
// A Set holds only names and sizes: which log files each node has, and which chunks each log has. Set.Open gives a
// File, whose bytes are read from the store on request.
package sessionlogs

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/logname"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Set lists the stored log files by node. It is safe for concurrent use.
type Set struct {
	store blob.Reader

	mu    sync.RWMutex
	nodes map[rayid.Node]*nodeLogs
	// shared are the nodes that have no logs of their own but those of another node.
	shared map[rayid.Node]rayid.Node
	bytes  int64 // estimate of the memory held
	// contents changes with the chunks there are: it is the sum of their hashes, which does not depend on the order in
	// which they are added.
	contents uint64
}

// nodeLogs are the logs of one node.
type nodeLogs struct {
	files  map[string]*stream // path below the node's logs folder → its chunks
	lists  []emptyList        // of logs that were empty
	prefix string             // what the keys of the node's logs begin with; set if there are lists
	sorted []string           // the paths, sorted; nil after one was added
}

// stream is one log file.
type stream struct {
	key    string
	chunks []chunk // in the order of compareChunks
}

// chunk is one stored object of a log. It is smaller than a chunks.Chunk, for a session may have a hundred thousand.
type chunk struct {
	offset      int64 // of the chunk's first byte in the stream, uncompressed
	size        int64 // bytes as stored
	compression layout.Compression
	stored      int64  // when the store says that it was written, Unix ns; 0 if it does not
	key         string // only where it differs from the key that layout builds of the rest
}

// newChunk is an object of the log whose chunks' keys begin with stream.
func newChunk(stream string, offset int64, compression layout.Compression, b blob.Object) chunk {
	c := chunk{offset: offset, size: b.Size, compression: compression}
	if !b.ModTime.IsZero() {
		c.stored = b.ModTime.UnixNano()
	}
	if b.Key != layout.LogChunkKey(stream, offset, compression) { // in another spelling, which keyIn could not make
		c.key = b.Key
	}
	return c
}

// keyIn is the key of a chunk of the log whose chunks' keys begin with stream.
func (c chunk) keyIn(stream string) string {
	if c.key != "" {
		return c.key
	}
	return layout.LogChunkKey(stream, c.offset, c.compression)
}

// New makes an empty set whose files are read from store.
func New(store blob.Reader) *Set {
	return &Set{store: store, nodes: make(map[rayid.Node]*nodeLogs)}
}

// Add adds one stored object of a log. An object that was added before is replaced.
func (l *Set) Add(o layout.Object, b blob.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	logs := l.nodeOf(o.Node)
	log := logs.files[o.Path]
	if log == nil {
		log = &stream{key: o.Stream}
		logs.files[o.Path], logs.sorted = log, nil
		l.bytes += int64(len(o.Path)+len(o.Stream)) + streamBytes
	}
	c := newChunk(log.key, o.Offset, o.Compression, b)
	i, found := slices.BinarySearchFunc(log.chunks, c, compareChunks)
	if found {
		l.contents += chunkHash(b.Key, c.size) - chunkHash(b.Key, log.chunks[i].size)
		log.chunks[i] = c
		return
	}
	l.contents += chunkHash(b.Key, c.size)
	log.chunks = slices.Insert(log.chunks, i, c)
	l.bytes += chunkBytes + int64(len(c.key))
}

// What a log and a chunk take in a Set besides their texts, in bytes: structs, and their places in a map and a list.
const (
	streamBytes = 160
	chunkBytes  = 64
)

// nodeOf returns a node's logs, and adds the node if needed; l.mu is held.
func (l *Set) nodeOf(node rayid.Node) *nodeLogs {
	logs := l.nodes[node]
	if logs == nil {
		logs = &nodeLogs{files: make(map[string]*stream)}
		l.nodes[node] = logs
	}
	return logs
}

// Share lets a node that has no logs of its own have those of another node. Nodes does not list it.
func (l *Set) Share(node, with rayid.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared == nil {
		l.shared = make(map[rayid.Node]rayid.Node)
	}
	l.shared[node] = with
}

// logsOf returns a node's logs, its own or shared ones; nil if it has none. l.mu is held.
func (l *Set) logsOf(node rayid.Node) *nodeLogs {
	if with, ok := l.shared[node]; ok && l.nodes[node] == nil {
		node = with
	}
	return l.nodes[node]
}

// chunkHash is a number that differs for objects with another key or size.
func chunkHash(key string, size int64) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", size, key)
	return h.Sum64()
}

// Contents changes with the chunks there are.
func (l *Set) Contents() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.contents
}

// Whole, as the head of Version, is a log from its beginning to its end.
const Whole = 0

// Version identifies what is stored of the first head bytes of a log, or of the Whole log: it changes when more of them
// is stored, and not any more when all are, which a "." at its end says. A log that is not there has a version too.
func (l *Set) Version(node rayid.Node, path string, head int64) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	log := l.find(node, path)
	if log == nil {
		return "-"
	}
	var n uint64
	for i, c := range log.chunks {
		if head > 0 && i > 0 && c.offset >= head {
			return fmt.Sprintf("%x.", n)
		}
		n += chunkHash(c.key, c.offset^c.size<<20) // of one log: offset and size say what the key does
	}
	return fmt.Sprintf("%x", n)
}

// compareChunks orders by offset. Of several chunks at one offset, which an interrupted compaction leaves, plain ones
// come first, because their length is known.
func compareChunks(a, b chunk) int {
	return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.compression, b.compression), cmp.Compare(a.key, b.key))
}

// Nodes lists the nodes that left logs, in order of their IDs.
func (l *Set) Nodes() []rayid.Node {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(l.nodes), func(a, b rayid.Node) int { return slices.Compare(a[:], b[:]) })
}

// Paths lists the log files of a node, as paths below its logs folder, sorted; none if the node is unknown. The list
// must not be changed.
func (l *Set) Paths(node rayid.Node) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	logs := l.logsOf(node)
	if logs == nil {
		return nil
	}
	if logs.sorted == nil {
		logs.sorted = logs.paths()
	}
	return logs.sorted
}

// MemoryBytes estimates the memory the set holds.
func (l *Set) MemoryBytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bytes
}

// Open returns one log file as it was listed. An unknown node or path is os.ErrNotExist.
//
// If the last chunk is compressed, it is read to learn the file's size.
func (l *Set) Open(ctx context.Context, node rayid.Node, path string) (*File, error) {
	l.mu.RLock()
	log := l.find(node, path)
	var key string
	var chunks []chunk
	if log != nil {
		key, chunks = log.key, slices.Clone(log.chunks)
	}
	l.mu.RUnlock()
	if log == nil {
		return nil, fmt.Errorf("open log %q of node %s: %w", path, node, os.ErrNotExist)
	}
	f := &File{store: l.store, stream: key}
	if err := f.makeSegments(ctx, chunks); err != nil {
		return nil, fmt.Errorf("open log %q of node %s: %w", path, node, err)
	}
	return f, nil
}

// WorkerLogs returns the paths of the workers' logs below their node's logs folder, without the extension that tells
// standard output from errors. Workers without a log of standard output, and rotated logs, are left out.
func (l *Set) WorkerLogs() map[rayid.Worker]string {
	files := make(map[rayid.Worker]string)
	for _, node := range l.Nodes() {
		for _, path := range l.Paths(node) {
			o, ok := logname.ParseOutput(path)
			if !ok || o.Stream != "out" || o.Rotated {
				continue
			}
			if worker, err := rayid.Parse[rayid.Worker](o.Worker); err == nil {
				files[worker] = strings.TrimSuffix(path, ".out")
			}
		}
	}
	return files
}
