package sessionload

import (
	"context"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
)

// CacheOptions are the limits of a cache, as in sessioncache.Options.
type CacheOptions struct {
	MaxBytes     int64
	MaxLoads     int
	RefreshEvery time.Duration
}

// Cache makes a cache of the sessions that the loader loads. Close it before the loader.
func (l *Loader) Cache(o CacheOptions) *sessioncache.Cache[*session.Session] {
	var cache *sessioncache.Cache[*session.Session]
	cache = sessioncache.New(sessioncache.Options[*session.Session]{
		Load: func(ctx context.Context, ref layout.Session, p *progress.Counter,
			reserve func(bytes int64) bool) (*session.Session, error) {
			return l.load(ctx, ref, p, reserve, func() { cache.Measure(ref) })
		},
		Refresh:      l.refresh,
		Growing:      l.opts.Growing,
		MaxBytes:     o.MaxBytes,
		MaxLoads:     o.MaxLoads,
		RefreshEvery: o.RefreshEvery,
		Log:          l.opts.Log,
		Registerer:   l.opts.Registerer,
	})
	return cache
}
