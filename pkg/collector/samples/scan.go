package samples

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/ray/jsontext"
)

// scanner reads one line: JSON, with its keys in the order in which an Encoder writes them. After an error it reads
// nothing more.
type scanner struct {
	data []byte
	at   int
	// inside says that an array or object was opened and nothing of it was read yet.
	inside bool
	err    error

	ctx   context.Context
	steps int // elements of arrays and objects
}

// stepsPerCheck is how many elements are read until the scanner looks again whether its context ended.
const stepsPerCheck = 4096

func (s *scanner) fail(what string) {
	if s.err == nil {
		s.err = errors.New(what)
	}
	s.at = len(s.data)
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

// expect reads one byte.
func (s *scanner) expect(c byte) {
	if s.peek() != c {
		s.fail("want " + string(rune(c)))
		return
	}
	s.at++
	s.inside = c == '[' || c == '{'
}

// more says whether an array or object that was opened has a further element, and reads the comma before it or the
// closing byte.
func (s *scanner) more(closing byte) bool {
	first := s.inside // the array or object was just opened
	s.inside = false
	if s.steps++; s.steps%stepsPerCheck == 0 && s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
	}
	switch c := s.peek(); {
	case s.err != nil:
		return false
	case c == closing:
		s.at++
		return false
	case first:
		return true
	case c == ',':
		s.at++
		return true
	}
	s.fail("want , or " + string(rune(closing)))
	return false
}

// key reads `,"name":`.
func (s *scanner) key(name string) {
	if !s.optionalKey(name) {
		s.fail("want " + name)
	}
}

// optionalKey skips a further member's key with its comma and colon. False: another key, or none, follows.
func (s *scanner) optionalKey(name string) bool {
	rest := s.data[s.at:]
	if n := len(name); len(rest) >= n+4 && rest[0] == ',' && rest[1] == '"' && string(rest[2:n+2]) == name &&
		rest[n+2] == '"' && rest[n+3] == ':' {
		s.at += n + 4
		return true
	}
	return false
}

func (s *scanner) expectEnd() {
	s.expect('}')
	if s.err == nil && s.at != len(s.data) && string(s.data[s.at:]) != "\n" {
		s.fail("want the end of the line")
	}
}

// integer reads a number from 0 to about 9e15.
func (s *scanner) integer() int {
	n, from := 0, s.at
	for ; s.at < len(s.data); s.at++ {
		c := s.data[s.at] - '0'
		if c > 9 {
			break
		}
		if n > 1e15 {
			s.fail("number too large")
			return 0
		}
		n = n*10 + int(c)
	}
	if s.at == from {
		s.fail("want a number")
	}
	return n
}

func (s *scanner) text() string { return string(s.textBytes()) }

// textBytes reads a string like text, but returns a part of the scanned data instead of a copy if it has no escapes.
func (s *scanner) textBytes() []byte {
	if s.peek() != '"' {
		s.fail("want a string")
		return nil
	}
	s.inside = false
	end := jsontext.StringEnd(s.data, s.at+1)
	if end == len(s.data) {
		s.fail("string without an end")
		return nil
	}
	spelled := s.data[s.at : end+1]
	s.at = end + 1
	if bytes.IndexByte(spelled, '\\') < 0 {
		return spelled[1 : len(spelled)-1]
	}
	var text string
	if err := json.Unmarshal(spelled, &text); err != nil {
		s.fail(err.Error())
	}
	return []byte(text)
}

// skipNumbers reads to the end of an array of numbers and values.
func (s *scanner) skipNumbers() {
	n := bytes.IndexByte(s.data[s.at:], ']')
	if n < 0 {
		s.fail("want ]")
		return
	}
	s.at += n + 1
}

func (s *scanner) skipValue() {
	for ; s.at < len(s.data); s.at++ {
		if c := s.data[s.at]; c == ',' || c == ']' {
			return
		}
	}
}

// value reads a number, or one of the strings that stand for the values that JSON lacks: NaN and the infinities.
func (s *scanner) value() float64 {
	from := s.at
	s.skipValue()
	switch word := s.data[from:s.at]; {
	case string(word) == `"NaN"`:
		return math.NaN()
	case string(word) == `"+Inf"`:
		return math.Inf(1)
	case string(word) == `"-Inf"`:
		return math.Inf(-1)
	default:
		v, err := strconv.ParseFloat(string(word), 64)
		if err != nil {
			s.fail("want a number")
		}
		return v
	}
}
