// Package transfer copies sessions between stores.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/carry"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// Place says where sessions are stored.
type Place struct {
	Store blob.Store
	Root  string
}

// Result says what was copied.
type Result struct {
	Copied int   `json:"copied"` // objects
	Bytes  int64 `json:"bytes"`  // of them
	// Kept counts objects that the target already had, from an earlier copy or from compaction there.
	Kept int `json:"kept"`
}

// concurrency is how many objects are copied at a time.
const concurrency = 8

// Copy copies a session. Objects that the target has in the same size are not copied again, so an interrupted copy can
// continue, and a second copy of a running session adds what is new. If the sizes differ, the larger object stays: only
// compaction changes chunks, and it makes them larger. The marker is stored last, so a session appears when it is
// complete. Stored findings are copied, too. If a session is over without a stored end, its end is recorded at the
// target, because the times of the copied objects do not show it. If objects of the source change during the copy,
// chunks.Changed is true for the error.
func Copy(ctx context.Context, ref layout.Session, from, to Place, p *progress.Counter) (Result, error) {
	s, err := inventory.List(ctx, from.Store, from.Root, ref)
	if err != nil {
		return Result{}, err
	}
	findings, err := carry.Read(ctx, from.Store, from.Root, s)
	if err != nil {
		return Result{}, err
	}
	stored, err := sizesAt(ctx, to, ref)
	if err != nil {
		return Result{}, err
	}
	c := &copier{ref: ref, from: from, to: to, progress: p, stored: stored, wanted: make(map[string]int64)}
	data, metadata := c.plan(s.Objects())
	// Metadata comes last: what is stored after a head's end shows that the session continued.
	for _, copies := range [][]copying{data, metadata} {
		if err := c.create(ctx, copies); err != nil {
			return c.result, err
		}
	}
	if err := c.replace(ctx); err != nil {
		return c.result, err
	}
	if err := checkUnchanged(ctx, ref, from, s); err != nil {
		return c.result, err
	}
	if err := c.recordEnd(ctx, s); err != nil {
		return c.result, err
	}
	err = to.Store.Create(ctx, layout.MarkerKey(to.Root, ref), strings.NewReader(""))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return c.result, err
	}
	return c.result, findings.Keep(ctx, to.Store, to.Root, c.isWhole)
}

// copier copies one session.
type copier struct {
	ref      layout.Session
	from, to Place
	progress *progress.Counter
	stored   map[string]int64 // sizes of the target's objects before the copy, by key
	wanted   map[string]int64 // sizes that the copy's objects have in the end, by key, without objects made from others
	result   Result

	mu        sync.Mutex
	different []copying // their keys exist at the target with another size; replace decides about them
}

// copying is an object of the source and its key at the target.
type copying struct {
	object blob.Object
	key    string
}

// sizesAt returns the sizes of the objects that are stored at a place, by key.
func sizesAt(ctx context.Context, at Place, ref layout.Session) (map[string]int64, error) {
	stored := make(map[string]int64)
	for _, prefix := range []string{layout.Prefix(at.Root, ref), layout.IndexPrefix(at.Root, ref)} {
		for o, err := range at.Store.List(ctx, prefix, blob.ListOptions{}) {
			if err != nil {
				return nil, fmt.Errorf("list the target: %w", err)
			}
			stored[o.Key] = o.Size
		}
	}
	return stored, nil
}

// plan returns which of the source's objects are to be copied, and sets wanted and the result's counts.
func (c *copier) plan(all []blob.Object) (data, metadata []copying) {
	for _, o := range all {
		parsed, _ := layout.ParseObject(c.from.Root, c.ref, o.Key)
		key := c.to.Root + strings.TrimPrefix(o.Key, c.from.Root)
		if !inventory.IsDerived(c.to.Root, c.ref, key) {
			c.wanted[key] = o.Size
		}
		c.progress.Expect(1, o.Size)
		if size, exists := c.stored[key]; exists && c.isSufficient(key, size, o) {
			c.result.Kept++
			c.progress.Did(1, o.Size)
			continue
		}
		c.result.Copied++
		c.result.Bytes += o.Size
		if parsed.Kind == layout.Metadata {
			metadata = append(metadata, copying{o, key})
		} else {
			data = append(data, copying{o, key})
		}
	}
	return data, metadata
}

