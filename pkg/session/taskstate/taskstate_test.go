package taskstate

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestKindsOfStates: a state counts as pending or running as Ray's name for it says. A call of an actor is pending at its
// worker, which has got it.
func TestKindsOfStates(t *testing.T) {
	for number, name := range names {
		waits := strings.HasPrefix(name, "PENDING_") && !strings.HasPrefix(name, "PENDING_ACTOR_TASK_")
		runs := strings.HasPrefix(name, "RUNNING")
		if s := State(number); s.IsPending() != waits || s.IsRunning() != runs {
			t.Errorf("%s: pending %t, running %t", name, s.IsPending(), s.IsRunning())
		}
	}
}

// TestNamesAreBounded: a name that is too long for a state's is not kept.
func TestNamesAreBounded(t *testing.T) {
	r := NewRegistry(nil)
	if s := r.Parse([]byte(strings.Repeat("x", 1<<20))); s != Nil || len(r.Newer()) != 0 {
		t.Errorf("a name of a megabyte is state %d, and %d names are kept", s, len(r.Newer()))
	}
	says.Equal(t, r.Name(r.Parse([]byte("SOMETHING_NEW"))), "SOMETHING_NEW", "a new state")
}
