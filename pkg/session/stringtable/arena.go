package stringtable

import "cmp"

// Arena holds byte strings that are never changed or freed one by one. Growing copies nothing.
type Arena struct {
	chunks [][]byte
	used   int // bytes used of the last chunk
	total  int64
	// Full says that a string could not be stored, because references cannot address more chunks. What Put returned for
	// it means nothing.
	Full  bool
	limit int // of chunks; 0 is maxArenaChunks
}

// Ref is where a byte string starts.
type Ref uint32

const (
	arenaChunkBits = 14
	arenaChunk     = 1 << arenaChunkBits
	maxArenaChunks = 1 << (32 - arenaChunkBits)
)

// Put stores a copy of s and returns where it is. A string longer than a chunk gets a chunk of its own. An arena that
// can have no more chunks stores nothing: it sets Full and returns 0, which is also the place of an empty string.
func (a *Arena) Put(s []byte) Ref {
	if len(s) == 0 {
		return 0
	}
	if len(a.chunks) == 0 || a.used+len(s) > len(a.chunks[len(a.chunks)-1]) {
		if len(a.chunks) == cmp.Or(a.limit, maxArenaChunks) {
			a.Full = true
			return 0
		}
		a.chunks = append(a.chunks, make([]byte, max(a.nextSize(), len(s))))
		a.total += int64(len(a.chunks[len(a.chunks)-1]))
		a.used = 0
	}
	ref := Ref(len(a.chunks)-1)<<arenaChunkBits | Ref(a.used)
	a.used += copy(a.chunks[len(a.chunks)-1][a.used:], s)
	return ref
}

// nextSize is the size of the next chunk: small sessions have small arenas.
func (a *Arena) nextSize() int {
	return min(arenaChunk, 512<<min(len(a.chunks), 8))
}

// Get returns the n bytes stored at ref.
func (a *Arena) Get(ref Ref, n int) []byte {
	if n == 0 {
		return nil
	}
	at := int(ref & (arenaChunk - 1))
	return a.chunks[ref>>arenaChunkBits][at : at+n : at+n]
}

// From returns the bytes from ref to the end of its chunk, for data that includes its own length.
func (a *Arena) From(ref Ref) []byte {
	return a.chunks[ref>>arenaChunkBits][ref&(arenaChunk-1):]
}

func (a *Arena) MemoryBytes() int64 { return a.total + int64(24*cap(a.chunks)) }
