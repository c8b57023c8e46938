package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// ErrClock says that a session is not changed because this machine's clock is wrong: to one that is a year ahead, all
// sessions have ended and expired.
var ErrClock = errors.New("this machine's clock is ahead of the store's")

// maxAhead is how far this machine's clock may be ahead of the store's.
const maxAhead = time.Hour

// CheckClock compares the clocks by the lease of a session, which its holder has stored just now.
func CheckClock(ctx context.Context, store blob.Reader, root string, ref layout.Session) error {
	stored, err := store.Stat(ctx, Key(root, ref))
	if err != nil {
		return fmt.Errorf("read the store's clock: %w", err)
	}
	if ahead := time.Since(stored.ModTime); ahead > maxAhead {
		return fmt.Errorf("%w, by %s: correct it; until then nothing is removed or compacted", ErrClock,
			ahead.Round(time.Minute))
	}
	return nil
}
