package dashboard

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/pathglob"
)

// TestGlobIsBounded: what is long or has many wildcards is refused, what is left takes time as its length and that of
// the names, and ends when nobody waits for it.
func TestGlobIsBounded(t *testing.T) {
	for _, glob := range []string{strings.Repeat("*", 60_000), strings.Repeat("a*", pathglob.MaxWildcards+1),
		strings.Repeat("a", pathglob.MaxLength+1), strings.Repeat("[a]", 1000), strings.Repeat("**/", 1000)} {
		if _, err := globLogs(t.Context(), nil, glob); !errors.Is(err, pathglob.ErrLong) {
			t.Errorf("%.20s: %v", glob, err)
		}
	}
	// Backtracking would take longer than the universe is old.
	name := strings.Repeat("a", 1000)
	glob := strings.Repeat("a*", pathglob.MaxWildcards) + "b"
	if got, err := globLogs(t.Context(), []string{name, strings.Repeat("a/", 500) + "a"}, glob); err != nil ||
		len(got) != 0 {
		t.Errorf("%d, %v", len(got), err)
	}
	if got, err := globLogs(t.Context(), []string{strings.Repeat("a/", 500) + "a"},
		strings.Repeat("**/a/", pathglob.MaxWildcards/2)+"b"); err != nil || len(got) != 0 {
		t.Errorf("%d, %v", len(got), err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := globLogs(gone, []string{name}, "*"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that nobody waits", err)
	}
}
