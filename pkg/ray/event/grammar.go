package event

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/pkg/ray/jsontext"
)

// Depths of nesting: the batch's array is at depth 1.
const (
	eventDepth = 2
	bodyDepth  = 3
	// maxDepth is encoding/json's.
	maxDepth = 10000
)

// Each method below checks one JSON token or value at index i (or, if its doc says so, i is behind its first byte), and
// returns the index behind it. A negative index says that s.err is set.

// skipSpace skips white space from i on, and returns where it ends. A line break in it sets s.multiline.
func (s *Scanner) skipSpace(i int) int {
	for ; i < len(s.b); i++ {
		switch s.b[i] {
		case ' ', '\t':
		case '\n', '\r':
			s.multiline = true
		default:
			return i
		}
	}
	return i
}

func (s *Scanner) failAt(i int, want string) int {
	s.fail(i, want)
	return -1
}

// valueEnd checks the JSON value that begins at i, depth levels deep. It returns where the value ends; negative if it
// is malformed.
func (s *Scanner) valueEnd(i, depth int) int {
	if i >= len(s.b) {
		return s.failAt(i, "want a value")
	}
	switch c := s.b[i]; c {
	case '"':
		end, _ := s.stringEnd(i + 1)
		return end
	case '{':
		return s.objectEnd(i+1, depth+1)
	case '[':
		return s.arrayEnd(i+1, depth+1)
	case 't':
		return s.literalEnd(i, "true")
	case 'f':
		return s.literalEnd(i, "false")
	case 'n':
		return s.literalEnd(i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.numberEnd(i)
	}
	return s.failAt(i, "want a value")
}

// objectEnd checks the object whose { is before i, and keeps the fields of the event and of its inner objects that are
// needed. It returns where the object ends; negative if it is malformed.
func (s *Scanner) objectEnd(i, depth int) int {
	if depth > maxDepth {
		return s.failAt(i-1, "want at most 10000 levels")
	}
	if i = s.skipSpace(i); i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(s.b) || s.b[i] != '"' {
			return s.failAt(i, "want a string for a key")
		}
		keyStart := i
		var escaped bool
		if i, escaped = s.stringEnd(i + 1); i < 0 {
			return i
		}
		key := s.b[keyStart:i]
		if i >= len(s.b) || s.b[i] != ':' {
			if i = s.skipSpace(i); i >= len(s.b) || s.b[i] != ':' {
				return s.failAt(i, "want a colon after a key")
			}
		}
		valueStart := s.skipSpace(i + 1)
		if i = s.valueEnd(valueStart, depth); i < 0 {
			return i
		}
		if depth <= bodyDepth {
			if escaped {
				key = decodeString(key)
			} else {
				key = key[1 : len(key)-1]
			}
			if depth == eventDepth {
				s.fields.keepOfEvent(key, s.b[valueStart:i])
			} else {
				s.fields.keepOfBody(key, s.b[valueStart:i])
			}
		}
		if i >= len(s.b) || s.b[i] != ',' {
			i = s.skipSpace(i)
			if i < len(s.b) && s.b[i] == '}' {
				return i + 1
			}
			if i >= len(s.b) || s.b[i] != ',' {
				return s.failAt(i, "want a comma or } after a value")
			}
		}
		i = s.skipSpace(i + 1)
	}
}

// arrayEnd checks the array whose [ is before i. It returns where the array ends; negative if it is malformed.
func (s *Scanner) arrayEnd(i, depth int) int {
	if depth > maxDepth {
		return s.failAt(i-1, "want at most 10000 levels")
	}
	if i = s.skipSpace(i); i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.valueEnd(i, depth); i < 0 {
			return i
		}
		i = s.skipSpace(i)
		switch {
		case i < len(s.b) && s.b[i] == ']':
			return i + 1
		case i < len(s.b) && s.b[i] == ',':
			i = s.skipSpace(i + 1)
		default:
			return s.failAt(i, "want a comma or ] after a value")
		}
	}
}

