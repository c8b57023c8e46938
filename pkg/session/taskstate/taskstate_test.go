package taskstate

import (
	"strings"
	"testing"
)

// TestNamesAreBounded: a name that is too long for a state's is not kept.
func TestNamesAreBounded(t *testing.T) {
	r := NewRegistry(nil)
	if s := r.Parse([]byte(strings.Repeat("x", 1<<20))); s != Nil || len(r.Newer()) != 0 {
		t.Errorf("a name of a megabyte is state %d, and %d names are kept", s, len(r.Newer()))
	}
	if s := r.Parse([]byte("SOMETHING_NEW")); r.Name(s) != "SOMETHING_NEW" {
		t.Errorf("a new state is %s", r.Name(s))
	}
}
