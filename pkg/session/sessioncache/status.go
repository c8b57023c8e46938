package sessioncache

import (
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// State is where a session stands in the cache.
type State string

const (
	Absent  State = "absent"  // not in memory: the next Get loads it
	Queued  State = "queued"  // waits until other loads end
	Loading State = "loading" // being loaded
	Ready   State = "ready"   // in memory
	Failed  State = "failed"  // its load failed less than failedFor ago
)

// Progress is how far a load is. Totals are 0 until they are known.
type Progress struct {
	BytesDone    int64 `json:"bytes_done"`
	BytesTotal   int64 `json:"bytes_total"`
	ObjectsDone  int64 `json:"objects_done"`
	ObjectsTotal int64 `json:"objects_total"`
}

func progressOf(p *progress.Counter) Progress {
	return Progress{
		BytesDone: p.BytesDone.Load(), BytesTotal: p.BytesTotal.Load(), ObjectsDone: p.ObjectsDone.Load(),
		ObjectsTotal: p.ObjectsTotal.Load(),
	}
}

// Status is where a session stands.
type Status struct {
	State    State
	Progress Progress
	Elapsed  time.Duration // since the load was asked for, until it ended
	Err      error         // why it Failed
}

// Status returns the state of a session. It neither loads the session nor counts as a use.
func (c *Cache[S]) Status(ref layout.Session) Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status(c.entries[ref])
}

// PendingLoads returns the status of all sessions that are being loaded or wait for it.
func (c *Cache[S]) PendingLoads() map[layout.Session]Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	loads := make(map[layout.Session]Status)
	for ref, e := range c.entries {
		if e.loadEnded.IsZero() {
			loads[ref] = c.status(e)
		}
	}
	return loads
}

// status returns the state of an entry; Absent if e is nil. c.mu must be held.
func (c *Cache[S]) status(e *entry[S]) Status {
	switch {
	case e == nil:
		return Status{State: Absent}
	case e.loadEnded.IsZero():
		s := Status{State: Loading, Progress: progressOf(&e.progress), Elapsed: time.Since(e.asked)}
		if e.queued {
			s.State = Queued
		}
		return s
	case e.err != nil:
		return Status{State: Failed, Elapsed: e.loadEnded.Sub(e.asked), Err: e.err}
	}
	return Status{State: Ready, Progress: progressOf(&e.progress), Elapsed: e.loadEnded.Sub(e.asked)}
}

// usage counts loaded and loading sessions and their memory.
func (c *Cache[S]) usage() usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := usage{sessions: c.recent.Len(), bytes: c.bytes, loadingBytes: c.loading}
	for _, e := range c.entries {
		if e.loadEnded.IsZero() {
			u.loading++
		}
	}
	return u
}
