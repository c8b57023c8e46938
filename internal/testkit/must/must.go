// Package must ends tests whose preparations fail.
package must

import "testing"

// OK ends the test with err unless it is nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
