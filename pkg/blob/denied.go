package blob

import (
	"sync/atomic"
	"time"
)

// deniedFor is how long a refusal counts.
const deniedFor = time.Hour

// Denied remembers for an hour that a store does not allow writing, so that not each object is refused. Then writing is
// tried again: the right may have been granted, and credentials that could not be renewed for some minutes are refused
// as well. The zero value allows writing.
type Denied struct{ until atomic.Int64 }

// Set notes a refusal. It reports whether none was noted, or only one that counts no more.
func (d *Denied) Set() (first bool) {
	now := time.Now()
	return d.until.Swap(now.Add(deniedFor).UnixNano()) <= now.UnixNano()
}

// Holds reports whether writing was refused in the last hour.
func (d *Denied) Holds() bool { return time.Now().UnixNano() < d.until.Load() }
