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
	if v, err = p.parseValue(0); err != nil {
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

// takeMemory counts memory before it is allocated.
func (p *parser) takeMemory(bytes int) error {
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

func (p *parser) accept(w string) bool {
	if len(p.data)-p.pos >= len(w) && string(p.data[p.pos:p.pos+len(w)]) == w {
		p.pos += len(w)
		return true
	}
	return false
}

// parseValue parses the value that is next, of any type, depth levels deep. Python also writes NaN and Infinity, which
// are no JSON.
func (p *parser) parseValue(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	switch c := p.peek(); {
	case c == '{':
		return p.parseObject(depth)
	case c == '[':
		return p.parseList(depth)
	case c == '"':
		return p.parseString()
	case p.accept("null"):
		return nil, nil
	case p.accept("true"):
		return true, nil
	case p.accept("false"):
		return false, nil
	case p.accept("NaN"):
		return Number("NaN"), nil
	case p.accept("Infinity"):
		return Number("Infinity"), nil
	case p.accept("-Infinity"):
		return Number("-Infinity"), nil
	case c == '-' || '0' <= c && c <= '9':
		return p.parseNumber()
	case p.pos >= len(p.data):
		return nil, errEnd
	}
	return nil, errValue
}

// parseNumber parses a number by JSON's grammar. Its value is a Number, which keeps the spelling.
func (p *parser) parseNumber() (any, error) {
	start := p.pos
	p.accept("-")
	digits := p.accept("0") || p.acceptDigits() // no digit may follow a leading 0
	if p.accept(".") {
		digits = digits && p.acceptDigits()
	}
	if p.accept("e") || p.accept("E") {
		if !p.accept("+") {
			p.accept("-")
		}
		digits = digits && p.acceptDigits()
	}
	if !digits {
		return nil, errValue
	}
	if err := p.takeMemory(textBytes + p.pos - start); err != nil {
		return nil, err
	}
	return Number(p.data[start:p.pos]), nil
}

func (p *parser) acceptDigits() bool {
	start := p.pos
	for p.pos < len(p.data) && '0' <= p.data[p.pos] && p.data[p.pos] <= '9' {
		p.pos++
	}
	return p.pos > start
}

// parseList parses a list, whose [ is next. It takes the memory of the list and its elements from the parser's limit.
func (p *parser) parseList(depth int) (any, error) {
	p.pos++
	if err := p.takeMemory(listBytes); err != nil {
		return nil, err
	}
	list := []any{}
	if p.peek() == ']' {
		p.pos++
		return list, nil
	}
	for {
		v, err := p.parseValue(depth + 1)
		if err == nil {
			err = p.takeMemory(elementBytes)
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

// parseObject parses an object, whose { is next. Its keys keep their order.
func (p *parser) parseObject(depth int) (any, error) {
	p.pos++
	if err := p.takeMemory(objectBytes); err != nil {
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
		key, err := p.parseKey()
		if err != nil {
			return nil, err
		}
		if p.peek() != ':' {
			return nil, errors.New("want : after a key")
		}
		p.pos++
		v, err := p.parseValue(depth + 1)
		if err == nil {
			err = p.takeMember(o)
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

// parseKey reads a member's name. Bytes that are not UTF-8 become U+FFFD here and not when they are written: names that
// are written the same are one name.
func (p *parser) parseKey() (string, error) {
	key, err := p.parseString()
	if err != nil || utf8.ValidString(key) {
		return key, err
	}
	if err := p.takeMemory(2 * len(key)); err != nil {
		return "", err
	}
	return string([]rune(key)), nil
}

// takeMember counts the memory of one more member of an object, and of the index that the object gets with it or has.
func (p *parser) takeMember(o *Object) error {
	bytes := memberBytes
	switch {
	case o.Len() == indexFrom:
		bytes += (indexFrom + 1) * indexedBytes
	case o.Len() > indexFrom:
		bytes += indexedBytes
	}
	return p.takeMemory(bytes)
}

// parseString parses a string, whose opening quote is next, and decodes its escapes. It takes the memory that the text
// needs from the parser's limit before it makes it. Bytes that are no UTF-8, and control characters, stay.
func (p *parser) parseString() (string, error) {
	start := p.pos + 1
	end := jsontext.StringEnd(p.data, start)
	if end == len(p.data) {
		p.pos = end
		return "", errEnd
	}
	rest := p.data[start:end]
	slash := bytes.IndexByte(rest, '\\')
	if slash < 0 {
		if err := p.takeMemory(textBytes + len(rest)); err != nil {
			return "", err
		}
		p.pos = end + 1
		return string(rest), nil
	}
	// The decoded text is no longer than its escaped form, and is copied once more, into the string.
	if err := p.takeMemory(textBytes + 2*len(rest)); err != nil {
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
