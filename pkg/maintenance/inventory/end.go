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

// Over says whether a session has ended, and when. If it is abandoned, end is the time of its last write; if it is not
// over, end has no meaning.
func (s *Session) Over(now time.Time) (end time.Time, over bool) {
	if s.Ended {
		return s.End, true
	}
	return s.LastWrite, now.Sub(s.LastWrite) > Abandoned
}

// RecordEnd stores when a session ended. Without this record the times of objects that compaction writes again, or that
// are copies, would hide it.
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