// create creates objects at the target. Those whose keys exist there are added to different.
func (c *copier) create(ctx context.Context, all []copying) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, o := range all {
		g.Go(func() error {
			err := error(os.ErrExist)
			if _, exists := c.stored[o.key]; !exists {
				err = c.copyObject(ctx, o, c.to.Store.Create)
			}
			if errors.Is(err, os.ErrExist) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.different = append(c.different, o)
				return nil
			}
			c.progress.Did(1, o.object.Size)
			return err
		})
	}
	return g.Wait()
}

// replace replaces the different objects of the target, except those that isSufficient by now. It takes the session's
// lease, because a compactor may be writing the same objects there.
func (c *copier) replace(ctx context.Context) error {
	if len(c.different) == 0 {
		return nil
	}
	return lease.Do(ctx, c.to.Store, c.to.Root, c.ref, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(concurrency)
		for _, o := range c.different {
			g.Go(func() error {
				now, err := c.to.Store.Stat(ctx, o.key)
				if errors.Is(err, os.ErrNotExist) || err == nil && !c.isSufficient(o.key, now.Size, o.object) {
					err = c.copyObject(ctx, o, c.to.Store.Put)
				}
				c.progress.Did(1, o.object.Size)
				return err
			})
		}
		return g.Wait()
	})
}

// recordEnd records at the target when a session ended that is over without a stored end. If nothing was copied, a
// record that the target has stays.
func (c *copier) recordEnd(ctx context.Context, s *inventory.Session) error {
	end, over := s.Over(time.Now())
	_, recorded := c.stored[c.recordKey()]
	if !over || s.Ended || end.IsZero() || c.result.Copied == 0 && recorded {
		return nil
	}
	return inventory.RecordEnd(ctx, c.to.Store, c.to.Root, c.ref, end)
}

func (c *copier) recordKey() string { return layout.MetadataKey(c.to.Root, c.ref, layout.Joined) }

// isWhole says whether the target's objects now are the same as the source's, apart from the record of the end. Then
// the source's findings hold for the copy, too.
func (c *copier) isWhole(now []inventory.Object) bool {
	record := c.recordKey()
	delete(c.wanted, record)
	now = slices.DeleteFunc(now, func(o inventory.Object) bool { return o.Object.Key == record })
	return len(now) == len(c.wanted) && !slices.ContainsFunc(now, func(o inventory.Object) bool {
		size, wanted := c.wanted[o.Object.Key]
		return !wanted || size != o.Object.Size
	})
}

// isSufficient says whether the target's object with this key and size need not be replaced by the source's object o:
// it has the same size, or is larger because compaction joined chunks. A larger object that was made from others, such
// as a table of the index, need not be newer.
func (c *copier) isSufficient(key string, size int64, o blob.Object) bool {
	return size == o.Size || size > o.Size && !inventory.IsDerived(c.to.Root, c.ref, key)
}

// checkUnchanged returns an error if objects of the source were replaced or removed since they were listed. A listing
// does not show one moment: if the session was compacted during it, it may have a first chunk as it was before, and
// lack later chunks that were removed meanwhile.
func checkUnchanged(ctx context.Context, ref layout.Session, from Place, listed *inventory.Session) error {
	again, err := inventory.List(ctx, from.Store, from.Root, ref)
	if err != nil {
		return err
	}
	now := make(map[string]blob.Object)
	for _, o := range again.Objects() {
		now[o.Key] = o
	}
	for _, o := range listed.Objects() {
		if inventory.IsDerived(from.Root, ref, o.Key) {
			continue
		}
		if n := now[o.Key]; n.Size != o.Size || n.ETag != o.ETag || n.Key == "" {
			return fmt.Errorf("%s was replaced or removed during the copy: copy the session again: %w", o.Key,
				chunks.ErrChanged)
		}
	}
	return nil
}

// copyObject calls store, which is Create or Put of the target, with the key and the content of an object.
func (c *copier) copyObject(ctx context.Context, o copying,
	store func(context.Context, string, io.ReadSeeker) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	body := blob.Body(ctx, c.from.Store, o.object)
	if err := errors.Join(store(ctx, o.key, body), body.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", o.object.Key, err)
	}
	return nil
}
