package layout

import (
	"fmt"
	"strconv"
	"strings"
)

// Compression is how one chunk's bytes are stored.
type Compression uint8

const (
	Plain Compression = iota
	Gzip
	Zstd
)

// MaxChunk bounds one chunk in uncompressed bytes: collectors cut at this size at the latest, by default at 8 MiB, and
// readers take no more from a compressed one.
const MaxChunk = 64 << 20

// Ext is the compression's ending of a key: "", ".gz" or ".zst".
func (c Compression) Ext() string { return [...]string{"", ".gz", ".zst"}[c] }

// A stream (a log, one hour of a node's events or metrics) is stored as immutable chunks. The first chunk has the
// stream's own key, later ones `{key}.@{offset, 20 digits}`: keys in byte order are chunks in order. Versions of a
// snapshot have the same form, with Unix milliseconds in place of the offset, and versions of a note with their number.
const (
	chunkMark   = ".@"
	chunkDigits = 20
)

// ChunkKey is the key of the chunk that starts at offset, counted in uncompressed bytes of the stream. A compression's
// ending comes last.
//
// The key of a first chunk has an offset only where the stream's own key looks like a chunk's, or where LogChunkKey
// needs it.
func ChunkKey(stream string, offset int64, c Compression) string {
	if _, _, _, looksLikeChunk := ParseChunk(stream); offset == 0 && !looksLikeChunk {
		return stream + c.Ext()
	}
	return SpelledChunkKey(stream, offset, c)
}

// OffsetPrefix is what the keys of a stream's chunks start with that have an offset.
func OffsetPrefix(stream string) string { return stream + chunkMark }

// SpelledChunkKey is ChunkKey with the offset in the key even if it is 0. The first bytes of a log that was stored as
// an empty object while it was empty need it: the stream's own key is taken.
func SpelledChunkKey(stream string, offset int64, c Compression) string {
	return stream + chunkSuffix(offset) + c.Ext()
}

// LogChunkKey is ChunkKey for logs. A log's own name may end in .gz, so the first chunk of a compressed log has its
// offset in the key: an ending without an offset belongs to the log's name.
func LogChunkKey(stream string, offset int64, c Compression) string {
	if offset == 0 && c != Plain {
		return SpelledChunkKey(stream, offset, c)
	}
	return ChunkKey(stream, offset, c)
}

// ParseChunk splits a chunk's key into the stream's key, the offset and the compression. A key without an offset is the
// first chunk of its stream; hasOffset says whether the key has one.
func ParseChunk(key string) (stream string, offset int64, c Compression, hasOffset bool) {
	name := key
	if rest, ok := strings.CutSuffix(key, ".gz"); ok {
		name, c = rest, Gzip
	} else if rest, ok := strings.CutSuffix(key, ".zst"); ok {
		name, c = rest, Zstd
	}
	stream, offset, hasOffset = cutChunkSuffix(name)
	return stream, offset, c, hasOffset
}

func chunkSuffix(number int64) string { return fmt.Sprintf("%s%0*d", chunkMark, chunkDigits, number) }

// cutChunkSuffix is the inverse of chunkSuffix; found is false, and the name stays whole, if it has no such suffix.
func cutChunkSuffix(name string) (before string, number int64, found bool) {
	if i := len(name) - chunkDigits - len(chunkMark); i > 0 && name[i:i+len(chunkMark)] == chunkMark {
		if n, err := strconv.ParseUint(name[i+len(chunkMark):], 10, 63); err == nil {
			return name[:i], int64(n), true
		}
	}
	return name, 0, false
}

// ParseLogChunk is ParseChunk for the keys that LogChunkKey makes.
func ParseLogChunk(key string) (stream string, offset int64, c Compression) {
	stream, offset, c, hasOffset := ParseChunk(key)
	if !hasOffset {
		return key, 0, Plain // an ending is the log's own
	}
	return stream, offset, c
}

// regionBytes is more than a compressed chunk can have.
const regionBytes = 1 << 40

// NextRegion is where a stream of lines continues after a compressed chunk whose length its writer does not know. None
// of the chunk's bytes are there, and the bytes between are not missing.
func NextRegion(offset int64) int64 { return (offset | (regionBytes - 1)) + 1 }

// IsRegion says whether an offset is one that NextRegion returns.
func IsRegion(offset int64) bool { return offset > 0 && offset%regionBytes == 0 }
