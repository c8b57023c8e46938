package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/sessioncache"
)

// newCache makes the cache that loads sessions from the store, and what ends it.
func (o *serveOptions) newCache(store blob.Store, sessions *catalog.Catalog, log logrus.FieldLogger, registry prometheus.Registerer) (cache *sessioncache.Cache[*session.Session], end func()) {
	loader := o.newLoader(store, sessions, log, registry)
	cache = sessioncache.New(sessioncache.Options[*session.Session]{
		NewLoad: func(ref layout.Session) sessioncache.Load[*session.Session] {
			var p session.Progress
			return sessioncache.Load[*session.Session]{
				Run: func(ctx context.Context, room func(held int64) bool) (*session.Session, error) {
					return loader.load(ctx, ref, &p, room)
				},
				Progress: func() sessioncache.Progress {
					return sessioncache.Progress{
						BytesDone: p.BytesDone.Load(), BytesTotal: p.BytesTotal.Load(), ObjectsDone: p.ObjectsDone.Load(), ObjectsTotal: p.ObjectsTotal.Load(),
					}
				},
			}
		},
		Refresh:      loader.refresh,
		Growing:      sessions.Growing,
		MaxBytes:     int64(o.cacheMemory),
		MaxLoads:     o.cacheLoads,
		RefreshEvery: o.cacheRefresh,
		Log:          log,
		Registerer:   registry,
	})
	return cache, func() {
		cache.Close()
		loader.close()
	}
}
