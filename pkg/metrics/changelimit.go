package metrics

import "sync/atomic"

// changeLimit is the number of changes that may still be read. Safe for concurrent use.
type changeLimit struct{ left atomic.Int64 }

func newChangeLimit(n int64) *changeLimit {
	a := &changeLimit{}
	a.left.Store(n)
	return a
}

func (a *changeLimit) take() bool { return a.left.Add(-1) >= 0 }
