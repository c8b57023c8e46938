// Package turns shares slots of work among keys, such as callers or namespaces, so that no key keeps the others
// waiting: a free slot goes to the waiting key that was served least recently, and the work in a slot is ended after
// some time if anybody waits.
package turns

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

var (
	// ErrBusy says that no slot became free in time, or that too many of the key wait already.
	ErrBusy = errors.New("too many others wait, or no turn came in time")
	// ErrEnded is the cause with which the context of work ends that had its time while others waited.
	ErrEnded = errors.New("it took long, and others waited")
)

const (
	// maxWaiting is how many of one key wait at most.
	maxWaiting = 1000
	// remembered is of how many last turns the keys are remembered.
	remembered = 1000
)

// Slots is a number of slots. Safe for concurrent use.
type Slots struct {
	// share is how long work may last while others wait; 0: for ever.
	share time.Duration

	mu      sync.Mutex
	free    int
	waiting []*turn           // in the order in which they came
	running []*turn           // the longest first
	served  map[string]uint64 // by key, the count when its last turn began
	count   uint64            // of turns that began
	timer   *time.Timer
}

// turn is work that has a slot or waits for one.
type turn struct {
	key   string
	began time.Time
	ready chan struct{} // closed when it has a slot
	end   context.CancelCauseFunc
	ended bool // end was called
}

// NoLimit, as a time, has work keep its slot until it ends, or wait for one until its context ends.
const NoLimit = 0

// New makes n slots. Work in them may last as long as nobody waits, otherwise until it has had its slot for the time
// share, or NoLimit.
func New(n int, share time.Duration) *Slots {
	return &Slots{free: n, share: share, served: make(map[string]uint64)}
}

// Take waits for a slot, at most for the time wait, or NoLimit. The caller's work uses the context that it
// returns, which ends with ErrEnded as its cause when others have waited long enough, and calls done at its end. The
// error is ErrBusy or ctx's cause.
func (s *Slots) Take(ctx context.Context, key string, wait time.Duration) (working context.Context, done func(),
	err error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	working, end := context.WithCancelCause(ctx)
	t := &turn{key: key, ready: make(chan struct{}), end: end}
	if !s.enqueue(t) {
		end(nil)
		return nil, nil, ErrBusy
	}
	var late <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	done = sync.OnceFunc(func() { s.leave(t) }) // also after an error: a slot that came just then goes to the next
	select {
	case <-t.ready:
		return working, done, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late:
		err = ErrBusy
	}
	done()
	return nil, nil, err
}

// enqueue adds a caller to those that wait. It is false if too many callers with the same key wait already.
func (s *Slots) enqueue(t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := 0
	for _, w := range s.waiting {
		if w.key == t.key {
			same++
		}
	}
	if same >= maxWaiting {
		return false
	}
	s.waiting = append(s.waiting, t)
	s.giveSlots(time.Now())
	return true
}

// leave removes a caller that has done its work or no longer waits. A slot that it had goes to the next.
func (s *Slots) leave(t *turn) {
	t.end(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(other *turn) bool { return other == t }
	if i := slices.IndexFunc(s.running, is); i >= 0 {
		s.running = slices.Delete(s.running, i, i+1)
		s.free++
	}
	s.waiting = slices.DeleteFunc(s.waiting, is)
	s.giveSlots(time.Now())
}

// giveSlots gives free slots to those who wait, first to the keys that were served longest ago, and then ends work that
// has had its time if some still wait. Keys that were not among the last turns are forgotten, so that s.served stays
// small; they count as never served. s.mu must be held.
func (s *Slots) giveSlots(now time.Time) {
	for s.free > 0 && len(s.waiting) > 0 {
		next := slices.MinFunc(s.waiting, func(a, b *turn) int { return cmp.Compare(s.served[a.key], s.served[b.key]) })
		s.waiting = slices.DeleteFunc(s.waiting, func(t *turn) bool { return t == next })
		s.running = append(s.running, next)
		s.free--
		s.count++
		s.served[next.key] = s.count
		next.began = now
		close(next.ready)
	}
	if len(s.served) > 2*remembered {
		maps.DeleteFunc(s.served, func(_ string, at uint64) bool { return at+remembered <= s.count })
	}
	s.endOverdue(now)
}

// endOverdue ends work that has had its slot for the time share: as much as callers wait, the longest first. Work that
// was ended before counts, because it is about to give up its slot. If more callers wait, a timer calls endOverdue when
// the next work has had its time. s.mu must be held.
func (s *Slots) endOverdue(now time.Time) {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.share == 0 {
		return
	}
	left := len(s.waiting)
	for _, t := range s.running {
		switch remaining := t.began.Add(s.share).Sub(now); {
		case left == 0:
			return
		case t.ended:
		case remaining <= 0:
			t.ended = true
			t.end(ErrEnded)
		default:
			s.timer = time.AfterFunc(remaining, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.endOverdue(time.Now())
			})
			return
		}
		left--
	}
}
