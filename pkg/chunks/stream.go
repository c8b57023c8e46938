package chunks

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Chunk is one stored object of a stream.
type Chunk struct {
	Object      blob.Object
	Offset      int64 // of its first byte in the stream, uncompressed
	Compression layout.Compression
}

// Stream lists the chunks of one stream.
type Stream struct {
	Key    string // what the keys of its chunks start with
	Kind   layout.Kind
	Chunks []Chunk // in the order of Sort

	bytes int64
}

// Add adds a listed object. Sort must follow before the stream is read.
func (s *Stream) Add(o layout.Object, object blob.Object) {
	s.Chunks = append(s.Chunks, Chunk{Object: object, Offset: o.Offset, Compression: o.Compression})
	s.bytes += object.Size
}

// Bytes is the stored size of the chunks that were added.
func (s *Stream) Bytes() int64 { return s.bytes }

// Sort orders the chunks by offset. Of several chunks at one offset plain ones come first, because their length is
// known.
func (s *Stream) Sort() {
	slices.SortFunc(s.Chunks, func(a, b Chunk) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Compression, b.Compression),
			cmp.Compare(a.Object.Key, b.Object.Key))
	})
}

// FirstKey is the key of the stream's first chunk in a compression. Compaction stores the whole stream there.
func (s *Stream) FirstKey(c layout.Compression) string {
	if s.Kind == layout.Log {
		return layout.LogChunkKey(s.Key, 0, c)
	}
	return layout.ChunkKey(s.Key, 0, c)
}

// chunksFrom returns the chunks that may have bytes at or after offset. A plain chunk ends where its size says; a
// compressed one, whose length is not known, is taken to end where one with a larger offset begins.
func (s *Stream) chunksFrom(offset int64) []Chunk {
	last := int64(0) // the offset of the last chunks that begin at or before offset
	for _, c := range s.Chunks {
		if c.Offset > offset {
			break
		}
		last = c.Offset
	}
	first := slices.IndexFunc(s.Chunks, func(c Chunk) bool {
		return c.Offset >= last || c.Compression == layout.Plain && c.Object.Size > offset-c.Offset
	})
	return s.Chunks[max(0, first):]
}

var (
	// ErrDamaged says that a chunk's content cannot be read.
	ErrDamaged = errors.New("damaged")
	// ErrChanged says that an object was replaced since it was listed.
	ErrChanged = errors.New("the object's size has changed since it was listed")
)

// Changed says whether the cause of an error is that an object was replaced or removed since it was listed.
func Changed(err error) bool { return errors.Is(err, ErrChanged) || errors.Is(err, os.ErrNotExist) }

// Gap is an error of Reader.Read: bytes of the stream are missing before the next ones.
type Gap struct {
	Key string // of the chunk that could not be read, else of the stream
	// From and To are the missing bytes [From, To). To is From if nothing follows in the stream.
	From, To int64
	// Err says what is wrong with the chunk: ErrDamaged, ErrChanged, blob.ErrArchived or os.ErrNotExist. It is nil if
	// no chunk holds the bytes.
	Err error
}

// What describes the error, without the key.
func (g *Gap) What() string {
	switch {
	case g.Err == nil:
		return fmt.Sprintf("bytes %d to %d are missing", g.From, g.To-1)
	case errors.Is(g.Err, os.ErrNotExist):
		return "was listed but is gone"
	case errors.Is(g.Err, ErrChanged):
		return "was replaced while it was read"
	case errors.Is(g.Err, blob.ErrArchived):
		return "is archived by the store: restore it"
	}
	return "is " + g.Err.Error()
}

func (g *Gap) Error() string {
	if g.Err == nil {
		return fmt.Sprintf("bytes %d to %d of %s are missing", g.From, g.To-1, g.Key)
	}
	return g.Key + " " + g.What()
}

func (g *Gap) Unwrap() error { return g.Err }
