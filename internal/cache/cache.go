// Package cache keeps values that take work to make, until others need their place or they are too old.
package cache

import (
	"container/list"
	"context"
	"iter"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/shared"
)

// Cache keeps values by key: those used last, within a limit of their cost. Safe for concurrent use.
type Cache[K comparable, V any] struct {
	max  int64
	age  time.Duration
	cost func(V) int64 // what a value takes of max

	mu      sync.Mutex
	entries map[K]*list.Element // of *entry[K, V]
	used    list.List           // the one used last in front
	total   int64               // cost of all
	loads   map[K]*shared.Value[V]
	count   uint64 // of values that were begun or put
}

type entry[K comparable, V any] struct {
	key   K
	value V
	cost  int64
	added time.Time
	began uint64 // the count when it was begun
}

// Forever is the age of a cache whose values never get too old.
const Forever = 0

// New makes a cache whose values cost at most max together; a value that alone costs more is not kept. Without a cost
// function each value costs 1. A value is kept no longer than age, Forever sets no end.
func New[K comparable, V any](max int64, age time.Duration, cost func(V) int64) *Cache[K, V] {
	if cost == nil {
		cost = func(V) int64 { return 1 }
	}
	return &Cache[K, V]{max: max, age: age, cost: cost, entries: make(map[K]*list.Element),
		loads: make(map[K]*shared.Value[V])}
}

// Get returns the value of a key, if there is one.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(key)
}

// get returns the value of a key that is not too old, and makes it the one used last. ok is false if there is none.
// c.mu must be held.
func (c *Cache[K, V]) get(key K) (value V, ok bool) {
	element := c.entries[key]
	if element == nil {
		return value, false
	}
	e := element.Value.(*entry[K, V])
	if c.age != Forever && time.Since(e.added) >= c.age {
		c.removeElement(element)
		return value, false
	}
	c.used.MoveToFront(element)
	return e.value, true
}

// Load returns the value of a key. If there is none, it calls load, once for all callers that wait, and keeps the value
// but not an error. The context of load has the values of ctx, but ends only when no caller waits any more. A load that
// goes on after that does not replace the value of a load that began later.
func (c *Cache[K, V]) Load(ctx context.Context, key K, load func(context.Context) (V, error)) (V, error) {
	c.mu.Lock()
	if value, ok := c.get(key); ok {
		c.mu.Unlock()
		return value, nil
	}
	loading := c.loads[key]
	if loading == nil {
		loading = new(shared.Value[V])
		c.loads[key] = loading
	}
	c.mu.Unlock()
	return loading.Get(ctx, func(ctx context.Context) (V, error) {
		defer c.endLoading(key, loading)
		began := c.nextCount()
		value, err := load(ctx)
		if err == nil {
			c.put(key, value, began)
		}
		return value, err
	})
}

// nextCount counts a load or a Put, and returns its number: a higher one began later.
func (c *Cache[K, V]) nextCount() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	return c.count
}

// endLoading makes the next Load of a key that is not kept load again.
func (c *Cache[K, V]) endLoading(key K, value *shared.Value[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loads[key] == value {
		delete(c.loads, key)
	}
}

// Put keeps a value, instead of the one that its key had, and drops those used longest ago until all fit.
func (c *Cache[K, V]) Put(key K, value V) { c.put(key, value, c.nextCount()) }

// put adds a value whose load began at the count began, unless the value of a later load is there. It removes the
// values used longest ago until the rest fits. A value that costs more than the whole cache is not kept.
func (c *Cache[K, V]) put(key K, value V, began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.entries[key]; before != nil {
		if before.Value.(*entry[K, V]).began > began {
			return
		}
		c.removeElement(before)
	}
	e := &entry[K, V]{key: key, value: value, cost: c.cost(value), added: time.Now(), began: began}
	if e.cost > c.max {
		return
	}
	c.entries[key] = c.used.PushFront(e)
	for c.total += e.cost; c.total > c.max; {
		c.removeElement(c.used.Back())
	}
}

// Delete drops the value of a key.
func (c *Cache[K, V]) Delete(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.entries[key]; element != nil {
		c.removeElement(element)
	}
}

func (c *Cache[K, V]) removeElement(element *list.Element) {
	e := c.used.Remove(element).(*entry[K, V])
	delete(c.entries, e.key)
	c.total -= e.cost
}

// Clear drops all values.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.used.Init()
	c.total = 0
}

// All iterates over the values that are there when it is called, the one used last first.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*entry[K, V], 0, len(c.entries))
	for e := c.used.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*entry[K, V]))
	}
	return func(yield func(K, V) bool) {
		for _, e := range all {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// Len returns how many values are kept.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

// Cost returns what the values that are kept cost together.
func (c *Cache[K, V]) Cost() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
