package packs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Packs are the packs below one root of a store.
type Packs struct {
	Store blob.Store
	Root  string
}

// Pack is one stored pack.
type Pack struct {
	Day time.Time
	N   int // its number within the day
	blob.Object
}

// ErrDamaged says that a pack cannot be used: it is damaged, too large, or of another version.
var ErrDamaged = errors.New("the pack cannot be used")

// List lists the packs, the newest day first. Other objects below their prefix are skipped.
func (p Packs) List(ctx context.Context) ([]Pack, error) {
	return p.list(ctx, layout.PacksPrefix(p.Root))
}

// ListDay lists the packs of one day.
func (p Packs) ListDay(ctx context.Context, day time.Time) ([]Pack, error) {
	return p.list(ctx, layout.PackDayPrefix(p.Root, day))
}

// list lists the packs below a prefix, the newest day first, and those of a day by number.
func (p Packs) list(ctx context.Context, prefix string) ([]Pack, error) {
	var all []Pack
	for o, err := range p.Store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list the packs of sessions: %w", err)
		}
		if day, n, err := layout.ParsePack(p.Root, o.Key); err == nil {
			all = append(all, Pack{day, n, o})
		}
	}
	slices.SortFunc(all, func(a, b Pack) int { return cmp.Or(b.Day.Compare(a.Day), a.N-b.N) })
	return all, nil
}

// Read calls visit with each row of a pack. Texts of a row share memory with those of other rows. The error is
// os.ErrNotExist if the pack was removed, and ErrDamaged if it cannot be used; visit may have been called before either
// error.
func (p Packs) Read(ctx context.Context, pack Pack, visit func(*Facts) error) error {
	const details = true
	return p.readRows(ctx, pack, details, visit)
}

// ReadBrief is Read without details: Findings, Jobs, Hours and Labels are nil.
func (p Packs) ReadBrief(ctx context.Context, pack Pack, visit func(*Facts) error) error {
	const details = false
	return p.readRows(ctx, pack, details, visit)
}

// readRows calls visit with each row of a pack, with the columns of details or without. An error of visit ends it and
// is returned as it is; an error about what was read, or a panic, is ErrDamaged.
func (p Packs) readRows(ctx context.Context, pack Pack, details bool, visit func(*Facts) error) error {
	if pack.Size > maxPackBytes {
		return fmt.Errorf("read %s: %w: %w", pack.Key, ErrDamaged, errTooLarge)
	}
	data, err := blob.ReadRange(ctx, p.Store, pack.Key, 0, pack.Size)
	if err != nil {
		return err
	}
	var stopped error // of visit
	err = guard.CatchPanic(pack.Key, func() error {
		return decode(data, details, func(f *Facts) error {
			stopped = visit(f)
			return stopped
		})
	})
	if err != nil && stopped == nil {
		return fmt.Errorf("read %s: %w: %w", pack.Key, ErrDamaged, err)
	}
	return err
}

// maxTries limits how often Append looks for the next free number after another writer has taken one.
const maxTries = 10

// maxRows is the maximum number of rows of one pack, maxFacts the maximum bytes of its facts, so that the pack stays
// below maxPackBytes and can be read again.
const maxRows, maxFacts = 50_000, 3 * maxPackBytes / 4

// countFitting returns how many of the first facts, at least one, fit into a pack.
func countFitting(all []Facts) (n int) {
	for size := 0; n < min(len(all), maxRows); n++ {
		if size += all[n].memoryBytes(); size > maxFacts && n > 0 {
			break
		}
	}
	return n
}

// Append stores facts of sessions of one day in new packs. existing are the packs that the caller has read; facts that
// another writer has packed since are left out. The error is blob.ErrPermission if packs must not be written.
func (p Packs) Append(ctx context.Context, day time.Time, existing []Pack, all []Facts) error {
	read := make(map[string]bool)
	last := 0
	for _, pack := range existing {
		if pack.Day.Equal(day) {
			read[pack.Key], last = true, max(last, pack.N)
		}
	}
	left := make([]Facts, len(all))
	for i := range all {
		left[i] = all[i].Bounded()
	}
	for tries := 0; tries < maxTries; {
		if len(left) == 0 {
			return nil
		}
		part := left[:countFitting(left)]
		data, err := encode(part)
		if err != nil {
			return err
		}
		last++
		err = p.Store.Create(ctx, layout.PackKey(p.Root, day, last), bytes.NewReader(data))
		if err == nil {
			left = left[len(part):]
			continue
		}
		if !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("store a pack of sessions: %w", err)
		}
		tries++ // another writer took the number: read what it has packed, and try the next free number
		packs, err := p.ListDay(ctx, day)
		if err != nil {
			return err
		}
		for _, pack := range packs {
			last = max(last, pack.N)
			if !read[pack.Key] {
				read[pack.Key] = true
				if left, err = p.removePacked(ctx, pack, left); err != nil {
					return err
				}
			}
		}
	}
	return fmt.Errorf("store a pack of sessions of %s: other writers took every number", day.Format(time.DateOnly))
}

// removePacked removes from all, in place, the facts that a pack has, and returns those that are left. A pack that is
// damaged or was removed has none.
func (p Packs) removePacked(ctx context.Context, pack Pack, all []Facts) ([]Facts, error) {
	packed := make(map[layout.Session]Facts, len(all)) // only of the sessions in all: a pack may have very many others
	for i := range all {
		packed[all[i].Ref] = Facts{}
	}
	err := p.ReadBrief(ctx, pack, func(f *Facts) error {
		if _, wanted := packed[f.Ref]; wanted {
			packed[f.Ref] = *f
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// Brief facts lack findings, jobs and hours, but the text for searches is made of them.
	return slices.DeleteFunc(all, func(f Facts) bool {
		other := packed[f.Ref] // without Seen if the pack has none of the session
		return other.LastWrite.Equal(f.LastWrite) && !other.Seen.IsZero() && other.Outcome == f.Outcome &&
			other.Text == f.Text && other.Bytes == f.Bytes
	}), nil
}
