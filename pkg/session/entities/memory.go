package entities

import (
	"reflect"
	"unsafe"
)

// mapEntry estimates the bytes of a map's entry besides its key's and value's own.
const mapEntry = 64

// MemoryBytes estimates the memory of a row, which is a struct. Sessions usually have some thousands of them, but only
// memory bounds how many there may be.
func MemoryBytes[E any](row *E) int64 {
	return int64(unsafe.Sizeof(*row)) + bytesBehind(reflect.ValueOf(row).Elem())
}

// rowsBytes estimates the memory of all rows of a kind.
func rowsBytes[E any](all []E) (n int64) {
	for i := range all {
		n += MemoryBytes(&all[i])
	}
	return n
}

// bytesBehind estimates the bytes of memory that a value refers to, without the value itself: those of its texts and
// lists, and of its maps of strings to strings or numbers. Structs are entered, also those of a list; other values
// refer to nothing.
func bytesBehind(v reflect.Value) (n int64) {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Struct:
		for i := range v.NumField() {
			n += bytesBehind(v.Field(i))
		}
	case reflect.Slice:
		n = int64(v.Len()) * int64(v.Type().Elem().Size())
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				n += bytesBehind(v.Index(i))
			}
		}
	case reflect.Map:
		n = int64(v.Len()) * mapEntry
		switch m := v.Interface().(type) {
		case map[string]string:
			for key, value := range m {
				n += int64(len(key) + len(value))
			}
		case map[string]float64:
			for key := range m {
				n += int64(len(key))
			}
		}
	}
	return n
}
