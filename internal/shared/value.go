// Package shared loads a value once for all callers that ask for it at the same time.
package shared

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// ErrPanic is a load that ended in a panic; its text has the stack.
var ErrPanic = errors.New("panic")

// Value is loaded on its first Get, once for all callers that wait. Safe for concurrent use.
type Value[T any] struct {
	mu     sync.Mutex
	loaded bool
	value  T
	key    string // that it was loaded for
	call   *call[T]
}

// call is a load under way.
type call[T any] struct {
	key     string
	cancel  context.CancelCauseFunc
	waiters int
	giveUp  *time.Timer   // ends the load, which nobody waits for, if no caller comes back; nil if some wait
	done    chan struct{} // closed when value and err are there
	value   T
	err     error
}

// ErrWaited is the cause of a context that ended because its caller waited long enough, and will ask again.
var ErrWaited = errors.New("waited long enough")

// linger is how long a load goes on after the last of its callers waited long enough. They ask again sooner than that.
const linger = time.Minute

// errLeft ends a load that nobody waits for.
var errLeft = errors.New("nobody waits for it any more")

// sharedKey is the key of a load's context.
type sharedKey struct{}

// IsShared says whether a context is that of a load, for which others may wait besides the caller whose values it has.
func IsShared(ctx context.Context) bool { return ctx.Value(sharedKey{}) != nil }

// Get returns the value and loads it first if necessary. An error is not kept: the next Get loads again. The context of
// load has the values of ctx, but ends only when no caller waits any more; if the last one's context ended with
// ErrWaited, it goes on for a minute.
func (v *Value[T]) Get(ctx context.Context, load func(context.Context) (T, error)) (T, error) {
	return v.GetFor(ctx, "", load)
}

// GetFor is Get for a value that depends on key: a value that was loaded for another key counts as not loaded. Callers
// can wait only for the load that began last, and only its value is kept: callers who ask for two keys in turn share
// nothing.
func (v *Value[T]) GetFor(ctx context.Context, key string, load func(context.Context) (T, error)) (T, error) {
	v.mu.Lock()
	if v.loaded && v.key == key {
		defer v.mu.Unlock()
		return v.value, nil
	}
	if ctx.Err() != nil { // who has left begins nothing
		defer v.mu.Unlock()
		var none T
		return none, context.Cause(ctx)
	}
	c := v.call
	if c == nil || c.key != key {
		c = v.startLoad(ctx, key, load)
	}
	c.waiters++
	if c.giveUp != nil {
		c.giveUp.Stop()
		c.giveUp = nil
	}
	v.mu.Unlock()
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		cause := context.Cause(ctx)
		comesBack := errors.Is(cause, ErrWaited)
		v.endWait(c, comesBack)
		var none T
		return none, cause
	}
}

// startLoad starts a load in the background, which becomes the one that further callers wait for. It does not end with
// ctx, because others may wait for it; IsShared says so of its context. A load before it still answers those who wait
// for it, but its value is not kept. v.mu must be held, until the caller has counted itself as a waiter.
func (v *Value[T]) startLoad(ctx context.Context, key string, load func(context.Context) (T, error)) *call[T] {
	c := &call[T]{key: key, done: make(chan struct{})}
	ctx, c.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), sharedKey{}, true))
	if before := v.call; before != nil && before.waiters == 0 {
		before.cancel(errLeft) // it went on only in case that a caller came back
	}
	v.call = c
	go func() {
		defer c.cancel(nil)
		c.value, c.err = runLoad(ctx, load)
		v.mu.Lock()
		defer v.mu.Unlock()
		if c.giveUp != nil {
			c.giveUp.Stop()
		}
		if v.call == c {
			v.call = nil
			if c.err == nil {
				v.loaded, v.value, v.key = true, c.value, key
			}
		}
		close(c.done)
	}()
	return c
}

// runLoad turns a panic into an error: in this goroutine it would end the process.
func runLoad[T any](ctx context.Context, load func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return load(ctx)
}

// endWait ends a caller's wait, and the load if nobody else waits: at once, or after a while if the caller comes back.
func (v *Value[T]) endWait(c *call[T], comesBack bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.waiters--; c.waiters > 0 {
		return
	}
	if comesBack && v.call == c {
		c.giveUp = time.AfterFunc(linger, func() { v.abandonLoad(c) })
		return
	}
	v.cancelLoad(c)
}

// abandonLoad ends a load to which nobody came back.
func (v *Value[T]) abandonLoad(c *call[T]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.waiters == 0 {
		v.cancelLoad(c)
	}
}

// cancelLoad cancels a load that nobody waits for. v.mu must be held.
func (v *Value[T]) cancelLoad(c *call[T]) {
	c.cancel(errLeft)
	if v.call == c {
		v.call = nil // the next Get starts a new load instead of seeing the cancellation
	}
}

// Loaded returns the value if it is loaded.
func (v *Value[T]) Loaded() (T, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.loaded
}

// Forget drops the value; the next Get loads it again.
func (v *Value[T]) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	var none T
	v.loaded, v.value, v.key = false, none, ""
}
