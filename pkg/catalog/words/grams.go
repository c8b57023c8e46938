package words

import "encoding/binary"

// Grams tells, for each hash of four bytes, in which of 32 texts they are: bit i is that of text i. A word of which four bytes are missing
// does not occur there, so little is searched for a rare word, such as an ID.
type Grams [1 << gramBits]uint32

const (
	gramBits = 13 // 32 KiB, for about 10 KiB of each text
	gramLen  = 4
)

// Add adds some of a text.
func (g *Grams) Add(part []byte, text int) {
	for i := 0; i+gramLen <= len(part); i++ {
		g[gramHash(part[i:])] |= 1 << text
	}
}

// gramHash is of the first four bytes of a text.
func gramHash(text []byte) uint32 {
	return binary.LittleEndian.Uint32(text) * 0x9e3779b1 >> (32 - gramBits)
}

// May returns those in which a word may occur. Of words of less than four bytes it tells nothing: all.
func (g *Grams) May(word []byte) (all uint32) {
	all = ^uint32(0)
	for i := 0; i+gramLen <= len(word) && all != 0; i++ {
		all &= g[gramHash(word[i:])]
	}
	return all
}
