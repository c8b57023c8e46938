// Package carry keeps the findings of a session valid when its objects are joined or copied, because the session's
// content stays the same.
package carry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Findings are the stored findings of a session, and the objects of the session from which they were made. A nil
// *Findings has none.
type Findings struct {
	kept []byte
	of   *session.Session
}

// Read reads the stored findings of a session whose objects were listed. It returns nil without an error if there are
// none, or if they are damaged or not made from exactly these objects: they are computed again when they are needed.
func Read(ctx context.Context, store blob.Reader, root string, listed *inventory.Session) (f *Findings, err error) {
	key := layout.FindingsKey(root, listed.Ref)
	err = guard.CatchPanic("the kept findings of "+listed.Ref.String(), func() error {
		body, err := store.Get(ctx, key, 0, findings.MaxKeptBytes)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		kept, err := io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil {
			return err
		}
		objects, err := session.List(ctx, store, root, listed.Ref)
		if err != nil || !objects.LastStored().Equal(listed.LastWrite) {
			return err // more was stored since the session was listed
		}
		if _, err := findings.Carry(kept, objects, objects); err == nil {
			f = &Findings{kept, objects}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the findings of session %s: %w", listed.Ref, err)
	}
	return f, nil
}

// Keep stores the findings again, for the session as it is stored now. It does so only if same says that the session's
// objects, without those computed from others, have the same content as those that were listed for Read.
func (f *Findings) Keep(ctx context.Context, store blob.Store, root string,
	same func(now []inventory.Object) bool) error {
	if f == nil {
		return nil
	}
	ref := f.of.Ref
	err := guard.CatchPanic("the kept findings of "+ref.String(), func() error {
		listed, err := inventory.List(ctx, store, root, ref)
		if err != nil || !same(Sources(root, listed)) {
			return err
		}
		// Readers of findings compare them with the result of session.List. If that has later objects than those that
		// same was given, somebody wrote in between.
		now, err := session.List(ctx, store, root, ref)
		if err != nil || !now.LastStored().Equal(listed.LastWrite) {
			return err
		}
		if kept, err := findings.Carry(f.kept, f.of, now); err == nil {
			return store.Put(ctx, layout.FindingsKey(root, ref), bytes.NewReader(kept))
		}
		return nil // they have become too large, and are computed again when somebody asks for them
	})
	if err != nil {
		return fmt.Errorf("keep the findings of session %s: %w", ref, err)
	}
	return nil
}

// Sources returns the objects of a session that are not computed from others.
func Sources(root string, s *inventory.Session) (sources []inventory.Object) {
	for _, o := range s.Objects() {
		parsed, _ := layout.ParseObject(root, s.Ref, o.Key) // zero, and so not derived, for a key that it cannot parse
		if !parsed.Derived() {
			sources = append(sources, inventory.Object{Object: o, Parsed: parsed})
		}
	}
	return sources
}
