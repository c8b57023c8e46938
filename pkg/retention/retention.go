// Package retention removes sessions that are no longer wanted.
package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/compact"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Due says whether a session ended, and was last written, longer than age ago. One that was not looked at yet is not due.
func Due(e catalog.Entry, age time.Duration, now time.Time) bool {
	limit := now.Add(-age)
	return e.Described && !e.Running && e.End.Before(limit) && e.LastWrite.Before(limit)
}

// ErrWritten is a session that is not removed since something was stored of it just now.
var ErrWritten = errors.New("something was stored of it just now")

// concurrency is how many objects are deleted at a time.
const concurrency = 16

// Remove deletes all of a session unless some of it was stored after limit; that is ErrWritten. Its marker goes last, so a removal that
// was cut short shows in the list and can go on.
func Remove(ctx context.Context, store blob.Store, root string, ref layout.Session, limit time.Time, p *inventory.Progress) error {
	return compact.Exclusive(ctx, store, root, ref, func(ctx context.Context) error {
		s, err := inventory.List(ctx, store, root, ref)
		if err != nil {
			return err
		}
		if s.LastWrite.After(limit) {
			return fmt.Errorf("%w, at %s: it may run again", ErrWritten, s.LastWrite.UTC().Format(time.DateTime))
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
		return store.Delete(ctx, layout.MetaKey(root, ref))
	})
}
