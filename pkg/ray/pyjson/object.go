// Package pyjson reads and writes JSON as Python's json module does, because Ray's dashboard answers with it.
//
// Objects keep the order of their keys, numbers keep their spelling (1 and 1.0 differ), strings are escaped to ASCII,
// separators are ", " and ": ", and NaN and Infinity exist. A value is nil, bool, string, Number, []any or *Object; for
// writing also Go's integers, float64, Raw, []string, and maps of strings, of float64 and of any of these.
package pyjson

import (
	"iter"
	"math"
	"slices"
	"strconv"
)

// Number is a number as it was spelled.
type Number string

// Raw is JSON that is written as it is.
type Raw []byte

// Object is a JSON object that keeps the order of its keys. A nil *Object reads like an empty one.
type Object struct {
	keys   []string
	values []any
	// index finds keys in objects too large to walk.
	index map[string]int
}

const indexFrom = 16 // keys

// Obj makes an object of keys and values in turn.
func Obj(keysAndValues ...any) *Object {
	o := &Object{keys: make([]string, 0, len(keysAndValues)/2), values: make([]any, 0, len(keysAndValues)/2)}
	o.SetAll(keysAndValues...)
	return o
}

// Len is the number of keys.
func (o *Object) Len() int {
	if o == nil {
		return 0
	}
	return len(o.keys)
}

// indexOf returns the index of a key, -1 if there is none.
func (o *Object) indexOf(key string) int {
	if o == nil {
		return -1
	}
	if o.index != nil {
		if i, ok := o.index[key]; ok {
			return i
		}
		return -1
	}
	return slices.Index(o.keys, key)
}

// Lookup returns the value of key and whether there is one.
func (o *Object) Lookup(key string) (any, bool) {
	if i := o.indexOf(key); i >= 0 {
		return o.values[i], true
	}
	return nil, false
}

// Get returns the value of key, nil where there is none.
func (o *Object) Get(key string) any {
	v, _ := o.Lookup(key)
	return v
}

// Object gives the value of key if it is an object, else nil, which reads like an empty one.
func (o *Object) Object(key string) *Object {
	v, _ := o.Get(key).(*Object)
	return v
}

// List returns the value of key if it is a list, else nil.
func (o *Object) List(key string) []any {
	v, _ := o.Get(key).([]any)
	return v
}

// String returns the value of key if it is a string, else "".
func (o *Object) String(key string) string {
	v, _ := o.Get(key).(string)
	return v
}

// Set gives key a value: in its place if the key exists, else at the end. A large object gets an index of its keys.
func (o *Object) Set(key string, value any) {
	if i := o.indexOf(key); i >= 0 {
		o.values[i] = value
		return
	}
	if o.index == nil && len(o.keys) >= indexFrom {
		o.index = make(map[string]int, 2*indexFrom)
		for i, k := range o.keys {
			o.index[k] = i
		}
	}
	if o.index != nil {
		o.index[key] = len(o.keys)
	}
	o.keys = append(o.keys, key)
	o.values = append(o.values, value)
}

// SetAll sets keys and values, in turn.
func (o *Object) SetAll(keysAndValues ...any) {
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		o.Set(keysAndValues[i].(string), keysAndValues[i+1])
	}
}

// SetExisting sets those of the keys that the object has.
func (o *Object) SetExisting(values map[string]any) {
	for key, value := range values {
		if _, has := o.Lookup(key); has {
			o.Set(key, value)
		}
	}
}

// All yields keys and values in order; nothing for nil.
func (o *Object) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		if o == nil {
			return
		}
		for i, k := range o.keys {
			if !yield(k, o.values[i]) {
				return
			}
		}
	}
}

// Clone returns a copy of the object, which shares its values; an empty object for nil.
func (o *Object) Clone() *Object {
	c := &Object{}
	if o != nil {
		c.keys, c.values = slices.Clone(o.keys), slices.Clone(o.values)
		if o.index != nil {
			c.index = make(map[string]int, len(o.index))
			for i, k := range c.keys {
				c.index[k] = i
			}
		}
	}
	return c
}

// Delete removes keys; those that the object does not have are ignored.
func (o *Object) Delete(keys ...string) {
	for _, key := range keys {
		i := o.indexOf(key)
		if i < 0 {
			continue
		}
		o.keys = slices.Delete(o.keys, i, i+1)
		o.values = slices.Delete(o.values, i, i+1)
		if o.index != nil {
			delete(o.index, key)
			for j := i; j < len(o.keys); j++ {
				o.index[o.keys[j]] = j
			}
		}
	}
}

// Int returns the value of key if it is a whole number, or a string that spells one (protobuf's JSON does that to
// 64-bit numbers), else 0.
func (o *Object) Int(key string) int64 {
	switch v := o.Get(key).(type) {
	case Number:
		return parseInt(string(v))
	case string:
		return parseInt(v)
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case int64:
		return v
	case uint32:
		return int64(v)
	case uint64:
		return int64(min(v, math.MaxInt64))
	}
	return 0
}

// parseInt reads whole numbers, also those that are spelled as floats (1.0); what is neither is 0.
func parseInt(s string) int64 {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0
	}
	return int64(f)
}

// Bool returns the value of key if it is true, else false.
func (o *Object) Bool(key string) bool {
	v, _ := o.Get(key).(bool)
	return v
}

// CopyBytes returns about how many bytes of memory a deep copy of a value takes, with keys of its own but the value's
// other texts.
func CopyBytes(v any) (bytes int64) {
	switch v := v.(type) {
	case *Object:
		if v == nil {
			return 0
		}
		bytes = objectBytes + int64(len(v.keys))*(memberBytes+textBytes)
		if v.index != nil {
			bytes += int64(len(v.keys)) * indexedBytes
		}
		for i, member := range v.values {
			bytes += int64(len(v.keys[i])) + CopyBytes(member)
		}
	case []any:
		bytes = listBytes + int64(len(v))*elementBytes
		for _, element := range v {
			bytes += CopyBytes(element)
		}
	}
	return bytes
}

// Rewrite returns a deep copy of a value in which all members of objects went through change. change returns the
// member's new name and, if replace is true, its new value, which is not changed further; if replace is false, the
// member's value is rewritten in the same way.
func Rewrite(v any, change func(key string, value any) (name string, replaced any, replace bool)) any {
	switch v := v.(type) {
	case *Object:
		if v == nil {
			return v
		}
		c := &Object{}
		for key, value := range v.All() {
			name, replaced, replace := change(key, value)
			if !replace {
				replaced = Rewrite(value, change)
			}
			c.Set(name, replaced)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = Rewrite(e, change)
		}
		return c
	}
	return v
}
