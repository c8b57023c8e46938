package logview

import (
	"slices"
	"sync"
)

// maxIndexes bounds the indexes that are kept.
const maxIndexes = 256

// Indexes keeps the indexes of the logs that were looked at last, by names that the caller chooses. The zero value is
// empty.
type Indexes struct {
	mu    sync.Mutex
	known map[string]*Index
	order []string // the longest unused first
}

// Of returns the index of a log.
func (k *Indexes) Of(name string) *Index {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[string]*Index{}
	}
	x := k.known[name]
	if x == nil {
		x = &Index{}
		k.known[name] = x
	}
	k.order = append(slices.DeleteFunc(k.order, func(other string) bool { return other == name }), name)
	if len(k.order) > maxIndexes {
		delete(k.known, k.order[0])
		k.order = k.order[1:]
	}
	return x
}
