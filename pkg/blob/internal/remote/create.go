package remote

import (
	"errors"
	"os"
	"sync/atomic"
)

// ErrNoConditions is the error of a conditional write if the server does not know conditions.
var ErrNoConditions = errors.New("the server does not support conditional writes")

// probeSize is the size in bytes up to which an object is sent twice to learn whether the server honours conditions.
const probeSize = 1 << 20

// Conditions remembers whether a server honours create-only writes. Some servers ignore the condition and overwrite. So
// until the server is known, keys are looked up first, and the first small object is sent a second time, which must be
// refused. If the server ignores conditions, keys are always looked up first: safe as long as one process writes a key,
// as collectors do.
type Conditions struct {
	// Warn is called once if the server ignores conditions.
	Warn  func()
	state atomic.Int32
}

const (
	unknown int32 = iota
	honoured
	ignored
)

// Creation is one create-only write.
type Creation struct {
	// Find says whether the key is taken: nil, or os.ErrNotExist.
	Find func() error
	// Write stores the object. If absent is set it does so only if the key is free, and else returns os.ErrExist.
	Write func(absent bool) error
	// Repeat repeats the conditional write. Unlike Write it returns os.ErrExist also if it finds its own object.
	Repeat func() error
	// Size is the object's, in bytes.
	Size int64
}

// Create carries a creation out.
func (c *Conditions) Create(op Creation) error {
	state := c.state.Load()
	if state != honoured {
		if err := op.Find(); err == nil {
			return os.ErrExist
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if state == ignored {
		return op.Write(false)
	}
	err := op.Write(true)
	switch {
	case state == honoured:
	case errors.Is(err, os.ErrExist):
		c.state.Store(honoured)
	case errors.Is(err, ErrNoConditions):
		c.ignore()
		return op.Write(false)
	case err == nil && op.Size <= probeSize:
		c.probe(op)
	}
	return err
}

// probe repeats a write that just succeeded. Any other result than these two says nothing about the server.
func (c *Conditions) probe(op Creation) {
	switch err := op.Repeat(); {
	case err == nil:
		c.ignore()
	case errors.Is(err, os.ErrExist):
		c.state.Store(honoured)
	}
}

func (c *Conditions) ignore() {
	if c.state.Swap(ignored) != ignored {
		c.Warn()
	}
}
