package session

import (
	"math/bits"
	"unsafe"
)

// byteArena holds byte strings that are never changed or freed one by one. Growing copies nothing.
type byteArena struct {
	chunks [][]byte
	used   int // bytes used of the last chunk
	total  int64
}

// arenaRef is where a byte string starts.
type arenaRef uint32

const (
	arenaChunkBits = 14
	arenaChunk     = 1 << arenaChunkBits
)

// put stores a copy of s. A string longer than a chunk gets a chunk of its own.
func (a *byteArena) put(s []byte) arenaRef {
	if len(s) == 0 {
		return 0
	}
	if len(a.chunks) == 0 || a.used+len(s) > len(a.chunks[len(a.chunks)-1]) {
		a.chunks = append(a.chunks, make([]byte, max(a.next(), len(s))))
		a.total += int64(len(a.chunks[len(a.chunks)-1]))
		a.used = 0
	}
	ref := arenaRef(len(a.chunks)-1)<<arenaChunkBits | arenaRef(a.used)
	a.used += copy(a.chunks[len(a.chunks)-1][a.used:], s)
	return ref
}

// next is the size of the next chunk: small sessions have small arenas.
func (a *byteArena) next() int {
	return min(arenaChunk, 512<<min(len(a.chunks), 8))
}

// get gives the n bytes stored at ref.
func (a *byteArena) get(ref arenaRef, n int) []byte {
	if n == 0 {
		return nil
	}
	at := int(ref & (arenaChunk - 1))
	return a.chunks[ref>>arenaChunkBits][at : at+n : at+n]
}

// from gives the bytes from ref on, to the end of its chunk: for what tells its own length.
func (a *byteArena) from(ref arenaRef) []byte {
	return a.chunks[ref>>arenaChunkBits][ref&(arenaChunk-1):]
}

func (a *byteArena) memory() int64 { return a.total + int64(24*cap(a.chunks)) }

// list is an append-only list that never moves its elements. The first chunk holds listChunk elements, each later one as many as all
// before it, up to listMax.
type list[T any] struct {
	chunks [][]T
	n      int
}

const (
	listFirstBits = 5
	listMaxBits   = 11
)

// place finds the chunk of element i and its index there: chunk sizes double from 1<<listFirstBits until 1<<listMaxBits.
func place(i int) (chunk, at int) {
	const grown = 1<<listMaxBits - 1<<listFirstBits // elements in the chunks that were still growing
	if i >= grown {
		i -= grown
		return listMaxBits - listFirstBits + i>>listMaxBits, i & (1<<listMaxBits - 1)
	}
	i += 1 << listFirstBits
	top := bits.Len(uint(i)) - 1
	return top - listFirstBits, i - 1<<top
}

func (l *list[T]) add(v T) int {
	chunk, at := place(l.n)
	if chunk == len(l.chunks) {
		l.chunks = append(l.chunks, make([]T, 1<<min(listFirstBits+chunk, listMaxBits)))
	}
	l.chunks[chunk][at] = v
	l.n++
	return l.n - 1
}

func (l *list[T]) at(i int) *T {
	chunk, at := place(i)
	return &l.chunks[chunk][at]
}

func (l *list[T]) memory() int64 {
	var v T
	// The chunks before number k hold as many elements as the first place in k has before it.
	k := len(l.chunks)
	n := 1<<min(listFirstBits+k, listMaxBits) - 1<<listFirstBits + max(0, k-(listMaxBits-listFirstBits))<<listMaxBits
	return int64(n)*int64(unsafe.Sizeof(v)) + int64(24*cap(l.chunks))
}
