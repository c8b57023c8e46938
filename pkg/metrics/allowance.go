package metrics

import "sync/atomic"

// allowance is the number of changes that may still be read. Safe for concurrent use.
type allowance struct{ left atomic.Int64 }

func newAllowance(n int64) *allowance {
	a := &allowance{}
	a.left.Store(n)
	return a
}

func (a *allowance) take() bool { return a.left.Add(-1) >= 0 }
