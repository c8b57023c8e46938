// Package sessioncache keeps loaded sessions in memory, within a limit.
//
// A session is loaded once, however many requests wait for it, and loading continues for a while after they give up. A
// session is dropped when nobody uses it and others need its memory; the next request loads it again. Callers notice
// only the time that this takes.
package sessioncache

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Session is what the cache asks of a session. It does not change once it is made.
type Session interface {
	comparable
	// MemoryBytes is about how much memory the session holds.
	MemoryBytes() int64
	// Broken says that the session can no longer answer: the next Get loads it again.
	Broken() bool
	// Shrink drops what the session holds only to save reading it again. The session goes on answering.
	Shrink()
}

// Options of a Cache.
type Options[S Session] struct {
	// Load loads a session and counts in p how far it is. From time to time it calls reserve with the bytes that it
	// holds, and holds less if the answer is false. Refresh of the session that it returns may do the same.
	Load func(ctx context.Context, ref layout.Session, p *progress.Counter, reserve func(bytes int64) bool) (S, error)
	// Refresh returns the session with what was stored since it was loaded or last refreshed; the same one if nothing
	// was.
	Refresh func(ctx context.Context, session S) (S, error)
	// Growing says whether more of a session may have been stored since the given time.
	Growing func(ref layout.Session, since time.Time) bool
	// MaxBytes bounds the memory of all sessions, in use or not, and of the loads under way. The session used last
	// stays even if it is larger.
	MaxBytes int64
	// MaxLoads bounds how many sessions are loaded at a time; others wait.
	MaxLoads int
	// RefreshEvery is the shortest time between two refreshes of a growing session; DefaultRefreshEvery if
	// 0. It is longer where refreshes take long, see refreshShare.
	RefreshEvery time.Duration
	// RefreshWait is how long a caller waits for a refresh before it gets the session as it was; 2 s if 0.
	RefreshWait time.Duration
	// Linger is how long a load continues when no request waits for it any more; 60 s if 0. Clients ask again sooner
	// than that.
	Linger     time.Duration
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// failedFor is how long a failed load is remembered, so that a dashboard that polls ten routes does not load ten times
// a second.
const failedFor = 3 * time.Second

// loadTurn is how long a load may take while sessions of other namespaces, or others of its own, wait to be loaded.
const loadTurn = 3 * time.Minute

// A refresh that took t is followed by a pause of refreshShare × t, at most maxPause: listing and copying a large
// session take at most about a tenth of the time.
const (
	refreshShare = 10
	maxPause     = 2 * time.Minute
)

var (
	// ErrClosed ends the waiting for a load when the cache is closed.
	ErrClosed = errors.New("the session cache is closed")
	// ErrTurn is a load that took too long while other sessions waited.
	ErrTurn = errors.New("its load was ended because other sessions waited")
	// ErrPanic is a load that ended in a panic; the log has the stack.
	ErrPanic = errors.New("internal error; the server's log has the details")
	// errAbandoned ends a load that no request waits for.
	errAbandoned = errors.New("nobody waited for it")
)

// Cache holds loaded sessions. It is safe for concurrent use.
type Cache[S Session] struct {
	opts    Options[S]
	metrics metrics
	slots   *turns.Slots // for loads, by namespace
	ctx     context.Context
	stop    context.CancelFunc
	loads   sync.WaitGroup

	mu      sync.Mutex
	entries map[layout.Session]*entry[S]
	recent  list.List // *entry[S] that are ready, the one used last in front
	bytes   int64     // of the ready ones
	loading int64     // bytes that loads and refreshes under way hold
	holders int64     // loads and refreshes that hold any
}

// entry is one session of the cache. All fields but ref, ready, progress and cancel are guarded by the cache's mutex
// until ready is closed.
type entry[S Session] struct {
	ref      layout.Session
	ready    chan struct{}           // closed when the load ended
	progress progress.Counter        // of the load
	cancel   context.CancelCauseFunc // of the load

	asked    time.Time // when its first caller asked; Status.Elapsed counts from here
	queued   bool      // waits for a slot
	reserved int64     // bytes that its load or refresh takes
	waiters  int       // callers that wait for the load
	giveUp   *time.Timer

	session   S
	err       error
	loadEnded time.Time
	bytes     int64
	users     int           // callers that hold the session
	element   *list.Element // of recent; nil if not in it

	readAt  time.Time // when the last successful load or refresh began
	refresh refreshState
}

// refreshState is what is known of a session's refreshes.
type refreshState struct {
	running bool
	ended   time.Time // the load, or the last refresh, well or not
	took    time.Duration
	err     error
}

// DefaultRefreshEvery is the default of Options.RefreshEvery.
const DefaultRefreshEvery = 3 * time.Second

// New makes an empty cache.
func New[S Session](opts Options[S]) *Cache[S] {
	opts.RefreshEvery = cmp.Or(opts.RefreshEvery, DefaultRefreshEvery)
	opts.RefreshWait = cmp.Or(opts.RefreshWait, 2*time.Second)
	opts.Linger = cmp.Or(opts.Linger, time.Minute)
	c := &Cache[S]{opts: opts, slots: turns.New(max(1, opts.MaxLoads), loadTurn),
		entries: make(map[layout.Session]*entry[S])}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.metrics = newMetrics(opts.Registerer, c.usage)
	return c
}

// Close cancels all loads and waits for them.
func (c *Cache[S]) Close() {
	c.stop()
	c.loads.Wait()
}

// Get returns a session, loading or refreshing it first if need be. The caller calls release when it no longer uses the
// session. After an error of ctx the load continues; Status returns its progress.
func (c *Cache[S]) Get(ctx context.Context, ref layout.Session) (session S, release func(), err error) {
	e := c.joinEntry(ref)
	select {
	case <-e.ready:
	case <-ctx.Done():
		c.leaveEntry(e)
		return session, nil, fmt.Errorf("wait for session %s: %w", ref, context.Cause(ctx))
	}
	if e.err != nil {
		c.leaveEntry(e)
		return session, nil, e.err
	}
	c.beginUse(e)
	session = c.refresh(ctx, e)
	return session, sync.OnceFunc(func() { c.endUse(e, session) }), nil
}

// Begin starts to load a session that is not in memory, without waiting for it.
func (c *Cache[S]) Begin(ref layout.Session) { c.leaveEntry(c.joinEntry(ref)) }

// joinEntry finds the entry of a session, or makes one and begins its load, and counts the caller as waiting until
// leaveEntry or beginUse. A session that is broken is loaded anew.
func (c *Cache[S]) joinEntry(ref layout.Session) *entry[S] {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[ref]
	if e != nil && !e.loadEnded.IsZero() && e.err == nil && e.session.Broken() {
		c.drop(e)
		e = nil
	}
	if e == nil {
		e = c.start(ref)
	} else if e.loadEnded.IsZero() {
		c.metrics.gets.WithLabelValues("joined").Inc()
	} else {
		c.metrics.gets.WithLabelValues("hit").Inc()
	}
	e.waiters++
	if e.giveUp != nil {
		e.giveUp.Stop()
		e.giveUp = nil
	}
	return e
}

// leaveEntry ends what joinEntry began. When the last caller leaves a load that still runs, the load is cancelled after
// Linger.
func (c *Cache[S]) leaveEntry(e *entry[S]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.waiters--
	if e.waiters > 0 || !e.loadEnded.IsZero() {
		return
	}
	e.giveUp = time.AfterFunc(c.opts.Linger, func() { c.abandon(e) })
}

// abandon cancels a load that no request waits for.
func (c *Cache[S]) abandon(e *entry[S]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.waiters > 0 || !e.loadEnded.IsZero() {
		return
	}
	c.opts.Log.WithField("session", e.ref.String()).Info("cancelled loading a session because nobody waits for it")
	e.cancel(fmt.Errorf("load session %s: %w for %s", e.ref, errAbandoned, c.opts.Linger))
	// The next Get starts again instead of getting the cancellation.
	c.forget(e)
}

// drop takes an entry that is ready out of the cache; c.mu must be held.
func (c *Cache[S]) drop(e *entry[S]) {
	if e.element != nil {
		c.recent.Remove(e.element)
		e.element = nil
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

// beginUse turns a caller that waited for a session into one that uses it.
func (c *Cache[S]) beginUse(e *entry[S]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.waiters--
	e.users++
	if e.element != nil {
		c.recent.MoveToFront(e.element)
	}
}

// Peek returns a session that is in memory. Use it right away and do not keep it: Peek neither loads it nor counts as a
// use.
func (c *Cache[S]) Peek(ref layout.Session) (session S, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[ref]; e != nil && e.element != nil {
		return e.session, true
	}
	return session, false
}
