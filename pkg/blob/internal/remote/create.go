package remote

import (
	"errors"
	"os"
	"sync/atomic"
)

// ErrNoConditions is the error of a conditional write to a server that does not know conditions.
var ErrNoConditions = errors.New("the server does not know conditional writes")

// ProbeSize is the size in bytes of the largest object that is sent twice to learn whether a server honours conditions.
const ProbeSize = 1 << 20

// Conditions is what is known of a server's respect for create-only writes. Servers exist that ignore the condition and overwrite, so
// until one is known to honour it keys are looked up first, and the first small object is sent a second time, which must be refused.
// For a server that ignores conditions, looking up is all there is: safe as long as one process writes a key, as collectors do.
type Conditions struct {
	// Warn is told once that the server ignores conditions.
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
	// Write stores the object; if absent is set on the condition that the key is free, which is os.ErrExist where it is not.
	Write func(absent bool) error
	// Again repeats the conditional write, and does not take a refusal for the echo of its own success, as Write may.
	Again func() error
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
	case err == nil && op.Size <= ProbeSize:
		c.probe(op)
	}
	return err
}

// probe repeats a write that just succeeded. Any other outcome than the two below teaches nothing.
func (c *Conditions) probe(op Creation) {
	switch err := op.Again(); {
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
