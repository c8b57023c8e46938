package must

import (
	"reflect"
	"testing"
	"time"
)

// Fill gives each exported field of a struct that is zero a value that is not, so that a test fails if something that
// copies or stores the struct forgets a field.
func Fill(t testing.TB, pointer any) {
	t.Helper()
	fill(t, reflect.ValueOf(pointer).Elem(), "filled")
}

func fill(t testing.TB, v reflect.Value, name string) {
	t.Helper()
	if !v.CanSet() || !v.IsZero() && v.Kind() != reflect.Struct {
		return
	}
	if at, ok := v.Addr().Interface().(*time.Time); ok {
		if at.IsZero() {
			*at = time.Date(2026, 11, 20, 23, 19, 45, 0, time.UTC)
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(7)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), name)
	case reflect.Array:
		fill(t, v.Index(0), name)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, name)
		fill(t, value, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		t.Fatalf("%s is a %s", name, v.Type())
	}
}

// ZeroFields are the names of the exported fields of a struct that are zero, those of embedded ones too.
func ZeroFields(of any) (names []string) {
	v := reflect.ValueOf(of)
	for _, field := range reflect.VisibleFields(v.Type()) {
		if field.IsExported() && !field.Anonymous && v.FieldByIndex(field.Index).IsZero() {
			names = append(names, field.Name)
		}
	}
	return names
}
