package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// A session has settled when nothing more of it will be stored. An index that says so is used before the session's
// events are listed.

// settledAfter is how long nothing must have been stored of a session for it to count as settled: by then its
// collectors have nothing left.
const settledAfter = time.Hour

func hasSettled(s *session.Session) bool {
	last := s.LastStored()
	return s.Ended() && !last.IsZero() && time.Since(last) >= settledAfter
}

// mayMarkSettled says whether s has settled and was loaded from an index that may not say so.
func mayMarkSettled(s *session.Session) bool { return s.Indexed() && s.Listed() && hasSettled(s) }

// MarkSettled changes the index that a session was loaded from to say that the session has settled. marked reports
// whether the index was changed; a store that does not allow it is not an error. One in the Cache is left as it is: it
// is looked for only after the events were listed.
func (w *Writer) MarkSettled(ctx context.Context, s *session.Session) (marked bool, err error) {
	if !mayMarkSettled(s) {
		return false, nil
	}
	err = guard.CatchPanic(s.Ref.String(), func() (err error) {
		marked, err = w.markSettled(ctx, s)
		return err
	})
	return marked, err
}

// settlingMemory bounds what reading an index's list of objects may take to mark it. A session of a hundred thousand
// objects takes about a third.
const settlingMemory = 256 << 20

// markSettled writes the table meta of the session's index again, with the mark that the session has settled. The
// result says whether the index is marked now and was not before: not if there is none, if it was made of other
// objects, or if the store may not be written.
func (w *Writer) markSettled(ctx context.Context, s *session.Session) (bool, error) {
	key := layout.IndexKey(w.Root, s.Ref, metaTable)
	o, err := w.Store.Stat(ctx, key)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	memory := &memoryBudget{reserve: func(total int64) bool { return total <= settlingMemory }}
	table, m, err := readMetadata(ctx, sourceOf(w.Store, key, o.Size, memory))
	if errors.Is(err, errStale) {
		return false, nil // the stored index is not the one that the session was loaded from
	}
	if err != nil {
		return false, err
	}
	if m.Settled || m.Fingerprint != s.Fingerprint() {
		return false, nil
	}
	sources, err := readSources(ctx, table)
	if err != nil {
		return false, err
	}
	for i := range sources {
		sources[i].owner = ownerOf(s) // readSources leaves these columns out
	}
	m.Settled = true
	meta, err := m.encode(sources)
	if err != nil {
		return false, err
	}
	switch err := w.Put(ctx, key, bytes.NewReader(meta)); {
	case blob.IsDenied(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("mark the index of session %s as settled: %w", s.Ref, err)
	}
	return true, nil
}
