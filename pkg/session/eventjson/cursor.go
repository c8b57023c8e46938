package eventjson

import (
	"bytes"
	"math"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/pkg/ray/jsontext"
)

// cursor walks over one JSON text without allocating. Its methods return no errors: text that is not JSON, or ends too
// early, sets bad, and then every later step does nothing. So callers check once at the end. A value of another type
// than expected reads as absent.
//
// It accepts all JSON and refuses most other text; of numbers and words it checks only the characters.
type cursor struct {
	b   []byte // the text
	i   int    // the index of the next byte
	key []byte // set by next: the key as written, not unescaped (no key of an event has escapes)

	first bool // the next key or element is the first of its object or list
	none  bool // a null was entered: it has no key or element
	whole bool // the text ends where b does
	bad   bool
	short bool // bad because the text ended

	elements int // of lists, so far
}

// fail ends the walk: what is at c is no JSON or, if c is at its end, may go on behind it.
func (c *cursor) fail() {
	c.bad = true
	if c.i >= len(c.b) {
		c.short = true
	}
}

// peek skips white space and returns the next byte; 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\n', '\t', '\r':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

// enter steps into the object or list that the byte open begins, and reports whether there is one. Any other value
// reads as an empty one.
func (c *cursor) enter(open byte) bool {
	if c.bad {
		return false
	}
	if c.peek() == open {
		c.i++
		c.first = true
		return true
	}
	c.skip()
	c.none = true
	return false
}

// object steps into an object, for next to walk over its keys.
func (c *cursor) object() bool { return c.enter('{') }

// list steps into a list, for more to walk over its elements.
func (c *cursor) list() { c.enter('[') }

// more moves to the next element of a list; false after the last. The element must be read or skipped.
func (c *cursor) more() bool {
	if !c.nextElement(']') {
		return false
	}
	if c.elements++; c.elements > maxElements {
		c.bad = true
		return false
	}
	return true
}

// maxElements bounds the elements of all lists that are read of a text. In tables an element takes up to a hundred
// times its bytes in the event, which may have 16 MiB. Ray sends at most ten thousand in one event.
const maxElements = 1 << 16

// next moves to the next key of an object, which is then in c.key; false after the last. The value must be read or
// skipped.
func (c *cursor) next() bool {
	if !c.nextElement('}') {
		return false
	}
	if c.peek() != '"' {
		c.fail()
		return false
	}
	c.key = c.quoted()
	if c.peek() != ':' {
		c.fail()
		return false
	}
	c.i++
	return !c.bad
}

// nextElement goes to the next element of the object or list that was entered, whose closing bracket is end. It returns
// false after the last element, behind the bracket.
func (c *cursor) nextElement(end byte) bool {
	if c.bad {
		return false
	}
	if c.none {
		c.none = false
		return false
	}
	ch := c.peek()
	switch {
	case ch == end:
		c.i++
		c.first = false
		return false
	case c.first:
		c.first = false
		return true
	case ch == ',':
		c.i++
		return true
	}
	c.fail()
	return false
}

// rawString reads a string and returns the bytes between its quotes, not unescaped; nil if the value is no string.
func (c *cursor) rawString() []byte {
	if c.bad {
		return nil
	}
	if c.peek() != '"' {
		c.skip()
		return nil
	}
	return c.quoted()
}

// quoted reads the string whose opening quote is the next byte.
func (c *cursor) quoted() []byte {
	start := c.i + 1
	end := jsontext.StringEnd(c.b, start)
	if end == len(c.b) {
		c.i = end
		c.fail()
		return nil
	}
	c.i = end + 1
	return c.b[start:end]
}

// scalar reads a number, true, false, or the content of a string, not unescaped: protobuf's JSON writes 64-bit numbers
// as strings. null, an object or a list reads as nil.
func (c *cursor) scalar() []byte {
	if c.bad {
		return nil
	}
	switch c.peek() {
	case '"':
		return c.rawString()
	case '{', '[':
		c.skipNested()
		return nil
	}
	s := c.word()
	if string(s) == "null" {
		return nil
	}
	return s
}

// word reads a number, true, false or null. It takes all bytes that these consist of and does not check their order:
// what is none of the four reads as a value that the caller does not know.
func (c *cursor) word() []byte {
	start := c.i
	for c.i < len(c.b) && wordByte[c.b[c.i]] {
		c.i++
	}
	// A number that ends where b ends may be cut.
	if c.i == start || c.i == len(c.b) && !c.whole {
		c.fail()
		return nil
	}
	return c.b[start:c.i]
}

var wordByte = func() (t [256]bool) {
	for _, ch := range []byte("0123456789+-.eEaflnrstu") {
		t[ch] = true
	}
	return t
}()

// integer reads an integer, written as a number or as a string; 0 if the value is neither. One beyond int64 is the
// nearest int64.
func (c *cursor) integer() int64 {
	s := c.scalar()
	neg := len(s) > 0 && s[0] == '-'
	if neg {
		s = s[1:]
	}
	var n uint64
	for _, ch := range s {
		if ch < '0' || ch > '9' || n > (math.MaxInt64-9)/10 { // no digit, or n*10+9 would be beyond int64
			return wholeFloat(s, neg)
		}
		n = n*10 + uint64(ch-'0')
	}
	if neg {
		return -int64(n)
	}
	return int64(n)
}

// boolean reads true or false.
func (c *cursor) boolean() bool { return string(c.scalar()) == "true" }

// value skips a value and returns its text; nil for null.
func (c *cursor) value() []byte {
	c.peek()
	start := c.i
	c.skip()
	if c.bad || c.b[start] == 'n' {
		return nil
	}
	return c.b[start:c.i]
}

const maxDepth = 256 // of values that skip accepts; events nest less than ten deep

// skip skips a value of any kind.
func (c *cursor) skip() {
	if c.bad {
		return
	}
	switch c.peek() {
	case '"':
		c.rawString()
	case '{', '[':
		c.skipNested()
	default:
		c.word()
	}
}

// skipNested goes behind the object or list that begins at c. Of what is in it, only strings and brackets are checked.
// If these are wrong, or nested deeper than maxDepth, it fails, and c stands where that was seen.
func (c *cursor) skipNested() {
	var isList [maxDepth / 64]uint64 // a bit for each open bracket: set if it is a list's
	depth := 0
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case '"':
			c.rawString()
			if c.bad {
				return
			}
			continue
		case '{', '[':
			if depth == maxDepth {
				c.fail()
				return
			}
			bit := uint64(1) << (depth % 64)
			isList[depth/64] &^= bit
			if ch == '[' {
				isList[depth/64] |= bit
			}
			depth++
		case '}', ']':
			depth--
			if (isList[depth/64]>>(depth%64)&1 == 1) != (ch == ']') {
				c.fail()
				return
			}
			if depth == 0 {
				c.i++
				return
			}
		}
		c.i++
	}
	c.fail()
}

// unquote unescapes a raw string. It returns raw itself if there are no escapes, otherwise it uses buf. Invalid UTF-8
// and lone surrogates become U+FFFD; of what is no escape, only the backslash is left out.
func unquote(raw, buf []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return raw
	}
	buf = buf[:0]
	for i := 0; i < len(raw); {
		r, n := rune(raw[i]), 1
		switch {
		case r == '\\':
			var ok bool
			if r, n, ok = jsontext.Escape(raw[i:]); !ok {
				i++
				continue
			}
		case r >= utf8.RuneSelf:
			r, n = utf8.DecodeRune(raw[i:])
		}
		buf = utf8.AppendRune(buf, r)
		i += n
	}
	return buf
}
