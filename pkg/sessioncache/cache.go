// Package sessioncache holds loaded sessions in memory, within a bound.
//
// A session is loaded once however many requests wait for it, goes on loading for a while when they give up, and is let go when others
// need its memory and nobody uses it: the next request loads it again. Nobody outside sees the difference but in time.
package sessioncache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// Loaded is what the cache asks of a session. It does not change once it is made.
type Loaded interface {
	comparable
	// MemoryBytes is about how much memory the session holds.
	MemoryBytes() int64
	// Broken says that the session can no longer answer: whoever comes next loads it again.
	Broken() bool
}

// Load is one load of a session, not begun.
type Load[S Loaded] struct {
	// Run loads the session. It tells room, every now and then, how many bytes it holds by then, and holds less where room says that it
	// may not hold so many; so may Refresh of the session that it gives.
	Run func(ctx context.Context, room func(held int64) bool) (S, error)
	// Progress tells how far Run is; it may be called at any time from any goroutine.
	Progress func() Progress
}

// Progress tells how far a load is. Totals are 0 until they are known.
type Progress struct {
	BytesDone, BytesTotal     int64
	ObjectsDone, ObjectsTotal int64
}

// Options of a Cache.
type Options[S Loaded] struct {
	// NewLoad prepares the load of a session.
	NewLoad func(ref layout.Session) Load[S]
	// Refresh gives the session with what was stored since it was loaded or last refreshed; the same one if that is nothing.
	Refresh func(ctx context.Context, session S) (S, error)
	// Growing says whether more of a session may have been stored since the given time.
	Growing func(ref layout.Session, since time.Time) bool
	// MaxBytes bounds the memory of all sessions, whether used at the moment or not, and of the loads under way; the one used last stays
	// even if it is larger.
	MaxBytes int64
	// MaxLoads bounds how many sessions are loaded at a time; others wait.
	MaxLoads int
	// RefreshEvery is the shortest time between two refreshes of a growing session; 3 s if 0.
	RefreshEvery time.Duration
	// RefreshWait is how long a caller waits for a refresh before it takes the session as it was; 2 s if 0.
	RefreshWait time.Duration
	// Linger is how long a load goes on when nobody waits for it any more; 60 s if 0. It is longer than a client takes to ask again.
	Linger     time.Duration
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// failedFor is how long a failed load is remembered, so that a dashboard that polls ten routes does not load ten times a second.
const failedFor = 3 * time.Second

var (
	// ErrClosed is what those who wait for a load get when the cache is closed.
	ErrClosed = errors.New("the session cache is closed")
	// ErrPanic is a load that ended in a panic; the log has the stack.
	ErrPanic = errors.New("internal error, the server's log tells more")
)

// Cache holds loaded sessions. It may be used by several goroutines.
type Cache[S Loaded] struct {
	opts    Options[S]
	metrics metrics
	slots   chan struct{} // one token for each load that runs
	ctx     context.Context
	stop    context.CancelFunc
	loads   sync.WaitGroup

	mu      sync.Mutex
	entries map[layout.Session]*entry[S]
	recent  list.List // of *entry[S] that are ready, the one used last in front
	bytes   int64     // of the ready ones
	loading int64     // bytes that loads and refreshes under way hold
	holders int64     // how many of them hold any
}

// entry is one session of the cache. All fields but ref, ready, progress and cancel are guarded by the cache's mutex until ready is closed.
type entry[S Loaded] struct {
	ref      layout.Session
	ready    chan struct{} // closed when the load ended
	progress func() Progress
	cancel   context.CancelCauseFunc // of the load

	began   time.Time
	queued  bool  // waits for a slot
	held    int64 // bytes that its load or refresh holds
	waiters int   // callers that wait for the load
	giveUp  *time.Timer

	session S
	err     error
	ended   time.Time // the load
	bytes   int64
	users   int // callers that hold the session
	place   *list.Element

	readAt     time.Time // when the last successful load or refresh began
	refreshed  time.Time // when the last refresh ended, well or not
	refreshing bool
	refreshErr error // of the last refresh
}

// New makes an empty cache.
func New[S Loaded](opts Options[S]) *Cache[S] {
	if opts.RefreshEvery == 0 {
		opts.RefreshEvery = 3 * time.Second
	}
	if opts.RefreshWait == 0 {
		opts.RefreshWait = 2 * time.Second
	}
	if opts.Linger == 0 {
		opts.Linger = time.Minute
	}
	c := &Cache[S]{opts: opts, slots: make(chan struct{}, max(1, opts.MaxLoads)), entries: make(map[layout.Session]*entry[S])}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.metrics = newMetrics(opts.Registerer, c.usage)
	return c
}

// Close cancels all loads and waits for them.
func (c *Cache[S]) Close() {
	c.stop()
	c.loads.Wait()
}

// Get gives a session, loading or refreshing it first if need be. The caller calls release when it no longer uses the session. An error
// that is ctx's says that the load goes on; Status tells how far it is.
func (c *Cache[S]) Get(ctx context.Context, ref layout.Session) (session S, release func(), err error) {
	e := c.join(ref)
	select {
	case <-e.ready:
	case <-ctx.Done():
		c.leave(e)
		return session, nil, fmt.Errorf("wait for session %s: %w", ref, context.Cause(ctx))
	}
	if e.err != nil {
		c.leave(e)
		return session, nil, e.err
	}
	c.use(e)
	session = c.refresh(ctx, e)
	return session, sync.OnceFunc(func() { c.release(e, session) }), nil
}

// Begin starts to load a session, if it is not there, without waiting for it.
func (c *Cache[S]) Begin(ref layout.Session) { c.leave(c.join(ref)) }

// join finds or makes the entry of a session and counts the caller as waiting.
func (c *Cache[S]) join(ref layout.Session) *entry[S] {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[ref]
	if e != nil && !e.ended.IsZero() && e.err == nil && e.session.Broken() {
		c.drop(e)
		e = nil
	}
	if e == nil {
		e = c.start(ref)
	} else {
		c.metrics.gets.WithLabelValues(e.getResult()).Inc()
	}
	e.waiters++
	if e.giveUp != nil {
		e.giveUp.Stop()
		e.giveUp = nil
	}
	return e
}

func (e *entry[S]) getResult() string {
	if e.ended.IsZero() {
		return "joined"
	}
	return "hit"
}

// leave ends what join began. The last one to leave a load that still runs leaves it Linger to end.
func (c *Cache[S]) leave(e *entry[S]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.waiters--
	if e.waiters > 0 || !e.ended.IsZero() {
		return
	}
	e.giveUp = time.AfterFunc(c.opts.Linger, func() { c.abandon(e) })
}

// abandon cancels a load that nobody waits for.
func (c *Cache[S]) abandon(e *entry[S]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.waiters > 0 || !e.ended.IsZero() {
		return
	}
	c.opts.Log.WithField("session", e.ref.String()).Info("cancelled the load of a session that nobody waits for")
	e.cancel(fmt.Errorf("load session %s: nobody waited for it for %s", e.ref, c.opts.Linger))
	// Whoever comes next starts anew instead of getting the cancellation.
	c.forget(e)
}

// drop takes an entry that is ready out of the cache; c.mu must be held.
func (c *Cache[S]) drop(e *entry[S]) {
	if e.place != nil {
		c.recent.Remove(e.place)
		e.place = nil
		c.bytes -= e.bytes
	}
	c.forget(e)
}

// forget makes the next Get of a session load it; c.mu must be held.
func (c *Cache[S]) forget(e *entry[S]) {
	if c.entries[e.ref] == e {
		delete(c.entries, e.ref)
	}
}

// use makes a caller that waited for a session one that uses it.
func (c *Cache[S]) use(e *entry[S]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.waiters--
	e.users++
	if e.place != nil {
		c.recent.MoveToFront(e.place)
	}
}

// Peek gives a session that is in memory, to look at and not to keep: it neither loads nor counts as a use.
func (c *Cache[S]) Peek(ref layout.Session) (session S, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[ref]; e != nil && e.place != nil {
		return e.session, true
	}
	return session, false
}

// release ends a use. What was used may have grown: answers are prepared and kept when they are first asked for.
func (c *Cache[S]) release(e *entry[S], session S) {
	bytes := session.MemoryBytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if e.session == session {
		c.measured(e, bytes)
	}
	c.evict()
}

// measured notes how large a session is; c.mu must be held.
func (c *Cache[S]) measured(e *entry[S], bytes int64) {
	if e.place != nil {
		c.bytes += bytes - e.bytes
		e.bytes = bytes
	}
}

// room counts what a load holds, and says whether it may hold so much: sessions that nobody uses go first. Where there is not enough for
// all loads, those that hold more than their share give way to the others.
func (c *Cache[S]) room(e *entry[S], held int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.held == 0 && held > 0:
		c.holders++
	case e.held > 0 && held == 0:
		c.holders--
	}
	c.loading += held - e.held
	e.held = held
	c.evict()
	return c.bytes+c.loading <= c.bound() || held <= (c.bound()-c.bytes)/max(1, c.holders)
}

// bound is how much the sessions and loads may hold. While there are loads a quarter is left free: what they drop goes on taking memory
// until the garbage collector has come by.
func (c *Cache[S]) bound() int64 {
	if c.loading > 0 {
		return c.opts.MaxBytes - c.opts.MaxBytes/4
	}
	return c.opts.MaxBytes
}

// evict lets sessions go, those unused for longest first, until the rest is within the bound; c.mu must be held. Sessions in use stay, for
// dropping them would free nothing, and so does the one used last unless a load needs its memory.
func (c *Cache[S]) evict() {
	for p := c.recent.Back(); p != nil && c.bytes+c.loading > c.bound(); {
		if p == c.recent.Front() && c.loading == 0 {
			return
		}
		e := p.Value.(*entry[S])
		p = p.Prev()
		if e.users > 0 || e.waiters > 0 {
			continue
		}
		c.drop(e)
		c.metrics.evictions.Inc()
		c.opts.Log.WithFields(logrus.Fields{"session": e.ref.String(), "bytes": e.bytes}).Debug("let a session go, for others need its memory")
	}
}
