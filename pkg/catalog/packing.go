package catalog

import (
	"context"
	"errors"
	"maps"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	// packInterval is the time between two searches for packs of other writers. After each search the sessions that
	// have ended since are packed.
	packInterval = 5 * time.Minute
	// maxUnpacked is how many sessions may wait to be packed before the interval is over.
	maxUnpacked = 2000
	// maxPacks is the number of packs of one day from which on they are joined.
	maxPacks = 8
	// firstRows is how many of the newest sessions are shown before all packs are read.
	firstRows = 10_000
	// packReads is the number of packs that are read at a time.
	packReads = 8
)

// packing is what the catalog knows about packs; c.mu guards it.
type packing struct {
	read     map[string]bool                 // keys of packs that were read, or that cannot be read
	disabled bool                            // nothing is packed: of commands
	denied   blob.Denied                     // packs must not be written
	unjoined blob.Denied                     // packs must not be removed, so they are not joined
	unpacked map[layout.Session]*packs.Facts // the facts that wait to be packed
	// fresh are the facts of sessions that ended lately: more of them may be stored, so they are not packed yet. There
	// are at most maxUnpacked.
	fresh   map[layout.Session]*packs.Facts
	removed map[time.Time]map[layout.Session]bool // by day: removed sessions that packs may still have
	// fullPacks is by day: how many full packs its last joining left. All that it leaves but the last one are full.
	fullPacks map[time.Time]int
	wake      chan struct{} // has a token when many facts wait
}

// keepPacking packs every packInterval, or earlier if many facts wait, until ctx ends.
func (c *Catalog) keepPacking(ctx context.Context) {
	for {
		select {
		case <-time.After(packInterval):
		case <-c.packed.wake:
		case <-ctx.Done():
			return
		}
		if err := c.Pack(ctx); err != nil && ctx.Err() == nil {
			c.opts.Log.WithError(err).Warn("cannot write packs of ended sessions; the server tries again")
		}
	}
}

// Packed reads the packs of some days, and returns a list of the ended sessions in them: those that began at or after
// from and before to, and some more. It reads neither markers nor the sessions' own objects.
func (c *Catalog) Packed(ctx context.Context, from, to time.Time) (Listing, error) {
	const day = 24 * time.Hour
	_, err := c.readPacks(ctx, func(packed time.Time) bool {
		// The day in a session's name is in its head's local time, hence a day more at either end. Names without a day
		// are under the first day of Unix time.
		return packed.Unix() == 0 || packed.After(from.Add(-2*day)) && packed.Before(to.Add(day))
	})
	return c.Cached(), err
}

// allDays selects all packs.
func allDays(time.Time) bool { return true }

