package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// unit is what one goroutine replays at a time: a whole, or a part of a large one.
type unit struct {
	whole    *whole
	from, to int64 // bytes of the whole; the events that begin in between are the unit's
	// split says that from and to, where they are not the whole's ends, lie anywhere in an event; lines is the whole's form then.
	split, lines bool
}

const (
	toEnd = math.MaxInt64
	// unitBytes is about how large the parts are that large wholes are replayed in.
	unitBytes = 8 << 20
)

// units makes units of wholes, the largest first.
func (s *source) units(ctx context.Context, wholes []*whole) ([]unit, error) {
	var units []unit
	for _, w := range wholes {
		from := s.done[w.key].resume(w)
		if from > 0 || !w.divisible() {
			units = append(units, unit{whole: w, from: from, to: toEnd})
			continue
		}
		lines, err := s.hasLines(ctx, w)
		if err != nil {
			return nil, err
		}
		n := w.end() / unitBytes
		for i := range n {
			units = append(units, unit{whole: w, from: i * unitBytes, to: (i + 1) * unitBytes, split: true, lines: lines})
		}
		units[len(units)-1].to = toEnd
	}
	// Large ones first, so that the last of several readers does not begin with the largest.
	slices.SortStableFunc(units, func(a, b unit) int { return cmp.Compare(b.size(), a.size()) })
	return units, nil
}

func (u unit) size() int64 { return min(u.to, u.whole.end()) - u.from }

// end is where the last chunk ends if no chunk is compressed.
func (w *whole) end() int64 {
	last := w.chunks[len(w.chunks)-1]
	return last.offset + last.object.Size
}

// divisible says whether the whole is worth being replayed in parts, and can be read from anywhere.
func (w *whole) divisible() bool {
	return w.end() >= 2*unitBytes && !slices.ContainsFunc(w.chunks, func(c chunk) bool { return c.compression != layout.Plain })
}

// hasLines says whether the whole is JSON Lines, by its first byte.
func (s *source) hasLines(ctx context.Context, w *whole) (bool, error) {
	key := w.chunks[0].object.Key
	r, err := s.store.Get(ctx, key, 0, 1)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return true, nil // replay will warn
		}
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	defer r.Close()
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	return first[0] == '{', nil
}

// readAhead is how many bytes more than a part's own are asked for, because its last event ends in the next.
const readAhead = 64 << 10

// reader reads a unit.
func (s *source) reader(ctx context.Context, fetchers *fetchers, u unit) *wholeReader {
	first := 0
	for first+1 < len(u.whole.chunks) && u.whole.chunks[first+1].offset <= u.from {
		first++
	}
	r := &wholeReader{
		ctx: ctx, store: s.store, chunks: slices.Clone(u.whole.chunks[first:]), pos: u.from, ahead: newAhead(ctx, fetchers),
		progress: s.opts.Progress, warn: s.warnings.add,
	}
	if u.to != toEnd {
		r.enough = u.to + readAhead
	}
	return r
}
