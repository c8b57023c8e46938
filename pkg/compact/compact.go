// Package compact joins the chunks of wholes into one object each.
//
// A hundred nodes leave 144,000 chunks a day, each a request to whoever reads them. Joining is safe beside readers and beside other
// compactors, and may be cut short anywhere: the joined object takes the place of the first chunk, at once; readers take each byte from
// one chunk, whatever overlaps; later chunks go only once the joined object was read back and holds their bytes; and a reader that
// listed a chunk which is gone finds its bytes in the joined object.
package compact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Options of Session.
type Options struct {
	Store blob.Store
	Root  string
	// Quiet is how long a session without an end marker is silent before it may have ended; see Candidates.
	Quiet    time.Duration
	Progress *inventory.Progress
}

// settled is how long after an hour's end its events count as complete: they come late when a node was cut off. An event that comes
// later still is a chunk of its own.
const settled = time.Hour

// abandoned is how long a session without an end marker is silent before it counts as over: its head was lost.
const abandoned = 24 * time.Hour

// concurrency is how many wholes are joined at a time.
const concurrency = 4

// Result is what was done.
type Result struct {
	Joined  int   `json:"joined"`  // wholes
	Removed int   `json:"removed"` // chunks
	Bytes   int64 `json:"bytes"`   // of the joined objects, as stored
	// Left says of each whole that was not joined why not: it is damaged, or somebody else changed it.
	Left []string `json:"left,omitempty"`
}

// errLeft is a whole that stays as it is.
var errLeft = errors.New("left as it is")

// Candidates are the wholes of a session that have chunks to join: all once it ended, while it runs the hours of events that are over. A
// session that is silent for longer than quiet without an end marker may be either, so nothing is joined until it counts as abandoned:
// what is joined is written anew, and when such a session was last written is all that tells when it ended.
func Candidates(s *inventory.Session, quiet time.Duration, now time.Time) []*inventory.Whole {
	silent := now.Sub(s.LastWrite)
	over := s.Ended || silent > abandoned
	if !over && silent > quiet {
		return nil
	}
	var found []*inventory.Whole
	for _, w := range s.Wholes {
		if len(w.Chunks) > 1 && (over || closed(w, now)) {
			found = append(found, w)
		}
	}
	return found
}

// closed says whether an hour of a running session is over. One with compressed chunks is left: their collector learns from the sizes of
// chunks how far it has stored them.
func closed(w *inventory.Whole, now time.Time) bool {
	if w.Kind == layout.Log || now.Before(w.Hour.Add(time.Hour+settled)) {
		return false
	}
	for _, c := range w.Chunks {
		if c.Compression != layout.Plain {
			return false
		}
	}
	return true
}

// Session joins what there is to join of a session. ErrBusy says that another compactor is at it.
func Session(ctx context.Context, ref layout.Session, opts Options) (result Result, err error) {
	s, err := inventory.List(ctx, opts.Store, opts.Root, ref)
	if err != nil || len(Candidates(s, opts.Quiet, time.Now())) == 0 {
		return result, err
	}
	ctx, lease, err := acquire(ctx, opts.Store, opts.Root, ref)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, lease.release()) }()
	// Another compactor may have been at it until now.
	if s, err = inventory.List(ctx, opts.Store, opts.Root, ref); err != nil {
		return result, err
	}
	candidates := Candidates(s, opts.Quiet, time.Now())
	if err := keepEnd(ctx, opts, s); err != nil || len(candidates) == 0 {
		return result, err
	}
	for _, w := range candidates {
		opts.Progress.Expect(len(w.Chunks), w.Bytes())
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, w := range candidates {
		g.Go(func() error {
			j := joining{ctx: ctx, store: opts.Store, whole: w}
			err := j.join()
			mu.Lock()
			defer mu.Unlock()
			opts.Progress.Did(len(w.Chunks), w.Bytes())
			result.Removed += j.removed
			switch {
			case errors.Is(err, errLeft) || errors.Is(err, inventory.ErrDamaged) || inventory.Changed(err):
				result.Left = append(result.Left, fmt.Sprintf("%s: %v", w.Key, err))
				return nil
			case err != nil:
				return fmt.Errorf("join the chunks of %s: %w", w.Key, err)
			}
			result.Joined++
			result.Bytes += j.size
			return nil
		})
	}
	return result, g.Wait()
}

// keepEnd stores when an abandoned session ended, before its objects are written anew.
func keepEnd(ctx context.Context, opts Options, s *inventory.Session) error {
	if s.Ended || time.Since(s.LastWrite) <= abandoned {
		return nil
	}
	facts, err := json.Marshal(layout.EndFacts{End: s.LastWrite.UTC()})
	if err != nil {
		return err
	}
	err = opts.Store.Create(ctx, layout.FactsKey(opts.Root, s.Ref, layout.End), bytes.NewReader(facts))
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	return err
}
