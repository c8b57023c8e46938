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

// maxJoined limits the memory for the facts of one pack that is to be joined, in bytes; one with more stays.
const maxJoined = 256 << 20

// Join makes one pack from all packs of a day, or a few if one cannot hold that much, and removes those that it joined.
// What would be stored and is there already, in a later pack than those that go, as after a Join that could not remove,
// stays instead. Removed sessions are left out. Damaged packs are removed; packs of other versions stay. It returns how
// many packs the day has then. After ErrBusy, removed sessions may still be in packs.
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

// joiner makes packs of others.
type joiner struct {
	packs  Packs
	day    time.Time
	stored []Pack // those of the day at first
	last   int    // the number of the day's last pack
	left   int    // packs of the day

	rows map[layout.Session]Facts
	size int // bytes of the rows
	of   []Pack
}

// read adds a pack's rows. If there is no room for them, it first stores those that it has.
func (j *joiner) read(ctx context.Context, pack Pack, removed func(layout.Session) bool) error {
	rows, size := make(map[layout.Session]Facts), 0
	err := j.packs.Read(ctx, pack, func(f *Facts) error {
		if removed(f.Ref) {
			return nil
		}
		row := f.Bounded()
		merge(rows, row)
		if size += row.size(); size > maxJoined {
			return errTooLarge
		}
		return nil
	})
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ErrBusy
	case errors.Is(err, errVersion) || errors.Is(err, errTooLarge):
		return nil
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
		merge(j.rows, row)
	}
	j.size, j.of = j.size+size, append(j.of, pack)
	return nil
}

// merge adds a row to those of its session. The text for searches is made again of what both know.
func merge(rows map[layout.Session]Facts, row Facts) {
	if before, ok := rows[row.Ref]; ok {
		row = Merge(before, row).Bounded()
	}
	rows[row.Ref] = row
}

// store stores the rows, as one pack if they fit, removes those that they are from, and begins again.
func (j *joiner) store(ctx context.Context) error {
	rows, of := j.rows, j.of
	j.rows, j.size, j.of = nil, 0, nil
	all := slices.SortedFunc(maps.Values(rows), func(a, b Facts) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	var parts [][]byte
	var same []Pack // of the day, with a part's content; zero: there is none
	for len(all) > 0 {
		part := all[:fitting(all)]
		all = all[len(part):]
		data, err := encode(part)
		if err != nil {
			return err
		}
		stored, err := j.find(ctx, data)
		if err != nil {
			return err
		}
		parts, same = append(parts, data), append(same, stored)
	}
	// Rows only move to packs of higher numbers. Otherwise a second writer, who does not know that a session was
	// removed, could remove the pack that stays here, because a later one has its rows, and that one is removed here.
	moved := 0
	for _, pack := range of {
		if !slices.Contains(same, pack) {
			moved = max(moved, pack.N)
		}
	}
	for i, data := range parts {
		if same[i].N > moved {
			of = slices.DeleteFunc(of, func(pack Pack) bool { return pack == same[i] })
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
	return j.remove(ctx, of)
}

// find returns the day's pack that has this content, the newest if there are several; zero if there is none.
func (j *joiner) find(ctx context.Context, content []byte) (Pack, error) {
	for _, pack := range slices.Backward(j.stored) {
		if pack.Size != int64(len(content)) {
			continue
		}
		data, err := blob.ReadRange(ctx, j.packs.Store, pack.Key, 0, pack.Size)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // it was removed
			return Pack{}, err
		}
		if err == nil && bytes.Equal(data, content) {
			return pack, nil
		}
	}
	return Pack{}, nil
}

// remove removes packs whose rows are in others.
func (j *joiner) remove(ctx context.Context, joined []Pack) error {
	for _, pack := range joined {
		if err := j.packs.Store.Delete(ctx, pack.Key); err != nil {
			return fmt.Errorf("remove a pack that was joined: %w", err)
		}
		j.left--
	}
	return nil
}
