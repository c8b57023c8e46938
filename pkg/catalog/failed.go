package catalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// FailedJobs gives the jobs of a session that had failed when its collector last stored the dashboard's list of jobs, and the key of that list:
// with it as after, a later call gives no jobs unless there is a newer one. It takes one or two requests however long the session is, and is for
// running sessions, of which whole listings and replays cost more.
func FailedJobs(ctx context.Context, store blob.Reader, root string, ref layout.Session, after string) (failed []packs.Job, last string, err error) {
	first := layout.SnapshotKey(root, ref, jobsURL)
	if last = after; last == "" {
		last = first
	}
	for o, err := range store.List(ctx, first+".@", blob.ListOptions{StartAfter: after}) {
		if err != nil {
			return nil, after, fmt.Errorf("list the answers about jobs of %s: %w", ref, err)
		}
		last = o.Key
	}
	if last == after {
		return nil, after, nil
	}
	var f packs.Facts
	err = guard.Do(last, func() error {
		body, err := store.Get(ctx, last, 0, maxAnswer)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		return readJobs(body, &f)
	})
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, after, nil
	case err != nil:
		return nil, after, fmt.Errorf("read %s: %w", last, err)
	}
	return slices.DeleteFunc(f.Jobs, func(j packs.Job) bool { return j.Status != "FAILED" }), last, nil
}
