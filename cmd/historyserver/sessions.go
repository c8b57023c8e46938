package main

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/index"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/sessioncache"
)

// loadSession loads a session, tells how far it is, and asks for room, see session.Options.
type loadSession func(ctx context.Context, ref layout.Session, p *session.Progress, room func(held int64) bool) (*session.Session, error)

// newCache makes the cache that loads sessions from the store, and what ends it.
func (o *serveOptions) newCache(store blob.Store, sessions *catalog.Catalog, log logrus.FieldLogger, registry prometheus.Registerer) (cache *sessioncache.Cache[*session.Session], end func()) {
	load, stopIndexing := o.newLoad(store, sessions, log)
	cache = sessioncache.New(sessioncache.Options[*session.Session]{
		NewLoad: func(ref layout.Session) sessioncache.Load[*session.Session] {
			var p session.Progress
			return sessioncache.Load[*session.Session]{
				Run: func(ctx context.Context, room func(held int64) bool) (*session.Session, error) {
					return load(ctx, ref, &p, room)
				},
				Progress: func() sessioncache.Progress {
					return sessioncache.Progress{
						BytesDone: p.BytesDone.Load(), BytesTotal: p.BytesTotal.Load(), ObjectsDone: p.ObjectsDone.Load(), ObjectsTotal: p.ObjectsTotal.Load(),
					}
				},
			}
		},
		Refresh:      func(ctx context.Context, s *session.Session) (*session.Session, error) { return s.Refresh(ctx) },
		Growing:      sessions.Growing,
		MaxBytes:     int64(o.cacheMemory),
		MaxLoads:     o.cacheLoads,
		RefreshEvery: o.cacheRefresh,
		Log:          log,
		Registerer:   registry,
	})
	return cache, func() {
		cache.Close()
		stopIndexing()
	}
}

// newLoad gives how sessions are loaded: from their index if they have one, which is otherwise made once they have ended.
func (o *serveOptions) newLoad(store blob.Store, sessions *catalog.Catalog, log logrus.FieldLogger) (load loadSession, stop func()) {
	root := o.storage.Root
	if o.indexMode == "off" {
		return func(ctx context.Context, ref layout.Session, p *session.Progress, room func(held int64) bool) (*session.Session, error) {
			return session.Load(ctx, store, root, ref, session.Options{Progress: p, Room: room, Log: log})
		}, func() {}
	}
	opener, target := o.index.open(store, root, log)
	background := index.NewBackground(store, opener, target, log)
	verifying, endVerifying := context.WithCancel(context.Background())
	var verifications sync.WaitGroup
	return func(ctx context.Context, ref layout.Session, p *session.Progress, room func(held int64) bool) (*session.Session, error) {
			began := time.Now()
			s, err := session.Load(ctx, store, root, ref, session.Options{Progress: p, Room: room, Index: opener, Log: log})
			if err == nil && (s.Ended || !sessions.Growing(ref, began)) {
				background.Offer(s)
			}
			if err == nil {
				verifications.Go(func() {
					if err := s.Verify(verifying); err != nil && verifying.Err() == nil {
						log.WithError(err).Warn("cannot tell whether a session has grown since it was indexed")
					}
				})
			}
			return s, err
		}, func() {
			background.Close()
			endVerifying()
			verifications.Wait()
		}
}
