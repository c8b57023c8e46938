package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Value reads and parses a snapshot, or returns the value parsed before. Concurrent callers share one read. The value
// must not be changed. Errors are ErrMalformed, budget.ErrBusy, or come from ctx or the store.
func (s *Set) Value(ctx context.Context, snap *Snapshot) (any, error) {
	read := false
	p, err := s.values.Load(ctx, snap.object, func(ctx context.Context) (parsedSnapshot, error) {
		read = true
		return s.load(ctx, snap)
	})
	if err != nil {
		return nil, err
	}
	if read && p.bytes > usualBytes && s.opts.Grew != nil {
		s.opts.Grew()
	}
	return p.value, p.malformed
}

// load reads and parses a snapshot within the memory budget: a small one in the part for usual snapshots, one that does
// not fit there, or is larger, in the part for large ones. A snapshot that cannot be parsed is no error: its malformed
// says why, which is kept as a value would be.
func (s *Set) load(ctx context.Context, snap *Snapshot) (parsedSnapshot, error) {
	if snap.size > layout.MaxSnapshot {
		return s.noteRefused(snap,
			fmt.Errorf("%d bytes are more than the %d allowed", snap.size, layout.MaxSnapshot)), nil
	}
	var p parsedSnapshot
	var err error
	small := snap.size <= usualBytes/4 // parsed it takes several times as much
	if small {
		p, err = s.loadWithin(ctx, snap, budget.Parse, usualBytes)
	}
	if !small || errors.Is(p.malformed, pyjson.ErrTooLarge) {
		p, err = s.loadWithin(ctx, snap, budget.LargeParse, maxParsedBytes)
	}
	switch {
	case errors.Is(err, blob.ErrArchived): // an error is not kept: the snapshot may be restored
		return p, s.noteArchived(snap)
	case err != nil:
		return p, err
	case errors.Is(p.malformed, pyjson.ErrTooLarge):
		return s.noteRefused(snap, errors.New(
			"it needs more memory than one stored answer may take (three eighths of --max-answer-memory)")), nil
	}
	return p, nil
}

// loadWithin reads and parses a snapshot with up to limit bytes of a part of the memory budget, which it holds until it
// returns. The value's p.bytes count from then on as those of the cache, s.values. p.malformed says why a snapshot
// cannot be parsed; it is, or wraps, pyjson.ErrTooLarge if the bytes are not enough.
func (s *Set) loadWithin(ctx context.Context, snap *Snapshot, part budget.Part, limit int64) (p parsedSnapshot,
	err error) {
	limit = min(limit, s.opts.Memory.Size(part)) // no more is reserved, so no more is used
	if snap.size > limit {
		return parsedSnapshot{malformed: pyjson.ErrTooLarge}, nil
	}
	release, err := s.opts.Memory.Reserve(ctx, part, limit)
	if err != nil {
		return p, fmt.Errorf("read snapshot %q: %w", snap.key, err)
	}
	defer release()
	body, err := blob.ReadRange(ctx, s.store, snap.key, 0, snap.size)
	if err != nil {
		return p, fmt.Errorf("read a snapshot: %w", err)
	}
	if p.value, p.bytes, err = pyjson.ParseWithin(body, limit-int64(len(body))); err != nil {
		return parsedSnapshot{malformed: fmt.Errorf("%w %q: %w", ErrMalformed, snap.key, err)}, nil
	}
	return p, nil
}

func (s *Set) noteArchived(snap *Snapshot) error {
	malformed := s.noteRefused(snap, errors.New("the store has archived it: restore it")).malformed
	s.mu.Lock()
	defer s.mu.Unlock()
	s.archived = true
	return malformed
}

// Archived says that a snapshot was wanted that the store has archived.
func (s *Set) Archived() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.archived
}

// noteRefused records that a snapshot is not shown, and why.
func (s *Set) noteRefused(snap *Snapshot, why error) parsedSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("the saved answer to %s is left out: %v", snap.url, why)
	if len(s.refused) < maxRefused && !slices.Contains(s.refused, text) {
		s.refused = append(s.refused, text)
	}
	return parsedSnapshot{malformed: fmt.Errorf("%w %q: %w", ErrMalformed, snap.key, why)}
}

// Refused returns sentences about the snapshots that were wanted but not shown because they are too large or archived.
func (s *Set) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}
