// Package must ends tests whose preparations fail, or in which what they wait for does not happen.
package must

import (
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// OK ends the test with err, and what is said of it, unless it is nil.
func OK(t testing.TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s%v", says.About(about), err)
	}
}

// True ends the test, with what is said of it, unless ok.
func True(t testing.TB, ok bool, about ...any) {
	t.Helper()
	if !ok {
		t.Fatal(strings.TrimSuffix(says.About(about), ":\n"))
	}
}

// Get gives the value of a call, or ends the test with its error: must.Get(os.ReadFile(path))(t).
func Get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		OK(t, err)
		return value
	}
}

// Happen waits until is says yes. It is for what other processes and real connections do: where a test has all to
// itself, testing/synctest needs no waiting.
func Happen(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not happen", what)
		}
	}
}
