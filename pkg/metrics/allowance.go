package metrics

import "sync/atomic"

// allowance is memory that may still be taken, in bytes. Safe for concurrent use.
type allowance struct{ left atomic.Int64 }

func newAllowance(bytes int64) *allowance {
	a := &allowance{}
	a.left.Store(bytes)
	return a
}

// take takes memory. If there is not enough, nothing is taken, and the error is ErrTooMuch.
func (a *allowance) take(bytes int64) error {
	if bytes < 0 || a.left.Add(-bytes) < 0 {
		a.left.Add(max(0, bytes))
		return ErrTooMuch
	}
	return nil
}

func (a *allowance) giveBack(bytes int64) { a.left.Add(bytes) }
