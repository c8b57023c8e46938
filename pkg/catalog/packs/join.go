package packs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// ErrBusy says that another writer joins the packs of the same day.
var ErrBusy = errors.New("another writer joins the packs of the day")

// maxJoined limits the memory in bytes for the facts of one pack that is to be joined. A pack with more is not joined.
const maxJoined = 256 << 20

// Join makes one pack from all packs of a day, or a few if one cannot hold that much, and removes those that it joined.
// Sessions for which removed returns true are left out. A pack with exactly the content of a new one, which an earlier
// Join stored before it could not remove packs, stays instead of the new one. Damaged packs are removed; packs of other
// versions stay. It returns how many packs the day has then. After ErrBusy, removed sessions may still be in packs.
func (p Packs) Join(ctx context.Context, day time.Time, removed func(layout.Session) bool) (left int, err error) {
	all, err := p.ListDay(ctx, day)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	j := &joiner{packs: p, day: day, stored: all, last: all[len(all)-1].N, left: len(all)}
	for _, pack := range all {
		if err := j.read(ctx, pack, removed); err != nil {
			return j.left, err
		}
	}
	return j.left, j.store(ctx)
}

// joiner collects the rows of a day's packs, and stores them in new packs.
type joiner struct {
	packs  Packs
	day    time.Time
	stored []Pack // the packs of the day when Join began
	last   int    // the highest number of a pack of the day
	left   int    // how many packs the day has now

	rows   map[layout.Session]Facts
	size   int    // bytes of the rows
	joined []Pack // the packs that rows are from
}

// read adds a pack's rows to j.rows. If these would become too many for one pack, it first stores the rows that it has.
// A pack of another version, or with too many facts, is skipped.
func (j *joiner) read(ctx context.Context, pack Pack, removed func(layout.Session) bool) error {
	rows, size := make(map[layout.Session]Facts), 0
	err := j.packs.Read(ctx, pack, func(f *Facts) error {
		if removed(f.Ref) {
			return nil
		}
		row := f.Bounded()
		mergeInto(rows, row)
		if size += row.memoryBytes(); size > maxJoined {
			return errTooLarge
		}
		return nil
	})
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ErrBusy // another writer has joined it
	case errors.Is(err, errVersion) || errors.Is(err, errTooLarge):
		return nil // it stays
	case errors.Is(err, ErrDamaged): // the rows before the damage count
	case err != nil:
		return err
	}
	if len(j.rows)+len(rows) > maxRows || j.size+size > maxFacts {
		if err := j.store(ctx); err != nil {
			return err
		}
	}
	if j.rows == nil {
		j.rows = make(map[layout.Session]Facts)
	}
	for _, row := range rows {
		mergeInto(j.rows, row)
	}
	j.size, j.joined = j.size+size, append(j.joined, pack)
	return nil
}

// mergeInto adds a row to rows. If there is a row of its session, both become one, whose text for searches is made
// again.
func mergeInto(rows map[layout.Session]Facts, row Facts) {
	if before, ok := rows[row.Ref]; ok {
		row = Merge(before, row).Bounded()
	}
	rows[row.Ref] = row
}

// store stores j.rows as one pack, or several if they do not fit, removes the packs that the rows are from, and begins
// with no rows again.
func (j *joiner) store(ctx context.Context) error {
	rows, joined := j.rows, j.joined
	j.rows, j.size, j.joined = nil, 0, nil
	all := slices.SortedFunc(maps.Values(rows), func(a, b Facts) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	var parts [][]byte
	var same []Pack // for each part the stored pack that has its content; zero: there is none
	for len(all) > 0 {
		part := all[:countFitting(all)]
		all = all[len(part):]
		data, err := encode(part)
		if err != nil {
			return err
		}
		stored, err := j.findStored(ctx, data)
		if err != nil {
			return err
		}
		parts, same = append(parts, data), append(same, stored)
	}
	// Rows only move to packs of higher numbers. Otherwise rows could be lost with a second writer, who does not know
	// that a session was removed: it removes the pack that stays here, because a later pack has its rows, while this
	// writer removes that later pack.
	moved := 0 // the highest number of a pack that is removed
	for _, pack := range joined {
		if !slices.Contains(same, pack) {
			moved = max(moved, pack.N)
		}
	}
	for i, data := range parts {
		if same[i].N > moved {
			joined = slices.DeleteFunc(joined, func(pack Pack) bool { return pack == same[i] })
			continue
		}
		j.last++
		err := j.packs.Store.Create(ctx, layout.PackKey(j.packs.Root, j.day, j.last), bytes.NewReader(data))
		if errors.Is(err, os.ErrExist) {
			return ErrBusy
		}
		if err != nil {
			return fmt.Errorf("store a pack of sessions: %w", err)
		}
		j.left++
	}
	return j.remove(ctx, joined)
}

// findStored returns the day's pack that has this content, the newest if there are several; zero if there is none.
func (j *joiner) findStored(ctx context.Context, content []byte) (Pack, error) {
	for _, pack := range slices.Backward(j.stored) {
		if pack.Size != int64(len(content)) {
			continue
		}
		data, err := blob.ReadRange(ctx, j.packs.Store, pack.Key, 0, pack.Size)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a removed pack is not the one
			return Pack{}, err
		}
		if err == nil && bytes.Equal(data, content) {
			return pack, nil
		}
	}
	return Pack{}, nil
}

// remove removes packs whose rows are stored in others.
func (j *joiner) remove(ctx context.Context, joined []Pack) error {
	for _, pack := range joined {
		if err := j.packs.Store.Delete(ctx, pack.Key); err != nil {
			return fmt.Errorf("remove a pack that was joined: %w", err)
		}
		j.left--
	}
	return nil
}