// readPacks reads the packs of the selected days into the list, the newest day first. Packs that were read before are
// skipped. A pack that cannot be used is logged and skipped: its sessions are found by their markers. It returns all
// stored packs, also those that it did not read.
func (c *Catalog) readPacks(ctx context.Context, selects func(day time.Time) bool) ([]packs.Pack, error) {
	all, err := c.opts.Packs.List(ctx)
	if err != nil {
		return nil, err
	}
	c.forgetRemoved(all)
	var g errgroup.Group
	g.SetLimit(packReads)
	for _, pack := range all {
		if !selects(pack.Day) {
			continue
		}
		c.mu.Lock()
		done := c.packed.read[pack.Key]
		c.packed.read[pack.Key] = true
		c.mu.Unlock()
		if done {
			continue
		}
		g.Go(func() error {
			var rows []packs.Facts
			err := c.opts.Packs.ReadBrief(ctx, pack, func(f *packs.Facts) error {
				rows = append(rows, *f)
				return nil
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			switch {
			case err == nil:
				return guard.CatchPanic(pack.Key, func() error {
					for i := range rows {
						c.mergePackRow(&rows[i])
					}
					c.table.applyChanges()
					if c.table.rows >= firstRows { // the newest sessions are known: callers need not wait for the rest
						c.endFirstWait()
					}
					return nil
				})
			case errors.Is(err, packs.ErrDamaged):
				c.opts.Log.WithError(err).Warn("skipped a pack of sessions; its sessions are read again")
				return nil
			case errors.Is(err, os.ErrNotExist):
				return nil // it was joined into another pack since it was listed
			}
			delete(c.packed.read, pack.Key) // the next call reads it again
			return err
		})
	}
	return all, g.Wait()
}

// forgetRemoved forgets which packs were read that are not stored any more, because they were joined into others.
func (c *Catalog) forgetRemoved(stored []packs.Pack) {
	keys := make(map[string]bool, len(stored))
	for _, pack := range stored {
		keys[pack.Key] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.packed.read, func(key string, _ bool) bool { return !keys[key] })
}

// mergePackRow merges a row of a pack into the list by the rules of packs.Merge; c.mu must be held. A row that adds
// nothing to what the list has changes nothing. A session that was removed after the row was written is not listed
// again. Its last write stands for the time of its marker, until a listing finds that.
func (c *Catalog) mergePackRow(f *packs.Facts) {
	s, listed := c.table.get(f.Ref)
	if !listed {
		if c.full.began.After(f.Seen) {
			return // the session was removed: a listing of all markers after the row was read did not have it
		}
		s.marked = f.LastWrite
	}
	merged := *f
	if known := s.facts; known != nil {
		merged = packs.Merge(*known, merged)
		if merged.Summary == known.Summary && merged.Seen.Equal(known.Seen) && merged.Start.Equal(known.Start) &&
			merged.End.Equal(known.End) && merged.LastWrite.Equal(known.LastWrite) && merged.Version == known.Version &&
			merged.Text == known.Text {
			return
		}
	}
	if merged.Seen.Equal(f.Seen) && merged.Outcome == f.Outcome && merged.Version == f.Version {
		c.packed.discard(f.Ref) // the facts that wait to be packed are older and have nothing more
	}
	delete(c.jobs, f.Ref) // which are of running sessions: packs have ended ones
	s.facts = listedPart(merged)
	c.table.put(f.Ref, s)
}

// Pack reads the packs that other writers have added, writes the facts that wait, and joins the packs of a day if they
// are many or if they have removed sessions. If the store refuses to write packs, it ends there; if the store refuses
// to remove packs, it joins none. Either is logged, and not tried again for an hour.
func (c *Catalog) Pack(ctx context.Context) error {
	existing, err := c.readPacks(ctx, allDays)
	if err != nil {
		return err
	}
	count := make(map[time.Time]int)
	for _, pack := range existing {
		count[pack.Day]++
	}
	for day, all := range c.unpackedByDay() {
		facts := make([]packs.Facts, len(all))
		for i, f := range all {
			facts[i] = *f
		}
		err := c.opts.Packs.Append(ctx, day, existing, facts)
		if blob.IsDenied(err) {
			c.stopPacking(err)
			return nil
		}
		if err != nil {
			return err
		}
		c.markPacked(all)
		count[day]++
	}
	c.mu.Lock()
	unjoined := c.packed.denied.Holds() || c.packed.unjoined.Holds() // packs must not be written, or not be removed
	// Removed sessions need not be remembered if they cannot be removed from packs, or if their day has no packs.
	maps.DeleteFunc(c.packed.removed, func(day time.Time, _ map[layout.Session]bool) bool {
		return unjoined || count[day] == 0
	})
	c.mu.Unlock()
	if unjoined {
		return nil
	}
	for day, n := range count {
		if err := c.joinPacks(ctx, day, n); blob.IsDenied(err) {
			c.opts.Log.WithError(err).Warn(
				"cannot join packs of ended sessions; each start of the server must read more packs: grant the right " +
					"to delete below index/packs/, or let no rule of the bucket keep these objects")
			c.packed.unjoined.Set()
			return nil
		} else if err != nil {
			return err // the sessions stay in removed, so the next Pack tries again
		}
	}
	return nil
}

// joinPacks joins the n packs of a day if many of them are not full, or if sessions of theirs were removed. Full packs
// are those that the last joining left, except its last one.
func (c *Catalog) joinPacks(ctx context.Context, day time.Time, n int) error {
	c.mu.Lock()
	removed, full := maps.Clone(c.packed.removed[day]), c.packed.fullPacks[day]
	c.mu.Unlock()
	if n-full < maxPacks && len(removed) == 0 {
		return nil
	}
	left, err := c.opts.Packs.Join(ctx, day, func(ref layout.Session) bool { return removed[ref] })
	if errors.Is(err, packs.ErrBusy) {
		return nil // the sessions stay in removed, so the next Pack tries again
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packed.fullPacks[day] = max(0, left-1)
	// Sessions that were removed meanwhile stay for the next Pack.
	maps.DeleteFunc(c.packed.removed[day], func(ref layout.Session, _ bool) bool { return removed[ref] })
	if len(c.packed.removed[day]) == 0 {
		delete(c.packed.removed, day)
	}
	return nil
}

// unpackedByDay returns the facts that wait to be packed, by layout.PackDay.
func (c *Catalog) unpackedByDay() map[time.Time][]*packs.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	days := make(map[time.Time][]*packs.Facts)
	for ref, f := range c.packed.unpacked {
		day := layout.PackDay(ref)
		days[day] = append(days[day], f)
	}
	return days
}

// Unpacked returns the facts of ended sessions that are not packed. They do not change.
func (c *Catalog) Unpacked() map[layout.Session]*packs.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.packed.unpacked)
	maps.Copy(all, c.packed.fresh)
	return all
}

// queueForPacking has the facts of an ended session wait to be packed. Those of a session that is not quiet are only
// kept as fresh, because more of it may be stored; c.mu must be held. Nothing waits if packs cannot be written. If many
// wait, they are packed before packInterval is over.
func (c *Catalog) queueForPacking(f *packs.Facts, quiet bool) {
	switch {
	case c.opts.Packs == nil || c.packed.disabled || c.packed.denied.Holds(): // they are not written
	case !quiet && len(c.packed.fresh) < maxUnpacked:
		c.packed.fresh[f.Ref] = f
	case quiet:
		c.packed.unpacked[f.Ref] = f
		delete(c.packed.removed[layout.PackDay(f.Ref)], f.Ref)
		if len(c.packed.unpacked) >= maxUnpacked {
			background.Signal(c.packed.wake)
		}
	}
}

// discard discards the facts of a session that wait to be packed.
func (p *packing) discard(ref layout.Session) {
	delete(p.unpacked, ref)
	delete(p.fresh, ref)
}

// markPacked removes facts that are packed now from those that wait. If newer facts of a session came meanwhile, they
// still wait.
func (c *Catalog) markPacked(all []*packs.Facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range all {
		if c.packed.unpacked[f.Ref] == f {
			delete(c.packed.unpacked, f.Ref)
		}
	}
}

// stopPacking records and logs that the store refused a pack: nothing is packed for an hour. The facts that wait are
// discarded, and read again from the sessions when they are needed.
func (c *Catalog) stopPacking(err error) {
	c.opts.Log.WithError(err).Warn(
		"the store refuses packs of ended sessions; each start of the server must read all sessions again: grant the " +
			"right to write below index/")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packed.denied.Set()
	clear(c.packed.unpacked)
	clear(c.packed.fresh)
}
