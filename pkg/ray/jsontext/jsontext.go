// Package jsontext has what the readers of Ray's JSON share. They differ in what they make of the text: eventjson
// decodes events into columns, pyjson makes values that can be written as Python does, event only checks the grammar,
// logline reads lines that may be cut, and redact overwrites characters in place.
package jsontext

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// StringEnd returns where the quote is that ends a JSON string whose first byte, behind the opening quote, is at i;
// len(b) if it is not there. Strings of events are short, so it looks at eight bytes at a time, which is faster here
// than bytes.IndexByte.
func StringEnd(b []byte, i int) int {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		// The XOR makes a byte that is wanted 0, which is below 1.
		quote, slash := w^('"'*EachByte), w^('\\'*EachByte)
		found := (FirstBelow(quote, 1) | FirstBelow(slash, 1)) & HighBits
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
	return len(b)
}

// A word of eight bytes is searched at once: EachByte times a byte has it eight times, and HighBits has the high bit of
// each byte.
const (
	EachByte = 0x0101010101010101
	HighBits = 0x8080808080808080
)

// FirstBelow sets the high bit of the lowest of w's eight bytes that is less than n ≤ 128, and of no byte below that
// one. The bytes above it are undefined.
func FirstBelow(w, n uint64) uint64 { return (w - n*EachByte) &^ w }

// Escape decodes the escape sequence that b begins with, and returns the character and how many bytes the sequence has.
// ok is false if JSON has no such escape, or if b ends too early. Half a surrogate pair stands for U+FFFD.
func Escape(b []byte) (r rune, n int, ok bool) {
	if len(b) < 2 || b[0] != '\\' {
		return 0, 0, false
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2, true
	case 'n':
		return '\n', 2, true
	case 't':
		return '\t', 2, true
	case 'r':
		return '\r', 2, true
	case 'b':
		return '\b', 2, true
	case 'f':
		return '\f', 2, true
	}
	if r, ok = unit(b); !ok {
		return 0, 0, false
	}
	if utf16.IsSurrogate(r) {
		low, _ := unit(b[6:])
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			return r, 12, true
		}
	}
	return r, 6, true
}

// unit decodes the \u and four hex digits that b begins with: one unit of UTF-16.
func unit(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, ch := range b[2:6] {
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
