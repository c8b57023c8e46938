package collector

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// withoutRecent is a store whose policy knows no time-ordered markers.
type withoutRecent struct {
	blob.Creator
	refused int
}

func (s *withoutRecent) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if strings.HasPrefix(key, layout.RecentPrefix("log")) {
		s.refused++
		return blob.ErrPermission
	}
	return s.Creator.Create(ctx, key, body)
}

// TestTimeOrderedMarkerMayBeRefused: nothing waits for it, and it is not tried with each put.
func TestTimeOrderedMarkerMayBeRefused(t *testing.T) {
	o, store := options(t, t.TempDir())
	refusing := &withoutRecent{Creator: store}
	o.Store = refusing
	s, err := newSessions(o, filepath.Join(t.TempDir(), "sessions.json"))
	if err != nil {
		t.Fatal(err)
	}
	name := session().Name
	for range 5 {
		if err := s.mark(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if keys := store.Keys(); len(keys) != 1 || keys[0] != layout.MarkerKey("log", session()) || refusing.refused != 1 {
		t.Errorf("stored %v, refused %d", keys, refusing.refused)
	}
	s.recent[name] = time.Now().Add(-2 * recentRetry)
	s.store = store
	if err := s.mark(t.Context(), name); err != nil || len(store.Keys()) != 2 {
		t.Errorf("a policy that was mended: %v, stored %v", err, store.Keys())
	}
}
