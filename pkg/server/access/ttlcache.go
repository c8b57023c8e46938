package access

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
)

// ttlCache keeps answers for a while, and asks once for all who want the same answer at the same time. Safe for concurrent use.
type ttlCache[V any] struct {
	ttl     time.Duration // 0 keeps nothing
	answers *cache.LRUExpireCache
	asking  singleflight.Group
}

func newTTLCache[V any](ttl time.Duration, size int) *ttlCache[V] {
	return &ttlCache[V]{ttl: ttl, answers: cache.NewLRUExpireCache(size)}
}

// askTimeout limits a question to Kubernetes, which continues when the caller who asked first has left.
const askTimeout = 10 * time.Second

// get returns the kept answer or asks. Errors are not kept.
func (c *ttlCache[V]) get(ctx context.Context, key string, ask func(context.Context) (V, error)) (V, error) {
	if answer, ok := c.answers.Get(key); ok {
		return answer.(V), nil
	}
	asked := c.asking.DoChan(key, func() (any, error) {
		if answer, ok := c.answers.Get(key); ok { // another question for it was answered since
			return answer, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		answer, err := ask(ctx)
		if err == nil && c.ttl > 0 {
			c.answers.Add(key, answer, c.ttl)
		}
		return answer, err
	})
	select {
	case result := <-asked:
		return result.Val.(V), result.Err
	case <-ctx.Done():
		var none V
		return none, fmt.Errorf("%w: it has not answered yet: %w", ErrUnavailable, ctx.Err())
	}
}
