package pyjson

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/pkg/ray/jsontext"
)

// maxDepth bounds nesting, so that no input can exhaust the stack.
const maxDepth = 500

// ErrTooLarge says that a value would take more memory than it may.
var ErrTooLarge = errors.New("too large")

// Parse reads one JSON value, and NaN and Infinity where Python writes them. Errors name the offset.
func Parse(data []byte) (any, error) {
	v, _, err := ParseWithin(data, math.MaxInt64)
	return v, err
}

// ParseWithin is Parse for a value that takes at most about so many bytes of memory beside data; one that takes more is
// ErrTooLarge. It tells how many it takes: from the text's length one cannot know, for [{},{},… takes some thirty times
// as much.
func ParseWithin(data []byte, limit int64) (v any, bytes int64, err error) {
	p := parser{data: data, left: limit}
	if v, err = p.value(0); err != nil {
		return nil, 0, fmt.Errorf("parse JSON at byte %d: %w", p.pos, err)
	}
	if p.space(); p.pos != len(data) {
		return nil, 0, fmt.Errorf("parse JSON at byte %d: more after the value", p.pos)
	}
	return v, limit - p.left, nil
}

// ParseObject is Parse for data that is an object.
func ParseObject(data []byte) (*Object, error) {
	v, err := Parse(data)
	if err != nil {
		return nil, err
	}
	o, ok := v.(*Object)
	if !ok {
		return nil, fmt.Errorf("parse JSON: %T where an object is wanted", v)
	}
	return o, nil
}

type parser struct {
	data []byte
	pos  int
	left int64 // bytes of memory
}

// What values take in memory, in bytes, slices that are grown by half more than they need included.
const (
	objectBytes  = 64
	memberBytes  = 56 // of an object, without the key's text
	indexedBytes = 64 // more, in an object that has an index
	listBytes    = 24
	elementBytes = 32 // of a list
	textBytes    = 16 // of a string or number, without its characters
)

// take counts memory before it is allocated.
func (p *parser) take(bytes int) error {
	if p.left -= int64(bytes); p.left < 0 {
		return ErrTooLarge
	}
	return nil
}

var (
	errEnd    = errors.New("unexpected end")
	errValue  = errors.New("not a value")
	errEscape = errors.New("not an escape")
	errDepth  = fmt.Errorf("nested more than %d deep", maxDepth)
)

// space skips white space.
func (p *parser) space() {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	p.space()
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

func (p *parser) word(w string) bool {
	if len(p.data)-p.pos >= len(w) && string(p.data[p.pos:p.pos+len(w)]) == w {
		p.pos += len(w)
		return true
	}
	return false
}

// value parses the value that is next, of any type, depth levels deep. Python also writes NaN and Infinity, which are
// no JSON.
func (p *parser) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.list(depth)
	case c == '"':
		return p.str()
	case p.word("null"):
		return nil, nil
	case p.word("true"):
		return true, nil
	case p.word("false"):
		return false, nil
	case p.word("NaN"):
		return Number("NaN"), nil
	case p.word("Infinity"):
		return Number("Infinity"), nil
	case p.word("-Infinity"):
		return Number("-Infinity"), nil
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case p.pos >= len(p.data):
		return nil, errEnd
	}
	return nil, errValue
}

// number parses a number and keeps its spelling.
func (p *parser) number() (any, error) {
	start := p.pos
	p.word("-")
	digits := p.word("0") || p.digits() // no digit may follow a leading 0
	if p.word(".") {
		digits = digits && p.digits()
	}
	if p.word("e") || p.word("E") {
		if !p.word("+") {
			p.word("-")
		}
		digits = digits && p.digits()
	}
	if !digits {
		return nil, errValue
	}
	if err := p.take(textBytes + p.pos - start); err != nil {
		return nil, err
	}
	return Number(p.data[start:p.pos]), nil
}

func (p *parser) digits() bool {
	start := p.pos
	for p.pos < len(p.data) && '0' <= p.data[p.pos] && p.data[p.pos] <= '9' {
		p.pos++
	}
	return p.pos > start
}

// list parses a list, whose [ is next. It takes the memory of the list and its elements from the parser's limit.
func (p *parser) list(depth int) (any, error) {
	p.pos++
	if err := p.take(listBytes); err != nil {
		return nil, err
	}
	list := []any{}
	if p.peek() == ']' {
		p.pos++
		return list, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err == nil {
			err = p.take(elementBytes)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		switch p.peek() {
		case ',':
			p.pos++
		case ']':
			p.pos++
			return list, nil
		default:
			return nil, errors.New("want , or ] in a list")
		}
	}
}

// object parses an object, whose { is next. Its keys keep their order.
func (p *parser) object(depth int) (any, error) {
	p.pos++
	if err := p.take(objectBytes); err != nil {
		return nil, err
	}
	o := &Object{}
	if p.peek() == '}' {
		p.pos++
		return o, nil
	}
	for {
		if p.peek() != '"' {
			return nil, errors.New("want a quoted key in an object")
		}
		key, err := p.key()
		if err != nil {
			return nil, err
		}
		if p.peek() != ':' {
			return nil, errors.New("want : after a key")
		}
		p.pos++
		v, err := p.value(depth + 1)
		if err == nil {
			err = p.member(o)
		}
		if err != nil {
			return nil, err
		}
		o.Set(key, v)
		switch p.peek() {
		case ',':
			p.pos++
		case '}':
			p.pos++
			return o, nil
		default:
			return nil, errors.New("want , or } in an object")
		}
	}
}

// key reads a member's name. Bytes that are not UTF-8 become U+FFFD here and not when they are written: names that are
// written the same are one name.
func (p *parser) key() (string, error) {
	key, err := p.str()
	if err != nil || utf8.ValidString(key) {
		return key, err
	}
	if err := p.take(2 * len(key)); err != nil {
		return "", err
	}
	return string([]rune(key)), nil
}

// member counts the memory of one more member of an object, and of the index that the object gets with it or has.
func (p *parser) member(o *Object) error {
	bytes := memberBytes
	switch {
	case o.Len() == indexFrom:
		bytes += (indexFrom + 1) * indexedBytes
	case o.Len() > indexFrom:
		bytes += indexedBytes
	}
	return p.take(bytes)
}

// str parses a string, whose opening quote is next.
func (p *parser) str() (string, error) {
	start := p.pos + 1
	end := jsontext.StringEnd(p.data, start)
	if end == len(p.data) {
		p.pos = end
		return "", errEnd
	}
	rest := p.data[start:end]
	slash := bytes.IndexByte(rest, '\\')
	if slash < 0 {
		if err := p.take(textBytes + len(rest)); err != nil {
			return "", err
		}
		p.pos = end + 1
		return string(rest), nil
	}
	// The decoded text is no longer than its escaped form, and is copied once more, into the string.
	if err := p.take(textBytes + 2*len(rest)); err != nil {
		return "", err
	}
	out := make([]byte, 0, len(rest))
	for ; slash >= 0; slash = bytes.IndexByte(rest, '\\') {
		c, n, ok := jsontext.Escape(rest[slash:])
		if !ok {
			p.pos = end - len(rest) + slash
			return "", errEscape
		}
		out = utf8.AppendRune(append(out, rest[:slash]...), c)
		rest = rest[slash+n:]
	}
	p.pos = end + 1
	return string(append(out, rest...)), nil
}
