package stringtable

import "sync"

// Interned gives each different value of K a number, from 1 on; 0 means none. It is safe for concurrent use.
type Interned[K comparable, ID ~uint32] struct {
	mu   sync.RWMutex
	ids  map[K]ID
	rows List[K]
}

// NewInterned makes a table in which the number 0 stands for no value.
func NewInterned[K comparable, ID ~uint32]() *Interned[K, ID] {
	in := &Interned[K, ID]{ids: make(map[K]ID)}
	in.rows.Add(*new(K))
	return in
}

// Intern returns the number of a value, and numbers it first if it is new.
func (in *Interned[K, ID]) Intern(k K) ID {
	in.mu.RLock()
	id := in.ids[k]
	in.mu.RUnlock()
	if id != 0 {
		return id
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if id = in.ids[k]; id == 0 {
		id = ID(in.rows.Add(k))
		in.ids[k] = id
	}
	return id
}

// get returns the value with a number.
func (in *Interned[K, ID]) get(id ID) K {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return *in.rows.At(int(id))
}

// View returns the values numbered so far. It may be read without a lock.
func (in *Interned[K, ID]) View() List[K] {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.rows
}

// Greater returns the greater of two values, whatever their numbers. Any value is greater than none.
func (in *Interned[K, ID]) Greater(a, b ID, compare func(a, b K) int) ID {
	switch {
	case a == b || b == 0:
		return a
	case a == 0 || compare(in.get(a), in.get(b)) < 0:
		return b
	}
	return a
}

// MemoryBytes estimates the memory of the values and of the map by which they are found.
func (in *Interned[K, ID]) MemoryBytes() int64 {
	in.mu.RLock()
	defer in.mu.RUnlock()
	// A map entry costs its key, its value and some bytes of the map's own.
	return 2*in.rows.MemoryBytes() + int64(len(in.ids))*16
}
