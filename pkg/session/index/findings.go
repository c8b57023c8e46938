package index

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Why a session ended as it did is kept beside its tables. Unlike these it says itself which stored objects it was made
// of, so it needs no index, and a session too small for one has it all the same.

// KeptFindings opens what is kept of a session's findings: at most n bytes of it, all with blob.ToEnd. The error is
// os.ErrNotExist if nothing is kept.
func (o *Opener) KeptFindings(ctx context.Context, ref layout.Session, n int64) (io.ReadCloser, error) {
	key := layout.FindingsKey(o.Root, ref)
	body, err := o.Store.Get(ctx, key, 0, n)
	if err == nil || o.Cache == nil || ctx.Err() != nil {
		return body, err
	}
	cached, cacheErr := o.Cache.open(ifExists) // nil if there is none
	if cached == nil || cacheErr != nil {
		return nil, errors.Join(err, cacheErr)
	}
	return cached.Get(ctx, key, 0, n)
}

// KeepFindings keeps a session's findings, unless they are kept already; always with force. The session must have
// ended.
func (w *Writer) KeepFindings(ctx context.Context, s *session.Session, force bool) error {
	if w.Findings == nil {
		return nil
	}
	return guard.CatchPanic(s.Ref.String(), func() error { return w.keepFindings(ctx, s, force) })
}

// PutFindings stores what is kept of a session's findings.
func (w *Writer) PutFindings(ctx context.Context, ref layout.Session, kept []byte) error {
	if err := w.put(ctx, layout.FindingsKey(w.Root, ref), bytes.NewReader(kept)); err != nil {
		return err
	}
	return w.endWriting(ctx, ref)
}

// keepFindings stores a session's findings, unless those stored are up to date; force stores them anyway. Nothing is
// stored, without an error, if the session has none to store.
func (w *Writer) keepFindings(ctx context.Context, s *session.Session, force bool) error {
	var kept io.Reader // what is stored already; nil if that does not count
	if !force {
		body, err := w.KeptFindings(ctx, s.Ref, blob.ToEnd)
		switch {
		case err == nil:
			defer func() { _ = body.Close() }()
			kept = body
		case !errors.Is(err, os.ErrNotExist):
			return err
		}
	}
	if !s.Listed() { // only a listing of all objects says when the last one was stored, which findings are kept with
		var err error
		if s, err = s.Refresh(ctx); err != nil {
			return err
		}
	}
	body, err := w.Findings(ctx, s, kept)
	if body == nil || err != nil {
		return err
	}
	if err := s.Tasks.Err(); err != nil { // rows could not be read: findings may be missing
		return err
	}
	return w.PutFindings(ctx, s.Ref, body)
}
