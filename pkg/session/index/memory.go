package index

import (
	"errors"
	"math"
	"sync"
)

// errTooLarge is an index that takes more memory than the server has for it. Its events are replayed, which takes less.
var errTooLarge = errors.New("it needs more memory than is free; raise --session-cache-max-memory")

// minBudget is what opening an index may take however little memory there is: for less, replaying events is not worth
// it.
const minBudget = 32 << 20

// memoryBudget counts the memory that opening an index takes. Files from outside say how much that is, so it is counted
// before it is allocated. It is safe for concurrent use.
type memoryBudget struct {
	reserve func(bytes int64) bool // see session.Options; nil: there is no bound

	mu    sync.Mutex
	taken int64
}

// take takes n bytes; errTooLarge: the index needs more memory than the load may use.
func (b *memoryBudget) take(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n < 0 || n > math.MaxInt64-b.taken {
		return errTooLarge
	}
	b.taken += n
	if b.reserve != nil && !b.reserve(b.taken) && b.taken > minBudget {
		return errTooLarge
	}
	return nil
}

// giveBack returns what was taken and is not needed any more.
func (b *memoryBudget) giveBack(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
}
