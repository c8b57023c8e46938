package catalog

import "encoding/binary"

// grams has, for each hash of four bytes, the texts (up to 32) that contain these bytes: bit i is text i. A word does
// not occur in a text that lacks four of its bytes. So few texts are searched for a rare word, such as an ID.
type grams [1 << gramBits]uint32

const (
	gramBits = 13 // 32 KiB in total, for texts of about 10 KiB each
	gramLen  = 4
)

// add adds a part of the text with this number, 0 to 31.
func (g *grams) add(part []byte, text int) {
	for i := 0; i+gramLen <= len(part); i++ {
		g[gramHash(part[i:])] |= 1 << text
	}
}

// gramHash returns the hash of the first four bytes of a text.
func gramHash(text []byte) uint32 {
	return binary.LittleEndian.Uint32(text) * 0x9e3779b1 >> (32 - gramBits)
}

// candidates returns the texts in which a word may occur: bit i stands for text i. For a word of less than four bytes
// these are all texts.
func (g *grams) candidates(word []byte) (all uint32) {
	all = ^uint32(0)
	for i := 0; i+gramLen <= len(word) && all != 0; i++ {
		all &= g[gramHash(word[i:])]
	}
	return all
}
