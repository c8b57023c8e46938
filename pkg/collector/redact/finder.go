package redact

import (
	"encoding/binary"
	"math"
	"strings"
)

// finder looks for many literals in one pass. Each of them is looked for at a pair of neighbouring bytes that is rare
// in logs, or at two such pairs next to each other: then only every second pair of the data needs a look, because it is
// one of the two. ASCII letters match in either case.
type finder struct {
	stride int                // 1, or 2 if all literals have more than two bytes
	marked [1 << 16]uint8     // by pair: the group of literals that have it; 0: none
	groups [256][]wantedPlace // several pairs may share one; none is in group 0
	reach  int                // the largest offset of a pair in its literal
}

// wantedPlace is a literal that has a pair at an offset.
type wantedPlace struct {
	text   string
	offset int
	rules  uint64
}

// newFinder makes a finder of literals, which are in lower case and have at least two bytes each. The value of a
// literal is the set of rules that need it, a bit for each. Of each literal it marks the rarest pair, or the rarest two
// next to each other, with all spellings in capital and small letters.
func newFinder(literals map[string]uint64) *finder {
	f := &finder{stride: 2}
	for text := range literals {
		f.stride = min(f.stride, len(text)-1)
	}
	pairs := 0
	for text, rules := range literals {
		rarest := 0
		for offset := range len(text) - f.stride {
			if f.commonness(text[offset:]) < f.commonness(text[rarest:]) {
				rarest = offset
			}
		}
		for offset := rarest; offset < rarest+f.stride; offset++ {
			groups := make(map[uint8]bool) // the literal's pairs in either case may share one
			for _, a := range bothCases(text[offset]) {
				for _, b := range bothCases(text[offset+1]) {
					group := &f.marked[binary.LittleEndian.Uint16([]byte{a, b})]
					if *group == 0 { // a new pair: the groups are given in turn
						*group = uint8(1 + pairs%(len(f.groups)-1))
						pairs++
					}
					groups[*group] = true
				}
			}
			for group := range groups {
				f.groups[group] = append(f.groups[group], wantedPlace{text, offset, rules})
			}
			f.reach = max(f.reach, offset)
		}
	}
	return f
}

// common are the bytes of logs and JSON, in lower case, the most common first.
const common = "e\"t as0in2or:m1d,cl/_up-f357.6=4g98kbvywh'x{}zj^q[]()+\\><&?;*%`#~!"

// commonness estimates how often the pairs occur in logs at which a literal would be found that begins like text. Only
// comparisons of two results have a meaning: each rank in the list of common characters is taken to be 6 % rarer.
func (f *finder) commonness(text string) (sum float64) {
	share := func(c byte) float64 {
		rank := strings.IndexByte(common, c)
		if rank < 0 {
			rank = len(common)
		}
		return math.Exp(-float64(rank) / 15)
	}
	for i := range f.stride {
		sum += share(text[i]) * share(text[i+1])
	}
	return sum
}

// bothCases are a lower-case byte and its capital letter, if it has one.
func bothCases(c byte) []byte {
	if c >= 'a' && c <= 'z' {
		return []byte{c, c - 'a' + 'A'}
	}
	return []byte{c}
}

// nextLiteral returns where the first literal in b begins that begins at or after from; len(b) if there is none. After
// one was found it looks on as far as the marked pair of an earlier one may be. A nil finder finds none.
func (f *finder) nextLiteral(b []byte, from int) (at int) {
	at = len(b)
	if f == nil {
		return at
	}
	for i := f.nextMarked(b, from); i < len(b)-1 && i <= at+f.reach; i = f.nextMarked(b, i+f.stride) {
		for _, w := range f.groups[f.marked[binary.LittleEndian.Uint16(b[i:])]] {
			start := i - w.offset
			if start >= from && start < at && beginsWith(b[start:], w.text) {
				at = start
			}
		}
	}
	return at
}

// rulesIn returns the set of rules that have a literal in b. A literal is looked for where b has one of its marked
// pairs: w.offset is the pair's place in the literal.
func (f *finder) rulesIn(b []byte) (rules uint64) {
	if f == nil {
		return 0
	}
	for i := f.nextMarked(b, 0); i < len(b)-1; i = f.nextMarked(b, i+f.stride) {
		for _, w := range f.groups[f.marked[binary.LittleEndian.Uint16(b[i:])]] {
			if start := i - w.offset; start >= 0 && w.rules&^rules != 0 && beginsWith(b[start:], w.text) {
				rules |= w.rules
			}
		}
	}
	return rules
}

// nextMarked returns where the next pair of bytes is that some literal has. It looks only at the pairs at i, i+stride,
// i+2*stride and so on. If there is none, it returns at least len(b)-1.
func (f *finder) nextMarked(b []byte, i int) int {
	m := &f.marked
	// Four pairs at once, as long as none of them is marked.
	for ; f.stride == 2 && i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		if m[uint16(v)]|m[uint16(v>>16)]|m[uint16(v>>32)]|m[uint16(v>>48)] != 0 {
			break
		}
	}
	for i < len(b)-1 && m[binary.LittleEndian.Uint16(b[i:])] == 0 {
		i += f.stride
	}
	return i
}

// beginsWith says whether b begins with a text in lower case.
func beginsWith(b []byte, text string) bool {
	if len(b) < len(text) {
		return false
	}
	for i := range len(text) {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != text[i] {
			return false
		}
	}
	return true
}
