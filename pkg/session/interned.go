package session

import "sync"

// interned numbers the different values of K it is given, from 1 on; 0 stands for none. It may be used by several goroutines.
type interned[K comparable, ID ~uint32] struct {
	mu   sync.RWMutex
	ids  map[K]ID
	rows list[K]
}

func newInterned[K comparable, ID ~uint32]() *interned[K, ID] {
	in := &interned[K, ID]{ids: make(map[K]ID)}
	in.rows.add(*new(K))
	return in
}

func (in *interned[K, ID]) intern(k K) ID {
	in.mu.RLock()
	id := in.ids[k]
	in.mu.RUnlock()
	if id != 0 {
		return id
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if id = in.ids[k]; id == 0 {
		id = ID(in.rows.add(k))
		in.ids[k] = id
	}
	return id
}

func (in *interned[K, ID]) get(id ID) K {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return *in.rows.at(int(id))
}

// view gives the values numbered so far; they may be read without a lock.
func (in *interned[K, ID]) view() list[K] {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.rows
}

// greater chooses one of two values, whichever was met first; any is greater than none.
func (in *interned[K, ID]) greater(a, b ID, compare func(a, b K) int) ID {
	switch {
	case a == b || b == 0:
		return a
	case a == 0 || compare(in.get(a), in.get(b)) < 0:
		return b
	}
	return a
}

func (in *interned[K, ID]) memory() int64 {
	in.mu.RLock()
	defer in.mu.RUnlock()
	// A map entry costs its key, its value and some bytes of the map's own.
	return 2*in.rows.memory() + int64(len(in.ids))*16
}
