package dashboard

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
)

// googleStyle changes all keys of an object, and of the objects in it, to camelCase (to_google_style in
// ray/dashboard/utils.py). Ray also does it to keys that are not names of fields, such as those of resources:
// node:__internal_head__ becomes node:InternalHead.
func googleStyle(o *pyjson.Object) *pyjson.Object {
	return pyjson.Rewrite(o, func(key string, value any) (name string, replaced any, replace bool) {
		switch m := value.(type) {
		case map[string]float64:
			return camelCase(key), camelKeys(m), true
		case map[string]string:
			return camelCase(key), camelKeys(m), true
		}
		return camelCase(key), nil, false
	}).(*pyjson.Object)
}

func camelKeys[V any](m map[string]V) map[string]V {
	styled := make(map[string]V, len(m))
	for k, v := range m {
		styled[camelCase(k)] = v
	}
	return styled
}

// camelCase is to_camel_case in ray/dashboard/utils.py: the parts between underscores after the first get Python's
// str.title.
func camelCase(s string) string {
	if !strings.Contains(s, "_") {
		return s
	}
	parts := strings.Split(s, "_")
	for i := range parts[1:] {
		parts[i+1] = pythonTitle(parts[i+1])
	}
	return strings.Join(parts, "")
}

// pythonTitle is Python's str.title: a letter at the start, or after what is no letter, is upper case, any other lower
// case.
func pythonTitle(s string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		was := inWord
		if inWord = unicode.IsLetter(r); !inWord {
			return r
		}
		if was {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

// snakeStyle changes the keys of protobuf's JSON to the names of the fields, and IDs to hex.
func snakeStyle(o *pyjson.Object) *pyjson.Object {
	return pyjson.Rewrite(o, func(key string, value any) (name string, replaced any, replace bool) {
		id, isID := rayid.FromProto(key, value)
		return eventjson.SnakeCase(key), id, isID
	}).(*pyjson.Object)
}

// orEmpty is m, or an empty map: Ray writes maps that are not set as {}.
func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// numberString writes a number as protobuf's JSON writes 64-bit numbers: as a string.
func numberString[N int | int64 | uint64](n N) string { return strconv.FormatInt(int64(n), 10) }

// orNone is s, or nil where it is empty: Python's None.
func orNone(s string) any {
	if s == "" {
		return nil
	}
	return s
}
