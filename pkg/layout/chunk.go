package layout

import (
	"fmt"
	"strings"
)

// Compression is how one chunk's bytes are stored.
type Compression uint8

const (
	Plain Compression = iota
	Gzip
	Zstd
)

// Ext is the compression's ending of a key: "", ".gz" or ".zst".
func (c Compression) Ext() string { return [...]string{"", ".gz", ".zst"}[c] }

// Whatever grows (a log, an hour's events) is stored as immutable chunks of a whole. The first lies under the whole's own key, later
// ones under `{key}.@{offset, 20 digits}`, so that keys in byte order are chunks in order. Versions of a snapshot use the same form
// with unix milliseconds for the offset.
const (
	chunkMark   = ".@"
	chunkDigits = 20
)

// ChunkKey is the key of the chunk of whole that starts at offset of its uncompressed bytes. A compression's ending comes last.
//
// The first chunk of a whole whose own name looks like a chunk's, and of a compressed log (see LogChunkKey), spells its offset too.
func ChunkKey(whole string, offset int64, c Compression) string {
	if offset == 0 && !looksLikeChunk(whole) {
		return whole + c.Ext()
	}
	return SpelledChunkKey(whole, offset, c)
}

// SpelledChunkKey is the key of a chunk with its offset spelled even if it is 0: for the first bytes of a log that was stored as an
// empty object when it was empty.
func SpelledChunkKey(whole string, offset int64, c Compression) string {
	return fmt.Sprintf("%s%s%020d%s", whole, chunkMark, offset, c.Ext())
}

// LogChunkKey is ChunkKey for logs. Logs may have names that end in .gz by themselves, so a compressed log's first chunk says its
// offset: an ending without one belongs to the name.
func LogChunkKey(whole string, offset int64, c Compression) string {
	if offset == 0 && c != Plain {
		return SpelledChunkKey(whole, offset, c)
	}
	return ChunkKey(whole, offset, c)
}

// ParseChunk splits a chunk's key into its whole, its offset and its compression; any key is at least its own whole's first chunk.
// explicit tells whether the key spelled an offset.
func ParseChunk(key string) (whole string, offset int64, c Compression, explicit bool) {
	name := key
	switch {
	case strings.HasSuffix(name, ".gz"):
		name, c = strings.TrimSuffix(name, ".gz"), Gzip
	case strings.HasSuffix(name, ".zst"):
		name, c = strings.TrimSuffix(name, ".zst"), Zstd
	}
	i := len(name) - chunkDigits - len(chunkMark)
	if i > 0 && name[i:i+len(chunkMark)] == chunkMark {
		if n, ok := parseOffset(name[i+len(chunkMark):]); ok {
			return name[:i], n, c, true
		}
	}
	return name, 0, c, false
}

func looksLikeChunk(key string) bool {
	_, _, _, explicit := ParseChunk(key)
	return explicit
}

func parseOffset(digits string) (n int64, ok bool) {
	for i := range len(digits) {
		d := digits[i]
		if d < '0' || d > '9' {
			return 0, false
		}
		if n > (1<<63-1-int64(d-'0'))/10 {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	return n, true
}
