package dashboard

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// googleStyle changes all keys of an object, and of the objects in it, to camelCase (to_google_style in ray/dashboard/utils.py).
// Ray does it to keys that are no names too, such as those of resources: node:__internal_head__ becomes node:InternalHead.
func googleStyle(o *pyjson.Object) *pyjson.Object {
	styled := &pyjson.Object{}
	for k, v := range o.All() {
		styled.Set(camelCase(k), googleStyleValue(v))
	}
	return styled
}

func googleStyleValue(v any) any {
	switch v := v.(type) {
	case *pyjson.Object:
		if v != nil {
			return googleStyle(v)
		}
	case map[string]float64:
		styled := make(map[string]float64, len(v))
		for k, amount := range v {
			styled[camelCase(k)] = amount
		}
		return styled
	case map[string]string:
		styled := make(map[string]string, len(v))
		for k, text := range v {
			styled[camelCase(k)] = text
		}
		return styled
	case []any:
		styled := make([]any, len(v))
		for i, e := range v {
			if o, ok := e.(*pyjson.Object); ok {
				e = googleStyle(o)
			}
			styled[i] = e
		}
		return styled
	}
	return v
}

// camelCase is to_camel_case in ray/dashboard/utils.py: the parts between underscores after the first get Python's str.title.
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

// pythonTitle is str.title: a letter after what is no letter is upper case, every other lower case.
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

// idFields are the fields of a cause of death that hold IDs: base64 in events, hex in the State API.
var idFields = map[string]bool{"actor_id": true, "owner_id": true, "job_id": true, "node_id": true, "placement_group_id": true}

// snakeStyle changes the keys of protobuf's JSON to the names of the fields, and IDs to hex.
func snakeStyle(o *pyjson.Object) *pyjson.Object {
	styled := &pyjson.Object{}
	for k, v := range o.All() {
		name := snakeCase(k)
		switch value := v.(type) {
		case *pyjson.Object:
			v = snakeStyle(value)
		case string:
			if idFields[name] {
				if id, err := base64.StdEncoding.DecodeString(value); err == nil {
					v = hex.EncodeToString(id)
				}
			}
		}
		styled.Set(name, v)
	}
	return styled
}

func snakeCase(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// stringMap is m, or an empty map: Ray prints maps that are not set as {}.
func stringMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// pyString spells a number as protobuf's JSON spells 64-bit ones: as a string.
func pyString[N int | int64 | uint64](n N) string { return strconv.FormatInt(int64(n), 10) }

func upper(s string) string { return strings.ToUpper(s) }

// checkHex refuses what Ray's ID types refuse: an ID is so many bytes in hex.
func checkHex(id string, size int) *apiError {
	b, err := hex.DecodeString(id)
	switch {
	case err != nil && len(id)%2 == 1:
		return badRequest("Odd-length string")
	case err != nil:
		return badRequest("Non-hexadecimal digit found")
	case len(b) != size:
		return &apiError{status: http.StatusBadRequest, text: "ID string needs to have length " + strconv.Itoa(size) + ", got " + strconv.Itoa(len(b))}
	}
	return nil
}

// count adds one to a counter of an object.
func count(counts *pyjson.Object, key string) {
	n, _ := counts.Get(key).(int)
	counts.Set(key, n+1)
}

// nullable is s, or nil where it is empty: Python's None.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
