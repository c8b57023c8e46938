package sessioncache

import (
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// endUse ends a use. The session may have grown meanwhile: it prepares and keeps answers when they are first asked
// for.
func (c *Cache[S]) endUse(e *entry[S], session S) {
	bytes := session.MemoryBytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if e.session == session {
		c.setSize(e, bytes)
	}
	c.evict()
}

// Measure records how large a session has become while it is used. If the cache is then beyond its bound, sessions that
// nobody uses are dropped, and if that is not enough, the others shrink, the least recently used first. A session that
// is not in memory is ignored.
func (c *Cache[S]) Measure(ref layout.Session) {
	session, ok := c.Peek(ref)
	if !ok {
		return
	}
	bytes := session.MemoryBytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[ref]; e != nil && e.session == session {
		c.setSize(e, bytes)
	}
	c.evict()
	for el := c.recent.Back(); el != nil && c.bytes+c.loading > c.maxHeld(); el = el.Prev() {
		e := el.Value.(*entry[S])
		e.session.Shrink()
		c.setSize(e, e.session.MemoryBytes())
	}
}

// setSize records how large a session is; c.mu must be held.
func (c *Cache[S]) setSize(e *entry[S], bytes int64) {
	if e.element != nil {
		c.bytes += bytes - e.bytes
		e.bytes = bytes
	}
}

// reserve records how many bytes a load holds, and says whether it may hold so many. Sessions that nobody uses are
// dropped first. Where there is not enough for all loads, those that hold more than an equal share may not.
func (c *Cache[S]) reserve(e *entry[S], total int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLoading(e, total)
	c.evict()
	return c.bytes+c.loading <= c.maxHeld() || total <= (c.maxHeld()-c.bytes)/max(1, c.holders)
}

// setLoading records how many bytes a load holds; c.mu must be held.
func (c *Cache[S]) setLoading(e *entry[S], total int64) {
	switch {
	case e.reserved == 0 && total > 0:
		c.holders++
	case e.reserved > 0 && total == 0:
		c.holders--
	}
	c.loading += total - e.reserved
	e.reserved = total
}

// maxHeld is how much the sessions and loads may hold. While there are loads a quarter is left free: what they drop
// takes memory until the garbage collector frees it.
func (c *Cache[S]) maxHeld() int64 {
	if c.loading > 0 {
		return c.opts.MaxBytes - c.opts.MaxBytes/4
	}
	return c.opts.MaxBytes
}

// evict drops sessions, the least recently used first, until the rest is within the bound; c.mu must be held. Sessions
// in use stay, because dropping them would free nothing. So does the one used last, unless a load needs its memory.
func (c *Cache[S]) evict() {
	for el := c.recent.Back(); el != nil && c.bytes+c.loading > c.maxHeld(); {
		if el == c.recent.Front() && c.loading == 0 {
			return
		}
		e := el.Value.(*entry[S])
		el = el.Prev()
		if e.users > 0 || e.waiters > 0 {
			continue
		}
		c.drop(e)
		c.metrics.evictions.Inc()
		c.opts.Log.WithFields(logrus.Fields{"session": e.ref.String(),
			"bytes": e.bytes}).Debug("dropped a session because others need its memory")
	}
}
