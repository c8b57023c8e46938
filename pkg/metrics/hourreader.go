package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/chunks"
)

// hoursAtOnce is how many hours are read at once for a query. It does not follow the number of processors, because each
// takes memory.
const hoursAtOnce = 4

// workShare is which part of a database's memory reading one hour may take besides its changes.
const workShare = 8

// errLargeHour says that what an hour has at one moment does not fit in the memory for reading it.
var errLargeHour = fmt.Errorf("an hour of a node has too many series, or too long lines: %w", ErrTooMuch)

// readMemory divides the memory for reading among the hours that are read at once. An hour may take much more than it
// has stored bytes, and nothing says how much before it is read.
type readMemory struct {
	slots *semaphore.Weighted
	share int64      // of an hour
	whole *allowance // of an hour that needs more, which is read alone
}

func newReadMemory(share int64, whole *allowance) *readMemory {
	return &readMemory{slots: semaphore.NewWeighted(hoursAtOnce), share: share, whole: whole}
}

// runWithMemory calls read with the memory for one of hoursAtOnce hours. If read returns errLargeHour, runWithMemory
// waits until no other hour is read, and calls it again with the whole memory.
func (m *readMemory) runWithMemory(ctx context.Context, read func(workMemory *allowance) error) error {
	for _, alone := range []bool{false, true} {
		slots, workMemory := int64(1), newAllowance(m.share)
		if alone {
			slots, workMemory = hoursAtOnce, m.whole
		}
		if err := m.slots.Acquire(ctx, slots); err != nil {
			return context.Cause(ctx)
		}
		err := read(workMemory)
		m.slots.Release(slots)
		if alone || !errors.Is(err, errLargeHour) {
			return err
		}
	}
	return nil
}

// hourBlock is a block, with its hour and node.
type hourBlock struct {
	Hour
	block *block
}

// hourBlocks are blocks in order of node and time.
type hourBlocks struct {
	blocks []hourBlock
	// until is when the session was still read, as far as all nodes must have stored it: a target that was not read
	// until then is gone.
	until int64
}

// loadHours returns the blocks of the hours that may have samples from mint to maxt (Unix milliseconds), in order of
// node and time, and what of them is damaged. Hours that fit in the database's memory are read whole and stay there for
// later queries. Of others only the series whose names are wanted are read, for this query; their changes take memory
// from changeMemory. Each hour that is read may take an eighth of the database's memory meanwhile. hours.until is the
// time of the last read of any target: one that was not read until then counts as gone.
func (d *Database) loadHours(
	ctx context.Context, mint, maxt int64, changeMemory *allowance, wants func(string) bool,
) (hours hourBlocks, damaged []error, err error) {
	all, err := d.Hours(ctx)
	if err != nil || len(all) == 0 {
		return hours, nil, err
	}
	hours.until = all[len(all)-1].Start.UnixMilli()
	var blocks []hourBlock
	for _, h := range all {
		// The hour before mint's shows whether a series ended in between.
		endOfNext := h.Start.Add(2 * time.Hour)
		if h.Start.UnixMilli() <= maxt && endOfNext.UnixMilli() > mint {
			blocks = append(blocks, hourBlock{Hour: h})
		}
	}
	d.keepNoneIfTooLarge(blocks)
	slices.SortStableFunc(blocks, func(a, b hourBlock) int {
		return cmp.Or(slices.Compare(a.Node[:], b.Node[:]), a.Start.Compare(b.Start))
	})
	r := &hourReader{Database: d, wants: wants, changeMemory: changeMemory,
		memory: newReadMemory(d.maxBytes/workShare, changeMemory)}
	parts := make([]loaded, len(blocks))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(hoursAtOnce)
	for i := range blocks {
		group.Go(func() error {
			parts[i] = r.loadHour(groupCtx, blocks[i].Hour)
			return parts[i].err
		})
	}
	if err := group.Wait(); err != nil {
		return hours, nil, err
	}
	for i := range blocks {
		blocks[i].block = parts[i].block
		damaged = append(damaged, parts[i].damaged...)
		for _, t := range blocks[i].block.targets {
			if n := len(t.times); n > 0 {
				hours.until = max(hours.until, t.times[n-1])
			}
		}
	}
	hours.blocks = blocks
	if d.listingValid > 0 { // the session runs, and its nodes store what they read at different times
		hours.until -= lifetime.Idle.Milliseconds()
	}
	return hours, damaged, nil
}

