package pyjson

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/pkg/ray/jsontext"
)

// Append appends v to b as Python's json.dumps writes it. It panics for types that it does not know.
func Append(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return AppendString(b, v)
	case Number:
		return append(b, v...)
	case Raw:
		return append(b, v...)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int32:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint32:
		return strconv.AppendUint(b, uint64(v), 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case float64:
		return AppendFloat(b, v)
	case *Object:
		return appendObject(b, v)
	case []any:
		return appendList(b, v)
	case []*Object:
		return appendList(b, v)
	case []string:
		return appendList(b, v)
	case map[string]string:
		return appendMap(b, v)
	case map[string]float64:
		return appendMap(b, v)
	case map[string]any:
		return appendMap(b, v)
	}
	panic(fmt.Sprintf("pyjson: cannot write a %T", v))
}

// appendObject appends an object, spaced as Python does it; null for nil.
func appendObject(b []byte, o *Object) []byte {
	if o == nil {
		return append(b, "null"...)
	}
	b = append(b, '{')
	for i, k := range o.keys {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = AppendString(b, k)
		b = append(b, ": "...)
		b = Append(b, o.values[i])
	}
	return append(b, '}')
}

func appendList[T any](b []byte, list []T) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = Append(b, v)
	}
	return append(b, ']')
}

// appendMap appends a map as an object, with sorted keys: Go's maps, unlike Python's, have no order to keep.
func appendMap[T any](b []byte, m map[string]T) []byte {
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = AppendString(b, k)
		b = append(b, ": "...)
		b = Append(b, m[k])
	}
	return append(b, '}')
}

// AppendFloat appends f as Python's repr writes it: the shortest digits that read back as f, with ".0" if f is whole,
// and with an exponent below 1e-4 and from 1e16 on.
func AppendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, 'f', -1, 64)
	if !slices.Contains(b[start:], '.') {
		b = append(b, ".0"...)
	}
	return b
}

const hexDigits = "0123456789abcdef"

// AppendString appends s in quotes, with escapes for everything that is not printable ASCII. Bytes that are not UTF-8
// become U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if i+8 <= len(s) && needsNoEscape(s[i:i+8]) {
			i += 8
			continue
		}
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		b = appendEscaped(b, r)
		i += size
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// needsNoEscape reports whether eight bytes are all printable ASCII that is not escaped, which most are: this is faster
// than to look at each.
func needsNoEscape(s string) bool {
	const ones, tops = jsontext.EachByte, jsontext.HighBits
	w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return (w|(w-' '*ones)|(w+ones)|(w^'"'*ones-ones)|(w^'\\'*ones-ones))&tops == 0
}

// appendEscaped appends the escape of a character, which JSON in ASCII must escape.
func appendEscaped(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	}
	if r > 0xffff {
		r -= 0x10000
		return appendUnit(appendUnit(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return appendUnit(b, r)
}

func appendUnit(b []byte, u rune) []byte {
	return append(b, '\\', 'u', hexDigits[u>>12&0xf], hexDigits[u>>8&0xf], hexDigits[u>>4&0xf], hexDigits[u&0xf])
}
