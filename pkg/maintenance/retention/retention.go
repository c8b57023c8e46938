// Package retention removes sessions that have expired, by age or by rules.
package retention

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// Due says whether both the end of a session and its last write are longer than age ago. A session whose objects are
// not listed yet is not due.
func Due(e catalog.Entry, age time.Duration, now time.Time) bool {
	limit := now.Add(-age)
	return e.Described && !e.Running && e.Latest().Before(limit)
}

// errWritten says that a session is not removed because it was written after the limit.
var errWritten = errors.New("it was written just now")

// ErrPinned says that a session is not removed because somebody pinned it.
var ErrPinned = errors.New("it is pinned")

// concurrency is how many objects are deleted at a time.
const concurrency = 16

// Remove deletes all objects of a session, and the note on it. It deletes nothing if an object was stored after limit
// (errWritten), if the session is pinned (ErrPinned), or if this machine's clock is ahead of the store's
// (lease.ErrClock). The marker is deleted last, so an interrupted removal still appears in the list and can continue.
func Remove(ctx context.Context, store blob.Store, root string, ref layout.Session, limit time.Time,
	p *progress.Counter) error {
	return lease.Do(ctx, store, root, ref, func(ctx context.Context) error {
		if err := lease.CheckClock(ctx, store, root, ref); err != nil {
			return err
		}
		s, err := inventory.List(ctx, store, root, ref)
		if err != nil {
			return err
		}
		if s.LastWrite.After(limit) {
			return fmt.Errorf("%w, at %s: it may be running again", errWritten, s.LastWrite.UTC().Format(time.DateTime))
		}
		// The note is read while the lease is held: whoever pins the session from now on sees the lease.
		note, err := notes.Read(ctx, store, root, ref)
		if err != nil {
			return fmt.Errorf("it may be pinned: %w", err)
		}
		if err := checkPin(note); err != nil {
			return err
		}
		if err := removeRecentMarkers(ctx, store, root, s); err != nil {
			return err
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(concurrency)
		for _, o := range s.Objects() {
			p.Expect(1, o.Size)
			g.Go(func() error {
				if err := context.Cause(gctx); err != nil {
					return err
				}
				defer p.Did(1, o.Size)
				return store.Delete(gctx, o.Key)
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if err := removeAround(ctx, store, root, ref); err != nil {
			return err
		}
		return removeMarker(ctx, store, layout.MarkerKey(root, ref))
	})
}

// removeRecentMarkers deletes a session's markers below recent/, whose keys contain the hour in which the session
// began. That is the hour in its metadata or, if the head's local time is UTC, in its name; both keys are deleted, and
// those of further heads. This must come before the metadata is deleted, so that an interrupted removal finds the keys
// again. Only sessions of layout V16 have such markers.
func removeRecentMarkers(ctx context.Context, store blob.Store, root string, s *inventory.Session) error {
	ref := s.Ref
	if ref.Version != layout.V16 {
		return nil
	}
	var starts []time.Time
	if named, ok := layout.NamedStart(ref.Name); ok {
		starts = append(starts, named)
	}
	var recorded layout.StartMetadata
	err := blob.ReadJSON(ctx, store, layout.MetadataKey(root, ref, layout.Start), layout.MaxMetadata, &recorded)
	switch {
	case err == nil:
		starts = append(starts, recorded.Start)
	case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, blob.ErrMalformed):
		return fmt.Errorf("find when the session began: %w", err)
	}
	var keys []string
	for _, start := range starts {
		keys = append(keys, layout.RecentKey(root, ref, start))
	}
	for _, start := range s.HeadStarts {
		keys = append(keys, layout.RecentHeadKey(root, ref, start))
	}
	for _, key := range keys {
		if err := store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// removeMarker deletes a session's marker. KubeRay's collectors store it as a folder: in a store without folders, an
// object with a slash at its end.
func removeMarker(ctx context.Context, store blob.Store, marker string) error {
	for o, err := range store.List(ctx, marker, blob.ListOptions{}) {
		if err != nil {
			return err
		}
		if strings.TrimSuffix(o.Key, "/") != marker {
			continue // the marker of another session, whose name begins with this one's
		}
		if err := store.Delete(ctx, o.Key); err != nil {
			return err
		}
	}
	return nil
}

// removeAround deletes what the server stored about a session: the records of its webhooks, its note, and the parts of
// its index that were stored after the session was listed. A server that stores an index even later removes it itself,
// because it finds no objects of the session.
func removeAround(ctx context.Context, store blob.Store, root string, ref layout.Session) error {
	for _, prefix := range []string{layout.WebhooksPrefix(root, ref), layout.IndexPrefix(root, ref)} {
		if err := blob.DeleteBelow(ctx, store, prefix); err != nil {
			return err
		}
	}
	return notes.Remove(ctx, store, root, ref)
}
