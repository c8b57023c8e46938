package webhooks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// target is a receiver with its state.
type target struct {
	*Receiver
	log   logthrottle.Throttle
	since time.Time // nothing is sent about sessions that ended before

	mu           sync.Mutex
	errors       int       // in a row, since the last success
	failingSince time.Time // when the first of these errors happened
	pausedAt     time.Time // when the last pause began
	pausedUntil  time.Time // until when nothing is sent
}

// pauseAfter is how many errors in a row pause a receiver.
const pauseAfter = 10

var errPaused = errors.New("the receiver is paused, after errors or because it asked for it")

// mayWant says whether the receiver may want events about what happened to a session at this time.
func (t *target) mayWant(ref layout.Session, at time.Time) bool {
	return t.Namespaces.Match(ref.Namespace) && at.After(t.since)
}

// sendTo sends an event to a receiver once; the error is errPaused if the receiver is paused. It is paused after
// pauseAfter errors in a row, or when it answers that it wants fewer requests: each time longer, but at least for as
// long as it asks for, up to MaxWait. After a pause one event is sent first, to see whether it is taken.
func (s *Sender) sendTo(ctx context.Context, t *target, e *Event) error {
	if !t.mayTry(s.opts.Timing.Request) {
		return errPaused
	}
	began := time.Now()
	err := send(ctx, s.client, t.Receiver, e)
	s.metrics.seconds.Observe(time.Since(began).Seconds())
	if err != nil && ctx.Err() != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// What was on its way when the pause began says nothing about the receiver after it.
	if !began.Before(t.pausedAt) {
		t.countResult(err, &s.opts.Timing)
	}
	if err == nil {
		s.metrics.requests.WithLabelValues(t.Name, "ok").Inc()
		return nil
	}
	s.metrics.requests.WithLabelValues(t.Name, "error").Inc()
	t.log.Warn(time.Now(), "a receiver of webhooks does not take an event, which is sent again: look at the "+
		"receiver, and at its address in the file of --webhooks", err)
	return err
}

// mayTry says whether an event may be sent to the receiver now. After a pause it is true for one caller; the others
// wait for its result, at most for as long as a request may take.
func (t *target) mayTry(request time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.pausedUntil) {
		return false
	}
	if t.errors >= pauseAfter {
		t.pausedUntil = now.Add(request)
	}
	return true
}

// countResult counts the result of a request, and pauses the receiver if it is to be paused; t.mu is held.
func (t *target) countResult(err error, timing *Timing) {
	now := time.Now()
	if err == nil {
		t.errors, t.pausedUntil = 0, time.Time{}
		return
	}
	if t.errors++; t.errors == 1 {
		t.failingSince = now
	}
	busy := busyError{}
	if errors.As(err, &busy) {
		t.errors = max(t.errors, pauseAfter)
	}
	if t.errors >= pauseAfter { // each further error doubles it; 10 doublings reach MaxWait, and more would overflow
		pause := min(timing.MaxWait, max(busy.wait, timing.MinWait<<min(10, t.errors-pauseAfter)))
		t.pausedAt, t.pausedUntil = now, now.Add(pause)
	}
}

// failedFor says whether the receiver has taken no event for longer than d.
func (t *target) failedFor(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.errors > 0 && time.Since(t.failingSince) > d
}
