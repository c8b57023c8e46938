package remote

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
)

const (
	// MaxAttempts is how often a request is sent before its error is returned. Callers may retry later.
	MaxAttempts = 6
	// MinDelay is the pause after the first attempt, MaxDelay the longest one, and maxPause the longest one that a
	// store gets by asking for it.
	MinDelay = 100 * time.Millisecond
	MaxDelay = 5 * time.Second
	maxPause = 3 * MaxDelay
)

// Delay is the pause after a failed attempt (0 is the first): it doubles, and half of it is random.
func Delay(attempt int) time.Duration {
	delay := min(MinDelay<<min(attempt, 16), MaxDelay)
	return delay/2 + rand.N(delay/2+1)
}

// Pause waits as long as a refusal asks for, but no longer than maxPause, and only for a quarter of the time that ctx
// leaves: a store that refuses a third of all requests for minutes takes the others, which matters when a collector
// ends.
func Pause(ctx context.Context, status int, header http.Header) error {
	pause := min(backoff.Requested(header), maxPause)
	if pause == 0 || status != http.StatusTooManyRequests && status < http.StatusInternalServerError {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		pause = min(pause, time.Until(deadline)/4)
	}
	return backoff.Sleep(ctx, pause)
}

const retryAfter = "Retry-After"

// Retry repeats an attempt while retryable says of its error that another may succeed, for SDKs that do not.
func Retry(ctx context.Context, attempt func() error, retryable func(error) bool) error {
	for n := 0; ; n++ {
		err := attempt()
		if err == nil || !retryable(err) || n == MaxAttempts-1 || ctx.Err() != nil {
			return err
		}
		if err := backoff.Sleep(ctx, Delay(n)); err != nil {
			return err
		}
	}
}
