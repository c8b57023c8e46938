package session

import (
	"context"
	"fmt"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// List returns a session of which only the names of objects are read: its Logs and Snapshots are known, its tables are
// missing, and it cannot be refreshed.
func List(ctx context.Context, store blob.Reader, root string, ref layout.Session) (*Session, error) {
	found, err := listSession(ctx, store, root, ref, &Options{Progress: &progress.Counter{}})
	if err != nil {
		return nil, err
	}
	if err := found.readLists(ctx, nil, nil); err != nil {
		return nil, fmt.Errorf("list session %s: %w", ref, err)
	}
	return &Session{
		Ref: ref, Logs: found.logs, Snapshots: found.snapshots, Ended: found.ended, EndStored: found.endStored,
		source: &source{}, fingerprint: found.sources.Fingerprint,
		stored: found.version.last,
	}, nil
}
