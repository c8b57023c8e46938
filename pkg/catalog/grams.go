package catalog

import "encoding/binary"

// gramSet has a bit for each hash of four bytes that occur in a text. A word of which one is missing does not occur there, so most blocks
// need not be searched for a rare word, such as an ID.
type gramSet [1 << gramBits / 64]uint64

const (
	gramBits = 16 // 8 KiB for a block's text of some 400 KiB
	gramLen  = 4
)

func gramsOf(text []byte) *gramSet {
	g := new(gramSet)
	for i := 0; i+gramLen <= len(text); i++ {
		h := gramHash(text[i:])
		g[h/64] |= 1 << (h % 64)
	}
	return g
}

// gramHash is of the first four bytes of a text.
func gramHash(text []byte) uint32 {
	return binary.LittleEndian.Uint32(text) * 0x9e3779b1 >> (32 - gramBits)
}

// may says whether a word may occur in the text.
func (g *gramSet) may(word []byte) bool {
	for i := 0; i+gramLen <= len(word); i++ {
		if h := gramHash(word[i:]); g[h/64]&(1<<(h%64)) == 0 {
			return false
		}
	}
	return true
}
