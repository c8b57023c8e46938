package blob

import (
	"sync/atomic"
	"time"
)

// DeniedFor is how long a refusal counts.
const DeniedFor = time.Hour

// Denied remembers for an hour that a store does not allow writing, so that not each object is refused. Then writing is
// tried again: the right may have been granted, and credentials that could not be renewed for some minutes are refused
// as well. The zero value allows writing.
type Denied struct{ until atomic.Int64 }

// Set notes a refusal. first says that none counted before it, so it should be logged.
func (d *Denied) Set() (first bool) {
	now := time.Now()
	return d.until.Swap(now.Add(DeniedFor).UnixNano()) <= now.UnixNano()
}

// Holds reports whether writing was refused in the last hour.
func (d *Denied) Holds() bool { return time.Now().UnixNano() < d.until.Load() }
