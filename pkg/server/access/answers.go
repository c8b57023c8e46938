package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/internal/cache"
)

// answers keeps what was asked of Kubernetes or read of a file, and asks once for all who want the same answer at the
// same time.
type answers[V any] struct{ *cache.Cache[string, V] }

// newAnswers keeps at most size answers, each for the given time; 0 keeps none.
func newAnswers[V any](keep time.Duration, size int64) answers[V] {
	if keep <= 0 {
		size = 0
	}
	return answers[V]{cache.New[string, V](size, keep, nil)}
}

// askTimeout limits a question to Kubernetes, which continues when the callers who asked have left.
const askTimeout = 10 * time.Second

// get returns the kept answer or asks. Errors are not kept.
func (a answers[V]) get(ctx context.Context, key string, ask func(context.Context) (V, error)) (V, error) {
	answer, err := a.Load(ctx, key, func(ctx context.Context) (V, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		return ask(ctx)
	})
	if left := context.Cause(ctx); left != nil && errors.Is(err, left) {
		err = fmt.Errorf("%w: it has not answered yet: %w", ErrUnavailable, ctx.Err())
	}
	return answer, err
}
