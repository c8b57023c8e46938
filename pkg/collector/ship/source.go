// Package ship stores everything that grows, spooled events and log files alike, as immutable chunks.
//
// A whole is one growing sequence of bytes with a key of its own. It is stored as chunks: the first under the whole's key, later ones
// under keys that say the offset of their first byte (package layout). A chunk is created, never replaced, so a put that is repeated
// after a lost answer is harmless, and the listing is the checkpoint: where a chunk [offset, offset+size) ends, the next begins. All
// that a shipper remembers it may forget; after any error it does, and asks the store again.
//
// Listings tell a chunk's stored size, which for a compressed chunk is not its length. So the ledger, a file in the spool's folder,
// notes each compressed chunk before it is put: offset, length and stored size. A listed chunk that agrees with a note ends where the
// note says. One without a note (the folder was lost, or another collector stored it) has an unknown length of at least one byte: the
// whole goes on at its offset + 1. Nothing is lost by that. Events are whole lines, and readers take a line they have seen before as
// one; of a log, readers skip bytes of a chunk that the chunks before it held already.
package ship

import (
	"io"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Source is one whole that grows and is stored as chunks. Its methods may be called from several goroutines, though never two chunks
// of one source are under way at once.
type Source interface {
	// Whole is the key of the whole.
	Whole() string
	// Resume is called before the first chunk and again after any doubt (an error, a key that was taken): by a listing, the store holds
	// the bytes [0, stored) of the whole.
	Resume(stored int64) error
	// Pending says what may be shipped next: n bytes of the whole from offset, at most max and cut where the whole may be cut; n = 0 is
	// nothing. oldest is when the first of them came.
	Pending(max int64) (offset, n int64, oldest time.Time)
	// Open reads the bytes [offset, offset+n) of the whole.
	Open(offset, n int64) (io.ReadSeekCloser, error)
	// Shipped says that the bytes before end are stored: they may be forgotten.
	Shipped(end int64)
}

// Emptiable is a Source whose whole exists before it has a byte: a log file. An empty whole is stored as an empty object, so that readers
// know of it; its first bytes then go under a key that spells their offset.
type Emptiable interface {
	// Empty says that the whole has no byte, and that it is not stored either; since when it has been so.
	Empty() (since time.Time, ok bool)
	// Noted says that the whole is stored as empty.
	Noted()
}

// Group is sources of one kind.
type Group struct {
	// Name tells the kinds apart in metrics and log lines.
	Name string
	// Sources lists the sources that may have something to ship. It is called often, so it should leave out those that have not.
	Sources func() []Source
	// Waiting is how many bytes are not stored, of whichever source, and when the first of them came. It is asked for the metrics; without
	// it they leave the group out.
	Waiting     func() (bytes int64, oldest time.Time)
	Compression layout.Compression
	Naming      Naming
}

// Naming is how chunks of one kind of whole are named.
type Naming struct {
	// Key is the key of the chunk of whole at offset.
	Key func(whole string, offset int64, c layout.Compression) string
	// Parse is its inverse.
	Parse func(key string) (whole string, offset int64, c layout.Compression)
	// Folder is a prefix that a whole shares with others, which is listed once for all of them instead of once for each. "" is none.
	Folder func(whole string) string
}

// EventNames names the chunks of events and hardware figures. Their folders hold other nodes' wholes too, so each is listed by itself.
var EventNames = Naming{
	Key: layout.ChunkKey,
	Parse: func(key string) (string, int64, layout.Compression) {
		whole, offset, c, _ := layout.ParseChunk(key)
		return whole, offset, c
	},
	Folder: func(string) string { return "" },
}

// LogNames names the chunks of logs.
var LogNames = Naming{
	Key: layout.LogChunkKey,
	Parse: func(key string) (string, int64, layout.Compression) {
		whole, offset, c, explicit := layout.ParseChunk(key)
		if !explicit {
			return key, 0, layout.Plain // an ending is the log's own: see layout.LogChunkKey
		}
		return whole, offset, c
	},
	Folder: nodeLogs,
}

// nodeLogs is the part of a log's key up to its node's folder.
func nodeLogs(whole string) string {
	const nodeDigits = 2 * rayid.NodeSize
	for i := 1; i < len(whole); i++ {
		if whole[i-1] != '/' || i+nodeDigits >= len(whole) || whole[i+nodeDigits] != '/' {
			continue
		}
		if _, err := rayid.Parse[rayid.Node](whole[i : i+nodeDigits]); err == nil {
			return whole[:i+nodeDigits+1]
		}
	}
	return ""
}
