package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// settledAfter is how long nothing was stored of a session that has settled: what its collectors still had is there.
const settledAfter = time.Hour

// hasSettled says whether nothing more is to be expected of a session.
func hasSettled(s *session.Session) bool {
	last := s.LastStored()
	return s.Ended && !last.IsZero() && time.Since(last) >= settledAfter
}

// canSettle says whether s was loaded from an index that may lack the note.
func canSettle(s *session.Session) bool { return s.Indexed() && s.Listed() && hasSettled(s) }

// Settle notes in the index that a session was loaded from that the session has settled since, so that its events need not be listed before
// it is believed. It says whether that was noted; a store that refuses it is no error.
func Settle(ctx context.Context, store blob.Reader, to *Target, s *session.Session) (noted bool, err error) {
	if !canSettle(s) {
		return false, nil
	}
	noted, err = settleIn(ctx, store, to.Store.Put, to.Root, s)
	if noted || err != nil || to.Cache == nil {
		return noted, err
	}
	cache, err := to.Cache.open(false)
	if cache == nil || err != nil {
		return false, err
	}
	return settleIn(ctx, cache, to.Cache.put, to.Root, s)
}

// settleIn does so if the index lies in store.
func settleIn(ctx context.Context, store blob.Reader, put func(context.Context, string, io.ReadSeeker) error, root string, s *session.Session) (bool, error) {
	key := layout.IndexKey(root, s.Ref, metaTable)
	o, err := store.Stat(ctx, key)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	object := &object{store: store, key: key, size: o.Size}
	file, f, err := object.facts(ctx)
	if errors.Is(err, errStale) {
		return false, nil // the session's is another
	}
	if err != nil {
		return false, err
	}
	if f.Settled || f.Fingerprint != s.Fingerprint() {
		return false, nil
	}
	sources, err := readRows[source](file, object)
	if err != nil {
		return false, err
	}
	f.Settled = true
	meta, err := encodeMeta(f, sources)
	if err != nil {
		return false, err
	}
	switch err := put(ctx, key, bytes.NewReader(meta)); {
	case refused(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("note that session %s has settled: %w", s.Ref, err)
	}
	return true, nil
}
