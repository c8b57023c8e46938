package session

import (
	"context"
	"fmt"
	"iter"
	"path"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// A session's events may be a hundred thousand objects, which take a hundred requests to list. Where an index was made after the session had
// ended and settled, it is believed at first, and only the folders beside those of events are listed; Verify lists the rest afterwards.

// loadSettled makes a session of such an index; nil if there is none.
func (s *source) loadSettled(ctx context.Context, ref layout.Session) (*Session, error) {
	if s.opts.Index == nil {
		return nil, nil
	}
	prefix := layout.Prefix(s.root, ref)
	var stored []blob.Object
	for o, err := range s.store.List(ctx, prefix+"index/", blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list the index: %w", err)
		}
		stored = append(stored, o)
	}
	if len(stored) == 0 {
		return nil, nil
	}
	tables, err := s.opts.Index.Open(ctx, ref, Sources{Index: stored})
	if tables == nil || err != nil {
		return nil, err
	}
	inv, err := inventoryOf(s.store, s.root, ref, besideEvents(ctx, s.store, prefix), s.opts.Progress)
	if err != nil || !inv.ended {
		return nil, err
	}
	inv.sources.Fingerprint = tables.Fingerprint
	out, err := s.indexedSession(ctx, ref, inv, tables)
	s.unlisted = out != nil
	return out, err
}

// besideEvents lists a session's objects but for events.
func besideEvents(ctx context.Context, store blob.Reader, prefix string) iter.Seq2[blob.Object, error] {
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
				below = besideEvents(ctx, store, o.Key) // the newer layout's folder of a node
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

// Listed says that all that the session was made of was listed when it was loaded, not believed to be what it was.
func (s *Session) Listed() bool { return !s.source.unlisted }

// LastStored is when anything that the session was made of was stored last; zero if more has been stored by now.
func (s *Session) LastStored() time.Time { return s.stored }

// Verify lists what the session's index was made of, if Load did not: the session is Broken, and its index rejected, if something else is
// stored by now.
func (s *Session) Verify(ctx context.Context) error {
	if !s.source.unlisted {
		return nil
	}
	fingerprint, err := sourcesNow(ctx, s.source.store, s.source.root, s.Ref)
	if err != nil {
		return fmt.Errorf("verify the index of session %s: %w", s.Ref, err)
	}
	if fingerprint != s.fingerprint {
		s.Tasks.paged.fail(fmt.Errorf("%w: it was not made of what is stored now", ErrDamaged))
	}
	return nil
}
