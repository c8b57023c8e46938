package ship

import (
	"io"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Source is one stream to store. Its methods are called from several goroutines, but only one chunk of a source is shipped at a time.
type Source interface {
	// Key returns the stream's key.
	Key() string
	// Resume is called before the first chunk, after any error, and when a key exists already. It says that a listing shows the bytes [0,
	// stored) of the stream.
	Resume(stored int64) error
	// Pending returns what to ship next: n bytes from offset, at most limit unless the stream cannot be cut there. n = 0 means nothing.
	// oldest is the arrival time of the first of them.
	Pending(limit int64) (offset, n int64, oldest time.Time)
	// Open reads the bytes [offset, offset+n) of the stream.
	Open(offset, n int64) (io.ReadSeekCloser, error)
	// Shipped says that the bytes before end are stored. The source may forget them.
	Shipped(end int64)
}

// restartingSource is a Source that may have been made again since its last chunk, and then has to be resumed.
type restartingSource interface {
	// Unresumed says that Resume was not called yet.
	Unresumed() bool
}

// rememberingSource is a Source that keeps no bytes that are stored, but knows how many there are.
type rememberingSource interface {
	// ResumeAfter is Resume if the listing does not show where the stored bytes end, only that it is not before stored. tried is the end of
	// the last chunk that was put, if that is remembered: all before it is stored if the source has nothing left of it.
	ResumeAfter(stored, tried int64) error
}

// Group is the sources of one kind.
type Group struct {
	// Name is the name of the kind in metrics and log lines.
	Name string
	// Sources lists the sources that may have something to ship. It is called often, so it should leave out those that have nothing.
	Sources func() []Source
	// Waiting returns the number of unstored bytes of all sources, and the arrival time of the oldest. It is called for the metrics. If it
	// is nil, the metrics leave the group out.
	Waiting     func() (bytes int64, oldest time.Time)
	Compression layout.Compression
	// Logs says that the streams are logs, whose chunks have other keys than those of events (layout.LogChunkKey). The streams of a node's
	// logs are then listed together, once, instead of one by one. Folders of events are shared with other nodes, so their streams are not.
	Logs bool
}

// chunkKey is the key of the stream's chunk at offset.
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

// folder returns the prefix of all streams that are listed together with this one: for a log, the key up to its node's folder. "" means
// none.
func (g *Group) folder(stream string) string {
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
