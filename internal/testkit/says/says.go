// Package says tells what a text that a test got lacks, or has too much.
package says

import (
	"strings"
	"testing"
)

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
