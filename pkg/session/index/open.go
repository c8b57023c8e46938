package index

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

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
	o.once.Do(func() { o.rejected = remember[rejection]() })
	return o.rejected
}

// rejection is an index that turned out to be damaged, or whose rows could not be read.
type rejection struct {
	fingerprint string // of the objects that it was made of
	reason      error
	// again says that it may be used once more: a store that failed once may give the rows the next time.
	again bool
}

// Reject implements session.Index.
func (o *Opener) Reject(ref layout.Session, fingerprint string, reason error) {
	before, _ := o.rejections().Get(ref)
	r := rejection{fingerprint: fingerprint, reason: reason}
	if errors.Is(reason, tasktable.ErrOutdated) {
		o.rejections().Put(ref, r)
		o.Log.WithField("session", ref.String()).Info(
			"a session's index is out of date; its events are replayed, and the index is made again")
		return
	}
	r.again = !errors.Is(reason, tasktable.ErrDamaged) && before.fingerprint != fingerprint
	o.rejections().Put(ref, r)
	if !r.again {
		o.logUnusable(ref, reason)
	}
}

// logUnusable logs why events are replayed though there is an index.
func (o *Opener) logUnusable(ref layout.Session, reason error) {
	log := o.Log.WithError(reason).WithField("session", ref.String())
	var caught *guard.Panic
	if errors.As(reason, &caught) {
		log = log.WithField("stack", string(caught.Stack))
	}
	log.Warn("cannot use a session's index; its events are replayed")
}

// Accept undoes Reject: the session's index was made again.
func (o *Opener) Accept(ref layout.Session) { o.rejections().Delete(ref) }

// isRejected returns why an index must not be used; nil if it may be.
func (o *Opener) isRejected(ref layout.Session, fingerprint string) error {
	if r, ok := o.rejections().Get(ref); ok && r.fingerprint == fingerprint && !r.again {
		return r.reason
	}
	return nil
}

// Open implements session.Index. An index that is damaged is logged and not used.
func (o *Opener) Open(ctx context.Context, ref layout.Session, sources session.Sources,
	reserve func(bytes int64) bool) (*session.Tables, error) {
	stored := make(map[string]int64, len(sources.Index))
	for _, object := range sources.Index {
		stored[object.Key] = object.Size
	}
	tables, err := o.openIn(ctx, o.Store, ref, sources.Fingerprint, stored, reserve)
	if tables == nil && ctx.Err() == nil && o.Cache != nil && sources.Fingerprint != "" {
		store, stored, listErr := o.Cache.list(ctx, o.Root, ref)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case listErr != nil:
			o.Log.WithError(listErr).Warn("cannot list a session's index in --index-cache-dir")
		case store != nil:
			if cached, cacheErr := o.openIn(ctx, store, ref, sources.Fingerprint, stored, reserve); cached != nil ||
				err == nil {
				return cached, cacheErr
			}
		}
	}
	return tables, err
}

// openIn opens the index in one store; nil if there is none for the events that are stored now. An error that is not
// ctx's is why the index cannot be used.
func (o *Opener) openIn(ctx context.Context, store blob.Reader, ref layout.Session, fingerprint string,
	stored map[string]int64, reserve func(int64) bool) (*session.Tables, error) {
	key := layout.IndexKey(o.Root, ref, metaTable)
	if stored[key] == 0 {
		return nil, nil
	}
	r := &reader{store: store, root: o.Root, ref: ref, stored: stored, memory: &memoryBudget{reserve: reserve}}
	var tables *session.Tables
	err := guard.Do(key, func() (err error) {
		tables, err = o.read(ctx, r, fingerprint)
		return err
	})
	switch {
	case err == nil:
		return tables, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errStale):
		o.Log.WithField("session", ref.String()).Debug(
			"a session's index was not made from the events that are stored now")
		return nil, nil
	case !errors.Is(err, errRejected):
		o.logUnusable(ref, err)
	}
	return nil, fmt.Errorf("%w: %w", tasktable.ErrDamaged, err)
}

// errRejected is an index that was found to be damaged before; that is logged already.
var errRejected = errors.New("it was found to be damaged")

// read reads an index if it is one of the events with a fingerprint, or can be added to. Without a fingerprint it must
// have settled.
func (o *Opener) read(ctx context.Context, r *reader, fingerprint string) (*session.Tables, error) {
	meta, m, err := readMetadata(ctx, r.table(metaTable, r.stored[layout.IndexKey(r.root, r.ref, metaTable)]))
	if err != nil {
		return nil, err
	}
	_, hasCheckpoint := m.Tables[checkpointTable]
	upToDate := fingerprint == m.Fingerprint || fingerprint == "" && m.Settled
	grows := !upToDate && fingerprint != "" && hasCheckpoint
	if !upToDate && !grows {
		return nil, errStale
	}
	switch reason := o.isRejected(r.ref, m.Fingerprint); {
	case errors.Is(reason, tasktable.ErrOutdated): // perhaps it can be added to
		if fingerprint == "" {
			return nil, errStale
		}
	case reason != nil:
		return nil, fmt.Errorf("%w: %w", errRejected, reason)
	}
	if err := m.checkStored(r.root, r.ref, r.stored); err != nil {
		return nil, err
	}
	r.metadata = m
	r.group, r.ctx = errgroup.WithContext(ctx)
	out := r.readTables()
	if grows {
		r.readCheckpoint(meta, out)
	}
	if err := r.group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
