package sessioncache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// start makes an entry and begins its load; c.mu must be held.
func (c *Cache[S]) start(ref layout.Session) *entry[S] {
	c.metrics.gets.WithLabelValues("miss").Inc()
	ctx, cancel := context.WithCancelCause(c.ctx)
	e := &entry[S]{ref: ref, ready: make(chan struct{}), cancel: cancel, asked: time.Now(), queued: true}
	c.entries[ref] = e
	c.loads.Go(func() {
		defer cancel(nil)
		began, session, err := c.run(ctx, e)
		c.finish(e, began, session, err)
	})
	return e
}

// run waits for a slot and loads. began is when it got the slot, or stopped waiting for one. A panic of the load is its
// error: one damaged session must not end the server.
func (c *Cache[S]) run(ctx context.Context, e *entry[S]) (began time.Time, session S, err error) {
	turnCtx, done, err := c.slots.Take(ctx, e.ref.Namespace, turns.NoLimit)
	if err != nil {
		if ctx.Err() != nil {
			err = c.causeOf(ctx)
		}
		return time.Now(), session, err
	}
	defer done()
	c.mu.Lock()
	e.queued = false
	c.mu.Unlock()
	began = time.Now()
	defer c.reserve(e, 0) // a load that has ended takes no memory: what it made counts as a session's
	defer c.catchPanic(e, &err)
	session, err = c.opts.Load(turnCtx, e.ref, &e.progress, func(total int64) bool { return c.reserve(e, total) })
	if err != nil && turnCtx.Err() != nil {
		err = c.causeOf(turnCtx)
	}
	if errors.Is(err, turns.ErrEnded) {
		err = fmt.Errorf("load session %s: %w after %s", e.ref, ErrTurn, loadTurn)
	}
	return began, session, err
}

// catchPanic makes a panic an error.
func (c *Cache[S]) catchPanic(e *entry[S], err *error) {
	if p := recover(); p != nil {
		c.opts.Log.WithField("session", e.ref.String()).Errorf("panic while loading a session: %v\n%s", p,
			debug.Stack())
		*err = fmt.Errorf("load session %s: %w", e.ref, ErrPanic)
	}
}

// causeOf is why a load's context, which is made of the cache's, ended: ErrClosed if the cache did.
func (c *Cache[S]) causeOf(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return context.Cause(ctx)
}

// finish keeps the result of a load that got its slot at began, and wakes the callers that wait. An error is kept for
// failedFor.
func (c *Cache[S]) finish(e *entry[S], began time.Time, session S, err error) {
	var bytes int64
	if err == nil {
		bytes = session.MemoryBytes()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.session, e.err, e.loadEnded, e.readAt, e.refresh.ended = session, err, time.Now(), began, time.Now()
	if e.giveUp != nil {
		e.giveUp.Stop()
		e.giveUp = nil
	}
	close(e.ready)
	took := e.loadEnded.Sub(began)
	log := c.opts.Log.WithFields(logrus.Fields{"session": e.ref.String(), "seconds": took.Seconds()})
	if err != nil {
		c.metrics.loads.WithLabelValues("error").Observe(took.Seconds())
		if !errors.Is(err, ErrClosed) && !errors.Is(err, errAbandoned) {
			log.WithError(err).Error("cannot load a session")
		}
		time.AfterFunc(failedFor, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.forget(e)
		})
		return
	}
	c.metrics.loads.WithLabelValues("ok").Observe(took.Seconds())
	if c.entries[e.ref] != e {
		return // abandoned just before it was done
	}
	e.element = c.recent.PushFront(e)
	c.setSize(e, bytes)
	log.WithField("bytes", e.bytes).Info("loaded a session")
	if e.bytes > c.opts.MaxBytes {
		log.WithFields(logrus.Fields{"bytes": e.bytes,
			"max": c.opts.MaxBytes}).Warn(
			"one session is larger than --session-cache-max-memory; it is kept until another one is used")
	}
	c.evict()
}

// refresh returns an entry's session. A growing session is refreshed by one caller at a time, and again only after
// RefreshEvery, or after refreshShare times as long as the last refresh took. The caller that starts a refresh waits
// for it, at most RefreshWait; all others get the session as it is. A refresh goes on when its caller stops waiting.
func (c *Cache[S]) refresh(ctx context.Context, e *entry[S]) S {
	c.mu.Lock()
	session := e.session
	pause := max(c.opts.RefreshEvery, min(refreshShare*e.refresh.took, maxPause))
	if e.refresh.running || time.Since(e.refresh.ended) < pause || !c.opts.Growing(e.ref, e.readAt) {
		c.mu.Unlock()
		return session
	}
	e.refresh.running = true
	c.mu.Unlock()

	done := make(chan struct{})
	c.loads.Go(func() {
		defer close(done)
		c.runRefresh(e, session)
	})
	wait := time.NewTimer(c.opts.RefreshWait)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.session
}

// runRefresh refreshes an entry's session, and records when, how long it took and how it ended. After an error the
// session stays as it was: right but old. A row of errors is logged once.
func (c *Cache[S]) runRefresh(e *entry[S], session S) {
	began := time.Now()
	next, err := c.callRefresh(e, session)
	changed := err == nil && next != session
	var bytes int64
	if changed {
		bytes = next.MemoryBytes()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.refresh.running, e.refresh.ended, e.refresh.took = false, time.Now(), time.Since(began)
	c.metrics.refreshes.WithLabelValues(refreshResult(changed, err)).Inc()
	log := c.opts.Log.WithField("session", e.ref.String())
	switch {
	case c.ctx.Err() != nil:
		return
	case err != nil && e.refresh.err == nil:
		log.WithError(err).Warn("cannot refresh a session; it is shown as it was")
	case err == nil && e.refresh.err != nil:
		log.Info("a session can be refreshed again")
	}
	e.refresh.err = err
	if err == nil {
		e.readAt = began
	}
	if changed {
		e.session = next
		c.setSize(e, bytes)
		c.evict()
	}
}

// callRefresh refreshes a session. A panic becomes an error, and memory that the refresh held is free afterwards.
func (c *Cache[S]) callRefresh(e *entry[S], session S) (next S, err error) {
	defer c.reserve(e, 0)
	defer c.catchPanic(e, &err)
	return c.opts.Refresh(c.ctx, session)
}

// refreshResult returns the metric's label for how a refresh ended.
func refreshResult(changed bool, err error) string {
	switch {
	case err != nil:
		return "error"
	case changed:
		return "changed"
	}
	return "same"
}
