package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Abandoned is the time without writes after which a session without an end marker counts as ended, because its head
// was lost.
const Abandoned = 24 * time.Hour

// Over says whether a session has ended, and when.
func (s *Session) Over(now time.Time) (end time.Time, over bool) {
	if s.Ended {
		return s.End, true
	}
	return s.LastWrite, now.Sub(s.LastWrite) > Abandoned
}

// RecordEnd stores when a session had ended, for objects whose times do not tell it: those that compaction writes
// again, and copies.
func RecordEnd(ctx context.Context, store blob.Store, root string, ref layout.Session, end time.Time) error {
	metadata, err := json.Marshal(layout.JoinedMetadata{End: end.UTC()})
	if err != nil {
		return err
	}
	if err := store.Put(ctx, layout.MetadataKey(root, ref, layout.Joined), bytes.NewReader(metadata)); err != nil {
		return fmt.Errorf("record when the session ended: %w", err)
	}
	return nil
}
