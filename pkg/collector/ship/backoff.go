package ship

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Backoff is a wait that doubles from Min to Max with every error and starts again after a success. The zero value of the rest is ready.
type Backoff struct {
	Min, Max time.Duration
	errors   int
}

// Next counts an error and says how long to wait after it: with a jitter of a quarter up or down, so that the collectors of a cluster
// do not come back all at once.
func (b *Backoff) Next() time.Duration {
	wait := b.Max
	if b.errors < 32 {
		wait = min(b.Max, b.Min<<b.errors)
	}
	b.errors++
	return wait*3/4 + rand.N(wait/2+1)
}

// Reset ends a row of errors and says how many there were.
func (b *Backoff) Reset() (errors int) {
	errors, b.errors = b.errors, 0
	return errors
}

// breaker keeps a backend that fails for everything from being asked for everything: after so many errors in a row nothing is sent but
// one probe at a time, ever more rarely, until one succeeds.
type breaker struct {
	mu      sync.Mutex
	errors  int // in a row
	backoff Backoff
	open    bool
	until   time.Time // the next probe may go
	probing bool
}

const breakerErrors = 5

// enter says whether a request may go now. A request that went must report to leave.
func (b *breaker) enter(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return true
	}
	if b.probing || now.Before(b.until) {
		return false
	}
	b.probing = true
	return true
}

// Outcomes of a request, for leave.
type outcome uint8

const (
	stored   outcome = iota // the store answered
	failed                  // it did not, or with an error
	withheld                // nothing was asked of it
)

// leave reports a request. It says how many errors in a row ended with it, and whether it opened the circuit.
func (b *breaker) leave(now time.Time, o outcome) (recovered int, opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wasProbe := b.probing
	b.probing = false
	switch o {
	case stored:
		recovered, b.errors, b.open = b.errors, 0, false
		b.backoff.Reset()
	case failed:
		b.errors++
		if b.errors >= breakerErrors && (!b.open || wasProbe) {
			opened = !b.open
			b.open = true
			b.until = now.Add(b.backoff.Next())
		}
	}
	return recovered, opened
}

// probeNow lets the next probe go at once.
func (b *breaker) probeNow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Time{}
}

// waiting says until when nothing may go; zero while requests may.
func (b *breaker) waiting() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return time.Time{}
	}
	return b.until
}
