package sessioncache

import (
	"context"
	"sync"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// asideShare is the part of MaxBytes that a session of background work may hold although others leave no room for it.
const asideShare = 16

// Aside returns a session for background work. If the session is in the cache or being loaded, Aside is Get. Otherwise
// the session is made by load, belongs to the caller alone and does not enter the cache. load takes no slot of the
// loads for which people wait, and no session in memory is dropped for it. Its memory counts against MaxBytes until
// release is called.
func (c *Cache[S]) Aside(
	ctx context.Context, ref layout.Session, load func(ctx context.Context, reserve func(bytes int64) bool) (S, error),
) (session S, release func(), err error) {
	c.mu.Lock()
	known := c.entries[ref] != nil
	c.mu.Unlock()
	if known {
		return c.Get(ctx, ref)
	}
	e := &entry[S]{ref: ref}
	func() {
		defer c.catchPanic(e, &err)
		session, err = load(ctx, func(total int64) bool { return c.reserveAside(e, total) })
	}()
	if err != nil {
		c.reserveAside(e, 0)
		return session, nil, err
	}
	c.reserveAside(e, session.MemoryBytes())
	return session, sync.OnceFunc(func() { c.reserveAside(e, 0) }), nil
}

// reserveAside records how many bytes a session aside takes, and says whether it may take so many.
func (c *Cache[S]) reserveAside(e *entry[S], total int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLoading(e, total)
	return c.bytes+c.loading <= c.maxHeld() || total <= c.opts.MaxBytes/asideShare
}
