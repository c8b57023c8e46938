package metered

import (
	"context"

	"golang.org/x/time/rate"
)

// paceKey is the key of a context's limiter.
type paceKey struct{}

// Paced returns a context with which requests to a Store wait for their turn at a limiter, each page of a listing too:
// for work that may take its time.
func Paced(ctx context.Context, limiter *rate.Limiter) context.Context {
	return context.WithValue(ctx, paceKey{}, limiter)
}

// pageObjects is how many objects a store lists in one request.
const pageObjects = 1000

// pace waits for a request's turn, if ctx has a limiter.
func pace(ctx context.Context) error {
	limiter, ok := ctx.Value(paceKey{}).(*rate.Limiter)
	if !ok {
		return nil
	}
	return limiter.Wait(ctx)
}
