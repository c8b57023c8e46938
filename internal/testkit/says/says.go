// Package says tells how what a test got differs from what it wants. What it is about may be said last, as to
// fmt.Sprintf.
package says

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// True is an error of the test, with what is said of it, unless ok.
func True(t testing.TB, ok bool, about ...any) {
	t.Helper()
	if !ok {
		t.Error(strings.TrimSuffix(About(about), ":\n"))
	}
}

// OK is an error of the test unless err is nil.
func OK(t testing.TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s%v", About(about), err)
	}
}

// Equal is an error of the test unless both are equal.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%sgot  %+v\nwant %+v", About(about), got, want)
	}
}

// EqualSlices is an error of the test unless both have equal elements.
func EqualSlices[T comparable](t testing.TB, got, want []T, about ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%sgot  %+v\nwant %+v", About(about), got, want)
	}
}

// Error is an error of the test unless err is an error with words.
func Error(t testing.TB, err error, words string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%sgot  %v\nwant an error with %q", About(about), err, words)
	}
}

// Err gives the error of a call that gives a value, too: says.ErrorIs(t, says.Err(os.Stat(path)), os.ErrNotExist).
func Err[T any](_ T, err error) error { return err }

// ErrorIs is an error of the test unless err is, or wraps, the wanted one.
func ErrorIs(t testing.TB, err, want error, about ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%sgot  %v\nwant %v", About(about), err, want)
	}
}

// All is an error of the test for each part that a text lacks.
func All(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %s", part, text)
		}
	}
}

// None is an error of the test for each part that a text has.
func None(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q in %s", part, text)
		}
	}
}

// About is a line about what is compared, or nothing.
func About(about []any) string {
	if len(about) == 0 {
		return ""
	}
	if len(about) == 1 {
		return fmt.Sprint(about[0], ":\n")
	}
	return fmt.Sprintf(about[0].(string), about[1:]...) + ":\n"
}
