package catalog

import "encoding/binary"

// grams tells, for each hash of four bytes, which groups of a block's rows have them: bit i is that of group i. A word of which four bytes are missing
// does not occur there, so little is searched for a rare word, such as an ID.
type grams [1 << gramBits]uint32

const (
	groupRows = 64 // those of one number in a rowSet; 32 groups are a block
	gramBits  = 13 // 32 KiB for a block's text of some 300 KiB
	gramLen   = 4
)

// add adds a text of a group.
func (g *grams) add(text []byte, group int) {
	for i := 0; i+gramLen <= len(text); i++ {
		g[gramHash(text[i:])] |= 1 << group
	}
}

// gramHash is of the first four bytes of a text.
func gramHash(text []byte) uint32 {
	return binary.LittleEndian.Uint32(text) * 0x9e3779b1 >> (32 - gramBits)
}

// groups gives those in which a word may occur.
func (g *grams) groups(word []byte) (all uint32) {
	all = ^uint32(0)
	for i := 0; i+gramLen <= len(word) && all != 0; i++ {
		all &= g[gramHash(word[i:])]
	}
	return all
}
