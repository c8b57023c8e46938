package eventjson

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
)

// JSON that is only passed on is kept as Ray's State API answers it, so that answering is copying. So what turns out to
// be no JSON, or to have numbers that JSON lacks, is left out: one such value would make a whole answer unreadable.

// jsonTexts interns such JSON by the JSON of events.
type jsonTexts struct {
	cache textCache
	// restate makes of a value what the State API answers; nil where that is nothing.
	restate func(v any) any
}

// internJSON interns a value; 0 where it is absent or empty.
func (d *Decoder) internJSON(t *jsonTexts, raw []byte) stringtable.ID {
	if len(raw) == 0 {
		return 0
	}
	if id, ok := t.cache.get(raw); ok {
		return id
	}
	d.build = appendRestated(d.build[:0], raw, t.restate)
	return t.cache.put(raw, d.strings.Intern(d.build))
}

// maxValue bounds the memory of a value while it is written. An event may have 16 MiB, of which values that matter have
// a few kilobytes.
const maxValue = 32 << 20

// appendRestated appends, as JSON, what restate makes of the value in raw, JSON too. It appends nothing if restate
// returns nil, or if raw or the result is not valid JSON.
func appendRestated(b, raw []byte, restate func(any) any) []byte {
	v, _, err := pyjson.ParseWithin(raw, maxValue)
	if err == nil {
		v = restate(v)
	}
	if v == nil {
		return b
	}
	if text := pyjson.Append(b, v); json.Valid(text[len(b):]) {
		return text
	}
	return b
}

// restateMap returns a function that makes a map of a parsed JSON object, with value applied to each of its values; nil
// if it is given an empty object, or none.
func restateMap[V any](value func(any) V) func(any) any {
	return func(v any) any {
		object, _ := v.(*pyjson.Object)
		if object.Len() == 0 {
			return nil
		}
		all := make(map[string]V, object.Len())
		for key, v := range object.All() {
			all[key] = value(v)
		}
		return all
	}
}

// double reads a number, spelled as one or as a string.
func double(v any) float64 {
	switch v := v.(type) {
	case pyjson.Number:
		return finiteNumber(string(v))
	case string:
		return finiteNumber(v)
	}
	return 0
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// asPython returns a parsed JSON value as Python's json module would write it after reading it: a number with a point
// or an exponent is a float. name spells the keys of objects. Lists are changed in place.
func asPython(v any, name func(string) string) any {
	switch v := v.(type) {
	case *pyjson.Object:
		o := &pyjson.Object{}
		for key, value := range v.All() {
			o.Set(name(key), asPython(value, name))
		}
		return o
	case []any:
		for i := range v {
			v[i] = asPython(v[i], name)
		}
	case pyjson.Number:
		if f, err := strconv.ParseFloat(string(v), 64); err == nil && strings.ContainsAny(string(v), ".eE") {
			return f
		}
	}
	return v
}

// snakeCase gives a message of protobuf the names that its definition has.
func snakeCase(v any) any { return asPython(v, SnakeCase) }

// SnakeCase turns a name in camelCase into snake_case.
func SnakeCase(name string) string {
	var out []byte
	for _, ch := range []byte(name) {
		if 'A' <= ch && ch <= 'Z' {
			out = append(out, '_', ch+'a'-'A')
		} else {
			out = append(out, ch)
		}
	}
	return string(out)
}

// camelCase gives a message of protobuf camelCase keys, sorted: an event may have either spelling, in any order.
func camelCase(v any) any {
	switch v := v.(type) {
	case *pyjson.Object:
		sorted := make(map[string]any, v.Len())
		for key, value := range v.All() {
			sorted[fieldName(key)] = camelCase(value)
		}
		return sorted
	case []any:
		for i := range v {
			v[i] = camelCase(v[i])
		}
		return v
	}
	return asPython(v, sameName)
}

func sameName(name string) string { return name }

// nonemptyObject returns a value as Python would write it if it is an object that is not empty, otherwise nil. Ray's
// own dashboard answers with an error if a profile event's extra data is no object; here it is left out.
func nonemptyObject(v any) any {
	if o, ok := v.(*pyjson.Object); ok && o.Len() > 0 {
		return asPython(o, sameName)
	}
	return nil
}

// extraData interns a profile event's extra data, JSON in a string, as Ray shows it. The task's own ID is replaced by
// OwnIDMark, so that the texts of many tasks are one string.
func (d *Decoder) extraData(raw []byte) stringtable.ID {
	if len(raw) <= len("{}") { // an empty object
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
	d.build = appendRestated(d.build[:0], d.unquote(raw), nonemptyObject)
	d.build = bytes.ReplaceAll(d.build, own[:], []byte{OwnIDMark})
	return d.extras.put(key, d.strings.Intern(d.build))
}

// anyBinary interns an identifier of any width by its bytes, Ray's nil too. It may be written in hex or Base64; what is
// neither is 0.
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
