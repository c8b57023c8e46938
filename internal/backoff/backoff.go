// Package backoff sets the pauses between attempts of something that keeps failing.
package backoff

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Backoff is a wait that doubles from Min to Max with every error, and starts again at Min after a success. Not safe
// for concurrent use.
type Backoff struct {
	Min, Max time.Duration
	errors   int
}

// Next counts an error and returns the wait before the next try. It varies by a quarter up or down, so that the
// collectors of a cluster do not all come back at the same moment.
func (b *Backoff) Next() time.Duration {
	wait := b.Max
	if b.errors < 32 { // no overflow for a Min of up to two seconds
		wait = min(b.Max, b.Min<<b.errors)
	}
	b.errors++
	return wait*3/4 + rand.N(wait/2+1)
}

// Errors is how many errors were counted since the last Reset.
func (b *Backoff) Errors() int { return b.errors }

// Reset says that a try succeeded.
func (b *Backoff) Reset() { b.errors = 0 }

// Sleep waits, or returns why ctx has ended.
func Sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Requested returns how long an answer's Retry-After asks to wait, in seconds or until a date; 0 if it has none.
func Requested(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	seconds, _ := strconv.ParseUint(value, 10, 31) // the largest number if it is larger
	return time.Duration(seconds) * time.Second
}
