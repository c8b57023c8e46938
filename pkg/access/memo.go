package access

import (
	"context"
	"sync"
	"time"
)

// memo remembers answers for a while, and asks once for all who want the same answer.
type memo[K comparable, V any] struct {
	ttl time.Duration
	max int

	mu      sync.Mutex
	answers map[K]*answer[V]
}

type answer[V any] struct {
	ready chan struct{} // closed when the rest is set
	value V
	err   error
	until time.Time
}

func newMemo[K comparable, V any](ttl time.Duration, max int) *memo[K, V] {
	return &memo[K, V]{ttl: ttl, max: max, answers: map[K]*answer[V]{}}
}

// askFor bounds a question, which goes on when the caller who asked first has left.
const askFor = 10 * time.Second

// get gives the remembered answer or asks. Errors are not remembered.
func (m *memo[K, V]) get(ctx context.Context, key K, ask func(context.Context) (V, error)) (V, error) {
	m.mu.Lock()
	a, ok := m.answers[key]
	if ok {
		select {
		case <-a.ready:
			ok = a.err == nil && time.Now().Before(a.until)
		default:
		}
	}
	if !ok {
		a = &answer[V]{ready: make(chan struct{})}
		m.makeRoom()
		m.answers[key] = a
		go m.ask(context.WithoutCancel(ctx), key, a, ask)
	}
	m.mu.Unlock()
	select {
	case <-a.ready:
		return a.value, a.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

func (m *memo[K, V]) ask(ctx context.Context, key K, a *answer[V], ask func(context.Context) (V, error)) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	value, err := ask(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	a.value, a.err, a.until = value, err, time.Now().Add(m.ttl)
	if err != nil && m.answers[key] == a {
		delete(m.answers, key)
	}
	close(a.ready)
}

// makeRoom forgets what is too old, and, if that is not enough, half of the rest.
func (m *memo[K, V]) makeRoom() {
	if len(m.answers) < m.max {
		return
	}
	now := time.Now()
	for k, a := range m.answers {
		select {
		case <-a.ready:
			if now.After(a.until) {
				delete(m.answers, k)
			}
		default:
		}
	}
	for k := range m.answers {
		if len(m.answers) < m.max/2 {
			break
		}
		delete(m.answers, k)
	}
}
