// Package jsontext has what the readers of Ray's JSON share. They differ in what they make of the text: eventjson
// decodes events into columns, pyjson makes values that can be written as Python does, event only checks the grammar,
// and logline reads lines that may be cut.
package jsontext

import (
	"encoding/binary"
	"math/bits"
)

// StringEnd returns where the quote is that ends a string whose first byte is at i; -1 if there is none. Strings of
// events are short, so it looks at eight bytes at a time, which is faster here than bytes.IndexByte.
func StringEnd(b []byte, i int) int {
	const (
		ones    = 0x0101010101010101
		tops    = 0x8080808080808080
		quotes  = '"' * ones
		escapes = '\\' * ones
	)
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		q, e := w^quotes, w^escapes
		// The lowest top bit set is that of the first byte that is 0, so of the first quote or backslash.
		found := ((q-ones)&^q | (e-ones)&^e) & tops
		if found == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(found) / 8
		if b[i] == '"' {
			return i
		}
		i += 2 // the backslash and what it escapes
	}
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

// Unit reads the four hex digits after \u.
func Unit(s []byte) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, ch := range s[:4] {
		r <<= 4
		switch {
		case '0' <= ch && ch <= '9':
			r |= rune(ch - '0')
		case 'a' <= ch && ch <= 'f':
			r |= rune(ch - 'a' + 10)
		case 'A' <= ch && ch <= 'F':
			r |= rune(ch - 'A' + 10)
		default:
			return 0, false
		}
	}
	return r, true
}