// literalEnd checks a word, such as true, at i. It returns where the word ends; negative if another one is there.
func (s *Scanner) literalEnd(i int, word string) int {
	for n := range len(word) {
		if i+n >= len(s.b) || s.b[i+n] != word[n] {
			return s.failAt(i+n, "want "+word)
		}
	}
	return i + len(word)
}

// numberEnd checks the number that begins at i with a digit or a minus. It returns where the number ends; negative if
// it is malformed.
func (s *Scanner) numberEnd(i int) int {
	if s.b[i] == '-' {
		i++
	}
	if i < len(s.b) && s.b[i] == '0' {
		i++
	} else if i = s.digitsEnd(i); i < 0 {
		return i
	}
	if i < len(s.b) && s.b[i] == '.' {
		if i = s.digitsEnd(i + 1); i < 0 {
			return i
		}
	}
	if i < len(s.b) && (s.b[i] == 'e' || s.b[i] == 'E') {
		i++
		if i < len(s.b) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		return s.digitsEnd(i)
	}
	return i
}

// digitsEnd checks one or more digits at i, and returns where they end; negative if there are none.
func (s *Scanner) digitsEnd(i int) int {
	if i >= len(s.b) || s.b[i]-'0' > 9 {
		return s.failAt(i, "want a digit")
	}
	for i++; i < len(s.b) && s.b[i]-'0' <= 9; {
		i++
	}
	return i
}

// stringEnd checks the string whose opening quote is before i, and returns where it ends; negative if it is malformed.
// escaped says that there is a backslash in it.
func (s *Scanner) stringEnd(i int) (end int, escaped bool) {
	b := s.b
	for {
		// Eight bytes at a time up to a quote, a backslash or a control character. The XOR makes a byte that is wanted
		// 0, which is below 1.
		for ; i+8 <= len(b); i += 8 {
			w := binary.LittleEndian.Uint64(b[i : i+8])
			quote, slash := w^('"'*jsontext.EachByte), w^('\\'*jsontext.EachByte)
			found := jsontext.FirstBelow(quote, 1) | jsontext.FirstBelow(slash, 1) | jsontext.FirstBelow(w, ' ')
			if found &= jsontext.HighBits; found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
		}
		for ; i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' '; i++ {
		}
		switch {
		case i >= len(b):
			return s.failAt(i, "want the end of a string"), false
		case b[i] == '"':
			return i + 1, escaped
		case b[i] < ' ':
			return s.failAt(i, "want no control character in a string"), false
		}
		escaped = true
		if i = s.escapeEnd(i + 1); i < 0 {
			return i, false
		}
	}
}

// isVerbatim says whether the bytes between a JSON string's quotes are its content as they are. They are not if there
// are escapes, or bytes beyond ASCII: those may not be UTF-8, and decoding replaces them then.
func isVerbatim(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		// A byte's high bit is set if it is beyond ASCII, or a backslash: the XOR makes that 0, which is below 1.
		if (w|jsontext.FirstBelow(w^('\\'*jsontext.EachByte), 1))&jsontext.HighBits != 0 {
			return false
		}
	}
	for _, c := range b {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// escapeEnd checks the escape whose backslash is before i. It returns where the escape ends; negative if it is
// malformed.
func (s *Scanner) escapeEnd(i int) int {
	if i >= len(s.b) {
		return s.failAt(i, "want an escape")
	}
	switch s.b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
	default:
		return s.failAt(i, "want an escape that JSON has")
	}
	for end := i + 4; i < end; {
		i++
		if i >= len(s.b) || !hexDigit(s.b[i]) {
			return s.failAt(i, "want four hex digits after \\u")
		}
	}
	return i + 1
}

func hexDigit(c byte) bool {
	return c-'0' <= 9 || (c|0x20)-'a' <= 'f'-'a'
}
