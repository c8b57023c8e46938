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

// Equal is an error of the test unless both are equal.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%sgot  %+v\nwant %+v", subject(about), got, want)
	}
}

// EqualSlices is an error of the test unless both have equal elements.
func EqualSlices[T comparable](t testing.TB, got, want []T, about ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%sgot  %+v\nwant %+v", subject(about), got, want)
	}
}

// Error is an error of the test unless err is an error with words.
func Error(t testing.TB, err error, words string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%sgot  %v\nwant an error with %q", subject(about), err, words)
	}
}

// ErrorIs is an error of the test unless err is, or wraps, the wanted one.
func ErrorIs(t testing.TB, err, want error, about ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%sgot  %v\nwant %v", subject(about), err, want)
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

// subject is a line about what is compared, or nothing.
func subject(about []any) string {
	if len(about) == 0 {
		return ""
	}
	if len(about) == 1 {
		return fmt.Sprint(about[0], ":\n")
	}
	return fmt.Sprintf(about[0].(string), about[1:]...) + ":\n"
}
