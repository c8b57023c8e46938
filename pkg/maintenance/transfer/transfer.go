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
// complete. The findings that are kept of a session are kept of its copy. If no end is stored of a session that is
// over, the copy gets a record of it, because its objects' times do not tell it.
func Copy(ctx context.Context, ref layout.Session, from, to Place, p *progress.Counter) (Result, error) {
	var result Result
	s, err := inventory.List(ctx, from.Store, from.Root, ref)
	if err != nil {
		return result, err
	}
	kept, err := carry.Read(ctx, from.Store, from.Root, s)
	if err != nil {
		return result, err
	}
	stored, copies := make(map[string]int64), make(map[string]int64)
	for _, prefix := range []string{layout.Prefix(to.Root, ref), layout.IndexPrefix(to.Root, ref)} {
		for o, err := range to.Store.List(ctx, prefix, blob.ListOptions{}) {
			if err != nil {
				return result, fmt.Errorf("list the target: %w", err)
			}
			stored[o.Key] = o.Size
		}
	}
	var mu sync.Mutex
	var smaller []replacement // objects of the target that are to be replaced
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	ends := false
	for _, o := range endsLast(ref, from, s.Objects()) {
		parsed, _ := layout.ParseObject(from.Root, ref, o.Key)
		if parsed.Kind == layout.OldIndex {
			continue // nothing reads it
		}
		key := to.Root + strings.TrimPrefix(o.Key, from.Root)
		if !inventory.IsDerived(to.Root, ref, key) {
			copies[key] = o.Size
		}
		p.Expect(1, o.Size)
		size, exists := stored[key]
		if exists && serves(ref, to, key, size, o) {
			result.Kept++
			p.Did(1, o.Size)
			continue
		}
		result.Copied++
		result.Bytes += o.Size
		if parsed.Kind == layout.Metadata && !ends { // after all else
			ends = true
			if err := g.Wait(); err != nil {
				return result, err
			}
			g, gctx = errgroup.WithContext(ctx)
			g.SetLimit(concurrency)
		}
		g.Go(func() error {
			err := error(os.ErrExist)
			if !exists {
				err = copyObject(gctx, from.Store, o, key, to.Store.Create)
			}
			if errors.Is(err, os.ErrExist) {
				mu.Lock()
				defer mu.Unlock()
				smaller = append(smaller, replacement{o, key})
				return nil
			}
			p.Did(1, o.Size)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return result, err
	}
	if err := replace(ctx, ref, from, to, smaller, p); err != nil {
		return result, err
	}
	if err := unchanged(ctx, ref, from, s); err != nil {
		return result, err
	}
	record := layout.MetadataKey(to.Root, ref, layout.Joined)
	_, recorded := stored[record]
	// A copy that is complete and has a record keeps the one it has.
	if end, over := s.Over(time.Now()); over && !s.Ended && !end.IsZero() && (result.Copied > 0 || !recorded) {
		if err := inventory.RecordEnd(ctx, to.Store, to.Root, ref, end); err != nil {
			return result, err
		}
	}
	err = to.Store.Create(ctx, layout.MarkerKey(to.Root, ref), strings.NewReader(""))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return result, err
	}
	// The findings are of the copy too if it has the same objects, apart from the record of the end.
	return result, kept.Keep(ctx, to.Store, to.Root, func(now []inventory.Object) bool {
		delete(copies, record)
		now = slices.DeleteFunc(now, func(o inventory.Object) bool { return o.Object.Key == record })
		same := len(now) == len(copies)
		for _, o := range now {
			size, copied := copies[o.Object.Key]
			same = same && copied && size == o.Object.Size
		}
		return same
	})
}

// endsLast sorts a session's objects so that its metadata comes last: what is stored after a head's end shows that the
// session continued.
func endsLast(ref layout.Session, from Place, all []blob.Object) []blob.Object {
	slices.SortStableFunc(all, func(a, b blob.Object) int {
		switch x, y := isMetadata(ref, from, a.Key), isMetadata(ref, from, b.Key); {
		case x == y:
			return 0
		case x:
			return 1
		}
		return -1
	})
	return all
}

func isMetadata(ref layout.Session, at Place, key string) bool {
	o, err := layout.ParseObject(at.Root, ref, key)
	return err == nil && o.Kind == layout.Metadata
}

// serves says whether an object of the target, by its size, need not be replaced by one of the source. Of objects that
// were made from others the larger one need not be the newer one.
func serves(ref layout.Session, to Place, key string, size int64, o blob.Object) bool {
	return size == o.Size || size > o.Size && !inventory.IsDerived(to.Root, ref, key)
}

// replacement is an object to be copied to a key that the target has.
type replacement struct {
	object blob.Object
	key    string
}

// replace replaces objects of the target. It takes the session's lease: a compactor that is working there may be
// writing the same objects.
func replace(ctx context.Context, ref layout.Session, from, to Place, all []replacement, p *progress.Counter) error {
	if len(all) == 0 {
		return nil
	}
	return lease.Do(ctx, to.Store, to.Root, ref, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(concurrency)
		for _, r := range all {
			g.Go(func() error {
				now, err := to.Store.Stat(ctx, r.key)
				if errors.Is(err, os.ErrNotExist) || err == nil && !serves(ref, to, r.key, now.Size, r.object) {
					err = copyObject(ctx, from.Store, r.object, r.key, to.Store.Put)
				}
				p.Did(1, r.object.Size)
				return err
			})
		}
		return g.Wait()
	})
}

// unchanged is an error if objects of the source were replaced or removed since they were listed. A listing is not of
// one moment: if the session was compacted meanwhile, it may have a first chunk as it was before, and lack others that
// were removed since.
func unchanged(ctx context.Context, ref layout.Session, from Place, listed *inventory.Session) error {
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

// copyObject gives the content of an object to store, with its new key.
func copyObject(ctx context.Context, from blob.Reader, o blob.Object, key string,
	store func(context.Context, string, io.ReadSeeker) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	body := blob.Join(ctx, from, []blob.Object{o})
	if err := errors.Join(store(ctx, key, body), body.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", o.Key, err)
	}
	return nil
}
