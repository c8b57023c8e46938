package index

import (
	"context"
	"errors"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Opener finds and opens the indexes of sessions. It implements session.Index.
type Opener struct {
	Store blob.Reader
	// Cache, if set, holds the indexes that could not be put into Store.
	Cache *Cache
	Root  string
	Log   logrus.FieldLogger

	once     sync.Once
	rejected remembered[rejection] // see rejections
}

// rejections are the indexes that must not be used. Openers have no constructor.
func (o *Opener) rejections() remembered[rejection] {
	o.once.Do(func() { o.rejected = newRemembered[rejection]() })
	return o.rejected
}

// rejection is an index that turned out to be damaged, or whose rows could not be read.
type rejection struct {
	fingerprint string // of the objects that it was made of
	reason      error
	// again says that it may be used once more: a store that failed once may give the rows the next time.
	again bool
}

// Reject implements session.Index. After an error that may not be the index's own, such as one of the store, the index
// is used once more; if it is rejected again, or is damaged, it is not used any more. An outdated index is not used
// either.
func (o *Opener) Reject(ref layout.Session, fingerprint string, reason error) {
	before, _ := o.rejections().Get(ref)
	outdated := errors.Is(reason, tasktable.ErrOutdated)
	again := !outdated && !errors.Is(reason, tasktable.ErrDamaged) && before.fingerprint != fingerprint
	o.rejections().Put(ref, rejection{fingerprint, reason, again})
	switch {
	case outdated:
		o.Log.WithField("session", ref.String()).Info(
			"a session's index is out of date; its events are replayed, and the index is made again")
	case !again:
		o.logUnusable(ref, reason)
	}
}

// logUnusable logs why events are replayed though there is an index.
func (o *Opener) logUnusable(ref layout.Session, reason error) {
	log := o.Log.WithError(reason).WithField("session", ref.String())
	if caught, ok := errors.AsType[*guard.Panic](reason); ok {
		log = log.WithField("stack", string(caught.Stack))
	}
	log.Warn("cannot use a session's index; its events are replayed")
}

// Accept undoes Reject: the session's index was made again.
func (o *Opener) Accept(ref layout.Session) { o.rejections().Delete(ref) }

// whyRejected returns why an index must not be used; nil if it may be.
func (o *Opener) whyRejected(ref layout.Session, fingerprint string) error {
	if r, ok := o.rejections().Get(ref); ok && r.fingerprint == fingerprint && !r.again {
		return r.reason
	}
	return nil
}

// Open implements session.Index. It takes the index in the store or, if that cannot be used, the one in the cache.
// Without a fingerprint the cache is not used. A damaged index is logged and not used. If there is no index to use, the
// tables are nil; then the error is that of the store, if reading the index there failed.
func (o *Opener) Open(ctx context.Context, ref layout.Session, sources session.Sources,
	reserve func(bytes int64) bool) (*session.Tables, error) {
	tables, err := o.reader(o.Store, ref, sources.Index, reserve).open(ctx, sources.Fingerprint)
	if tables != nil || ctx.Err() != nil || o.Cache == nil || sources.Fingerprint == "" {
		return tables, err
	}
	store, listed, listErr := o.Cache.list(ctx, layout.IndexPrefix(o.Root, ref))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case listErr != nil:
		o.Log.WithError(listErr).Warn("cannot list a session's index in --index-cache-dir")
		return nil, err
	}
	cached, cacheErr := o.reader(store, ref, listed, reserve).open(ctx, sources.Fingerprint)
	if cached == nil && err != nil {
		return nil, err
	}
	return cached, cacheErr
}
