package remote

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
)

const (
	// MaxAttempts is how often a request is sent before its error is returned. Callers may retry later.
	MaxAttempts = 6
	// MinDelay is the pause after the first attempt, MaxDelay the longest one, and MaxPause the longest one that a
	// store gets by asking for it.
	MinDelay = 100 * time.Millisecond
	MaxDelay = 5 * time.Second
	MaxPause = 3 * MaxDelay
)

// Delay is the pause after a failed attempt (0 is the first): it doubles, half of it is random, and it is at least what
// the store asked for.
func Delay(attempt int, requested time.Duration) time.Duration {
	delay := min(MinDelay<<min(attempt, 16), MaxDelay)
	delay = delay/2 + rand.N(delay/2+1)
	return max(delay, min(requested, MaxPause))
}

// RetryAfter is the time that an answer's Retry-After header asks for; 0 if it has none.
func RetryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if value == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), math.MaxInt32)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// Outcome is the result of one attempt.
type Outcome struct {
	Err error
	// Retry says that another attempt may succeed. Pause is the pause that the store asks for.
	Retry bool
	Pause time.Duration
}

// Retry repeats an attempt, for SDKs that do not.
func Retry(ctx context.Context, attempt func() Outcome) error {
	for n := 0; ; n++ {
		outcome := attempt()
		if outcome.Err == nil || !outcome.Retry || n == MaxAttempts-1 || ctx.Err() != nil {
			return outcome.Err
		}
		if err := backoff.Sleep(ctx, Delay(n, outcome.Pause)); err != nil {
			return err
		}
	}
}
