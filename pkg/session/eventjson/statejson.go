package eventjson

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
)

// JSON that is only passed on is kept as Ray's State API answers it, so that answering is copying. So what turns out to
// be no JSON, or to have numbers that JSON lacks, is left out: one such value would make a whole answer unreadable.

// jsonTexts interns such JSON by the JSON of events.
type jsonTexts struct {
	cache textCache
	// append writes the value at c as the State API does; nothing where it is empty.
	append func(b []byte, c *cursor) []byte
}

// json interns a value; 0 where it is absent or empty.
func (d *Decoder) json(t *jsonTexts, raw []byte) stringtable.ID {
	if len(raw) == 0 {
		return 0
	}
	if id, ok := t.cache.get(raw); ok {
		return id
	}
	c := cursor{b: raw, whole: true}
	if d.build = t.append(d.build[:0], &c); !json.Valid(d.build) {
		d.build = d.build[:0]
	}
	return t.cache.put(raw, d.strings.Intern(d.build))
}

type member struct{ key, value []byte }

// members reads an object's keys and values, sorted by key: a map of protobuf comes in any order. Of repeated keys the
// last one counts.
func members(c *cursor) []member {
	var all []member
	c.object()
	for c.next() {
		key := bytes.Clone(unquote(c.key, nil))
		all = append(all, member{key, c.value()})
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	return slices.CompactFunc(all, func(a, b member) bool { return bytes.Equal(a.key, b.key) })
}

// appendMap writes a map of protobuf; nothing if it is empty.
func appendMap(b []byte, c *cursor, appendValue func([]byte, *cursor) []byte) []byte {
	all := members(c)
	if len(all) == 0 {
		return b
	}
	b = append(b, '{')
	for n, m := range all {
		b = appendComma(b, n)
		b = pyjson.AppendString(b, string(m.key))
		b = append(b, ": "...)
		b = appendValue(b, &cursor{b: m.value, whole: true})
	}
	return append(b, '}')
}

// appendNumbers writes a map of doubles.
func appendNumbers(b []byte, c *cursor) []byte {
	return appendMap(b, c, func(b []byte, c *cursor) []byte { return pyjson.AppendFloat(b, c.finite()) })
}

// appendStrings writes a map of strings.
func appendStrings(b []byte, c *cursor) []byte {
	return appendMap(b, c, func(b []byte, c *cursor) []byte { return appendString(b, c.rawString()) })
}

func appendString(b, raw []byte) []byte { return pyjson.AppendString(b, string(unquote(raw, nil))) }

// appendValue writes any value as Python's json module does; key spells an object's keys.
func appendValue(b []byte, c *cursor, key func([]byte) []byte) []byte {
	switch c.peek() {
	case '{':
		b = append(b, '{')
		c.object()
		for n := 0; c.next(); n++ {
			b = appendComma(b, n)
			b = appendString(b, key(c.key))
			b = append(b, ": "...)
			b = appendValue(b, c, key)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		c.list()
		for n := 0; c.more(); n++ {
			b = appendComma(b, n)
			b = appendValue(b, c, key)
		}
		return append(b, ']')
	case '"':
		return appendString(b, c.rawString())
	}
	return appendWord(b, c.word())
}

// appendComma separates element n from the one before it.
func appendComma(b []byte, n int) []byte {
	if n > 0 {
		b = append(b, ", "...)
	}
	return b
}

// appendWord writes a number, true, false or null. Python reads what has a point or an exponent as a float.
func appendWord(b, word []byte) []byte {
	if bytes.ContainsAny(word, ".eE") {
		if f, err := strconv.ParseFloat(string(word), 64); err == nil {
			return pyjson.AppendFloat(b, f)
		}
	}
	return append(b, word...)
}

// appendSnakeCase writes a message of protobuf with the names its definition has.
func appendSnakeCase(b []byte, c *cursor) []byte { return appendValue(b, c, snakeCase) }

func snakeCase(name []byte) []byte {
	var out []byte
	for _, ch := range name {
		if 'A' <= ch && ch <= 'Z' {
			out = append(out, '_', ch+'a'-'A')
		} else {
			out = append(out, ch)
		}
	}
	return out
}

// appendMessage writes a message of protobuf with camelCase keys, sorted. The event may have either spelling, in any
// order.
func appendMessage(b []byte, c *cursor) []byte {
	switch c.peek() {
	case '{':
		b = append(b, '{')
		for n, m := range members(c) {
			b = appendComma(b, n)
			b = pyjson.AppendString(b, fieldName(string(m.key)))
			b = append(b, ": "...)
			b = appendMessage(b, &cursor{b: m.value, whole: true})
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		c.list()
		for n := 0; c.more(); n++ {
			b = appendComma(b, n)
			b = appendMessage(b, c)
		}
		return append(b, ']')
	}
	if len(c.b) == 0 {
		return append(b, "null"...) // as members gives it
	}
	return appendValue(b, c, sameName)
}

func sameName(name []byte) []byte { return name }

// float reads a number, spelled as one or as a string; 0 if it is none.
func (c *cursor) float() float64 {
	f, err := strconv.ParseFloat(string(c.scalar()), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0
	}
	return f
}

// extraData interns a profile event's extra data, JSON in a string, with the task's own ID taken out.
func (d *Decoder) extraData(raw []byte) stringtable.ID {
	if len(raw) <= len("{}") {
		return 0
	}
	var own [2 * rayid.TaskSize]byte
	hex.Encode(own[:], d.update.ID[:])
	d.build = append(d.build[:0], raw...)
	if i := bytes.Index(raw, own[:]); i >= 0 {
		d.build = append(append(append(d.build[:0], raw[:i]...), OwnIDMark), raw[i+len(own):]...)
	}
	if id, ok := d.extras.get(d.build); ok {
		return id
	}
	key := bytes.Clone(d.build)
	d.build = d.build[:0]
	c := cursor{b: d.unquote(raw), whole: true}
	// Ray's own dashboard answers with an error if it is no object; here it is left out.
	if object := c.value(); len(object) > len("{}") && object[0] == '{' && !c.bad {
		if d.build = appendValue(d.build, &cursor{b: object, whole: true}, sameName); !json.Valid(d.build) {
			d.build = d.build[:0]
		}
		d.build = bytes.ReplaceAll(d.build, own[:], []byte{OwnIDMark})
	}
	return d.extras.put(key, d.strings.Intern(d.build))
}

// anyBinary interns an identifier of any width by its bytes, Ray's nil too.
func (d *Decoder) anyBinary(raw []byte) stringtable.ID {
	if id, ok := d.anyBinaries.get(raw); ok || len(raw) == 0 {
		return id
	}
	spelled := unquote(raw, nil)
	id, err := hex.DecodeString(string(spelled))
	if err != nil {
		id, err = base64.StdEncoding.DecodeString(string(spelled))
	}
	if err != nil {
		id = nil
	}
	return d.anyBinaries.put(raw, d.strings.Intern(id))
}
