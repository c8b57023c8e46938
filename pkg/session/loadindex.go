package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// loadIndex loads a listed session from its index, and what was stored since from the events. The session is nil if no
// index can be used.
func (s *source) loadIndex(ctx context.Context, found *listing) (*Session, error) {
	if s.opts.Index == nil {
		return nil, nil
	}
	tables, err := s.openIndex(ctx, found.sources)
	if err != nil || tables == nil {
		return nil, err
	}
	if tables.Fingerprint != found.sources.Fingerprint {
		return s.loadCheckpoint(ctx, found, tables)
	}
	return s.indexedSession(ctx, found, tables)
}

// openIndex returns the tables of an index; nil if no index can be used.
func (s *source) openIndex(ctx context.Context, sources Sources) (*Tables, error) {
	tables, err := s.opts.Index.Open(ctx, s.ref, sources, s.opts.Reserve)
	s.index.refused = nil
	if errors.Is(err, tasktable.ErrDamaged) || errors.Is(err, blob.ErrArchived) {
		s.index.refused = err
		return nil, nil
	}
	return tables, err
}

// indexedSession makes a session of an index's tables; nil if they are damaged.
func (s *source) indexedSession(ctx context.Context, found *listing, tables *Tables) (*Session, error) {
	out, err := s.fromTables(ctx, found, tables)
	if errors.Is(err, tasktable.ErrDamaged) {
		s.rejectIndex(found.sources.Fingerprint, err)
		return nil, nil
	}
	return out, err
}

// fromTables makes a session of an index's tables and of found, the session's listing. Tables that do not fit together
// are tasktable.ErrDamaged.
func (s *source) fromTables(ctx context.Context, found *listing, from *Tables) (*Session, error) {
	tables, err := from.Builder()
	if err != nil {
		return nil, err
	}
	out := s.newSession(found)
	out.Warnings = from.Warnings
	out.damage = min(max(0, from.Damage), len(from.Warnings)) // the stored number may be any
	ends, err := out.setEntities(ctx, found, from.Set, from.Start, from.End, tables.Strings)
	if err != nil {
		return nil, err
	}
	out.Tasks = tables.FreezePaged(&from.Stored, ends,
		func(reason error) { s.opts.Index.Reject(s.ref, out.fingerprint, reason) })
	s.version, s.index.used = found.version, true
	return out, nil
}

// rejectIndex reports that the tables of an index turned out to be damaged.
func (s *source) rejectIndex(fingerprint string, reason error) {
	s.index.refused = reason
	s.opts.Index.Reject(s.ref, fingerprint, reason)
}

// refuseIndex adds the reason why the index was not used to the session's warnings.
func (s *source) refuseIndex(out *Session) {
	if s.index.refused != nil {
		out.Warnings, out.refused = append(slices.Clone(out.Warnings),
			fmt.Sprintf("the session's index was not used and its events were replayed: %v", s.index.refused)), 1
	}
}

// The events of a session may be a hundred thousand objects, which take a hundred requests to list. An index that was
// made after the session settled is therefore trusted at first: only the folders besides those of events are listed.
// Verify lists the rest later.

// loadSettled makes a session of an index that was made after the session settled; stored are the index's objects. The
// session is nil if there is no index, if it was made earlier or cannot be used, or if no end of the session is stored.
func (s *source) loadSettled(ctx context.Context, stored []blob.Object) (*Session, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	tables, err := s.openIndex(ctx, Sources{Index: stored})
	if tables == nil || err != nil {
		return nil, err
	}
	found, err := s.sortObjects(ctx, listWithoutEvents(ctx, s.store, layout.Prefix(s.root, s.ref)))
	if err != nil || found.life.End.IsZero() {
		return nil, err
	}
	if err := s.completeListing(ctx, found); err != nil {
		return nil, err
	}
	found.sources.Fingerprint = tables.Fingerprint
	out, err := s.indexedSession(ctx, found, tables)
	s.index.unverified = out != nil // Verify lists the events later
	return out, err
}

// listIndex lists the objects of the session's index; none if the options have no Index.
func (s *source) listIndex(ctx context.Context) (stored []blob.Object, err error) {
	if s.opts.Index == nil {
		return nil, nil
	}
	for o, err := range s.store.List(ctx, layout.IndexPrefix(s.root, s.ref), blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list the index: %w", err)
		}
		stored = append(stored, o)
	}
	return stored, nil
}

// listWithoutEvents lists the objects below a session's prefix, or below a node's folder of the newer layout, without
// the folders of events. The order of keys is that of one listing.
func listWithoutEvents(ctx context.Context, store blob.Reader, prefix string) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		for o, err := range store.List(ctx, prefix, blob.ListOptions{Delimited: true}) {
			if err != nil || !o.Prefix {
				if !yield(o, err) {
					return
				}
				continue
			}
			below := store.List(ctx, o.Key, blob.ListOptions{})
			switch folder := path.Base(o.Key); {
			case folder == "node_events" || folder == "job_events":
				continue
			case isNode(folder):
				below = listWithoutEvents(ctx, store, o.Key) // the newer layout's folder of a node
			}
			for object, err := range below {
				if !yield(object, err) {
					return
				}
			}
		}
	}
}

func isNode(folder string) bool {
	_, err := rayid.Parse[rayid.Node](folder)
	return err == nil
}

// Listed reports whether all sources of the session were listed when it was loaded. If not, a settled index was
// trusted, see Verify.
func (s *Session) Listed() bool { return !s.source.index.unverified }

// Ended says that the session's end is stored.
func (s *Session) Ended() bool { return !s.Life.End.IsZero() }

// LastStored is when the newest of the session's objects was stored, of those that were listed.
func (s *Session) LastStored() time.Time { return s.stored }

// StateAt says whether the session runs at a time of the machine that asks, and when it ended: see lifetime.State.
func (s *Session) StateAt(now time.Time) (runs bool, ended time.Time) {
	const objects = 1 // a session that could be loaded has some
	return lifetime.State(s.Life.End, s.stored, objects, now, lifetime.Idle)
}

// ObjectCount is how many objects of the session were listed, without those of its index.
func (s *Session) ObjectCount() int { return s.objectCount }

// Verify lists the sources of the session's index, if Load did not. If they have changed, as they do when a store is
// copied, the session becomes Broken and its index is rejected. Whoever uses the session meanwhile goes on with what
// the index says.
func (s *Session) Verify(ctx context.Context) error {
	if !s.source.index.unverified {
		return nil
	}
	fingerprint, err := currentFingerprint(ctx, s.source.store, s.source.root, s.Ref)
	if err != nil {
		return fmt.Errorf("verify the index of session %s: %w", s.Ref, err)
	}
	if fingerprint != s.fingerprint {
		s.source.index.outdated.Store(true)
		s.source.opts.Index.Reject(s.Ref, s.fingerprint, tasktable.ErrOutdated)
	}
	return nil
}

// HasIndex says that an index is stored, whether it could be used or not.
func (s *Session) HasIndex() bool { return s.source.index.exists }

// Indexed says that the tables come from an index.
func (s *Session) Indexed() bool { return s.source.index.used }
