package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// Target is where indexes are put: the sessions' own store or, where that does not allow it, a folder.
type Target struct {
	Store Putter
	// Cache may be nil: then what Store refuses is an error.
	Cache *Cache
	Root  string
	Log   logrus.FieldLogger

	denied atomic.Bool
}

// Putter is the part of a store that indexes need.
type Putter interface {
	Put(ctx context.Context, key string, body io.ReadSeeker) error
}

// put stores an object.
func (t *Target) put(ctx context.Context, key string, body io.ReadSeeker) error {
	if !t.denied.Load() {
		err := t.Store.Put(ctx, key, body)
		switch {
		case !refused(err):
			return err
		case t.Cache == nil:
			return fmt.Errorf("%w; allow writing below every session's index/ or set --index-cache-dir", err)
		}
		if !t.denied.Swap(true) {
			t.Log.WithError(err).Warn("indexes may not be written to the store; they are kept in --index-cache-dir")
		}
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return t.Cache.put(ctx, key, body)
}

// refused says that a store does not allow writing. A folder that is mounted read-only says so in its own words.
func refused(err error) bool {
	return errors.Is(err, blob.ErrPermission) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// done is called when an index is whole.
func (t *Target) done(ctx context.Context) error {
	if !t.denied.Load() {
		return nil
	}
	return t.Cache.trim(ctx, t.Root)
}