// keepNoneIfTooLarge calls keepNone if hours will not fit: that is known before anything of them is read.
func (d *Database) keepNoneIfTooLarge(hours []hourBlock) {
	var stored int64
	for _, h := range hours {
		stored += h.Bytes
	}
	if stored*blockBytes > d.maxBytes {
		d.keepNone()
	}
}

// keepNone says that whole hours do not fit in memory.
func (d *Database) keepNone() {
	d.keepsNone.Store(true)
	d.blocks.Clear()
}

// blockBytes is about how many bytes of a block a stored byte becomes: compressed text of a busy node becomes values of
// 10 bytes.
const blockBytes = 6

// hourReader reads hours for a query.
type hourReader struct {
	*Database
	wants        func(name string) bool // whether the query reads metrics of this name
	changeMemory *allowance             // for the changes of all hours
	memory       *readMemory
}

// errNotKept says that an hour was read, but not kept: chunks of it were joined after they were listed.
var errNotKept = errors.New("chunks have changed")

// loadHour returns one hour, from memory if it is there and nothing of it was stored since. It is read once for all
// that ask at the same time. An hour that does not fit in the database's memory is read for this query alone, see
// loadHours. An hour of which chunks were joined since they were listed is returned, but not kept.
func (r *hourReader) loadHour(ctx context.Context, h Hour) loaded {
	if r.keepsNone.Load() { // the session's hours do not fit in memory
		return r.readHour(ctx, h, r.wants, r.changeMemory)
	}
	key := hourKey{h.Node, h.Start.Unix()}
	if known, ok := r.blocks.Get(key); ok && known.stored != h.Bytes {
		r.blocks.Delete(key)
	}
	l, err := r.blocks.Load(ctx, key, func(ctx context.Context) (loaded, error) {
		// It is read whole, for later queries, too, and may take a quarter of the memory.
		all := func(string) bool { return ctx.Err() == nil }
		l := r.readHour(ctx, h, all, newAllowance(r.maxBytes/4))
		if l.err == nil && slices.ContainsFunc(l.damaged, chunks.Changed) {
			return l, errNotKept
		}
		return l, l.err
	})
	if r.keepsNone.Load() || r.blocks.Cost() > r.maxBytes || errors.Is(err, ErrTooMuch) {
		r.keepNone()
	}
	switch {
	case ctx.Err() != nil:
		return loaded{err: context.Cause(ctx)}
	case errors.Is(err, ErrTooMuch), l.stored != h.Bytes: // others asked for it when it had less
		return r.readHour(ctx, h, r.wants, r.changeMemory)
	case err != nil && !errors.Is(err, errNotKept):
		return loaded{err: err}
	}
	return l
}

// readHour reads the series of an hour whose names are wanted.
func (r *hourReader) readHour(ctx context.Context, h Hour, wants func(string) bool,
	changeMemory *allowance) (l loaded) {
	err := r.memory.runWithMemory(ctx, func(workMemory *allowance) error {
		l = r.readBlock(ctx, h, wants, changeMemory, workMemory)
		return l.err
	})
	l.err = err
	return l
}

// readBlock reads an hour and makes its block, with the series whose names are wanted. The block's changes take memory
// from changeMemory, which stays taken for as long as the block is used. Reading it takes memory from workMemory, which
// is given back. After an error, which is l.err, all is given back.
func (d *Database) readBlock(
	ctx context.Context, h Hour, wants func(string) bool, changeMemory, workMemory *allowance,
) (l loaded) {
	l.stored = h.Bytes
	err := guard.CatchPanic(h.stream.Key, func() (err error) {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		b := newBuilder(d.names, wants, changeMemory, workMemory)
		b.stop = stop // ends the reading at the builder's first error
		defer func() {
			b.giveBackWorking()
			if l.block == nil {
				changeMemory.giveBack(changeBytes * int64(len(b.changes)))
			}
		}()
		err = h.visitLines(ctx, d.store, b, workMemory, func(key string, err error) {
			l.damaged = append(l.damaged, fmt.Errorf("%s: %w", key, err))
		})
		if err == nil {
			l.block, err = b.buildBlock()
		}
		return err
	})
	if err != nil {
		l.err = fmt.Errorf("read metrics of %s at %s: %w", h.Node, h.Start.Format(time.RFC3339), err)
	}
	return l
}
