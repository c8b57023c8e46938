package stringtable

import (
	"math/bits"
	"unsafe"
)

// List is an append-only list that never moves its elements. The first chunk holds 1<<listFirstBits elements, each
// later one twice as many, up to 1<<listMaxBits.
type List[T any] struct {
	chunks [][]T
	n      int
}

const (
	listFirstBits = 5
	listMaxBits   = 11
)

// placeOf finds the chunk of element i and its index there: chunk sizes double from 1<<listFirstBits until
// 1<<listMaxBits.
func placeOf(i int) (chunk, at int) {
	const grown = 1<<listMaxBits - 1<<listFirstBits // elements in the chunks that were still growing
	if i >= grown {
		i -= grown
		return listMaxBits - listFirstBits + i>>listMaxBits, i & (1<<listMaxBits - 1)
	}
	i += 1 << listFirstBits
	top := bits.Len(uint(i)) - 1
	return top - listFirstBits, i - 1<<top
}

// Add appends a value and returns its index.
func (l *List[T]) Add(v T) int {
	chunk, at := placeOf(l.n)
	if chunk == len(l.chunks) {
		l.chunks = append(l.chunks, make([]T, 1<<min(listFirstBits+chunk, listMaxBits)))
	}
	l.chunks[chunk][at] = v
	l.n++
	return l.n - 1
}

// Len is how many elements there are.
func (l *List[T]) Len() int { return l.n }

func (l *List[T]) At(i int) *T {
	chunk, at := placeOf(i)
	return &l.chunks[chunk][at]
}

// MemoryBytes is the memory of all chunks, also of places that are not used yet.
func (l *List[T]) MemoryBytes() int64 {
	var v T
	// The chunks before number k hold as many elements as the first place in k has before it.
	k := len(l.chunks)
	n := 1<<min(listFirstBits+k, listMaxBits) - 1<<listFirstBits + max(0, k-(listMaxBits-listFirstBits))<<listMaxBits
	return int64(n)*int64(unsafe.Sizeof(v)) + int64(24*cap(l.chunks))
}
