package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// Aliases that stand for a session's name. Live is what the list calls the session of a running cluster.
const (
	Latest = "latest"
	Live   = "live"
)

// ErrNoSession says that a session is not stored.
var ErrNoSession = errors.New("no such session is stored")

// Selector says which session Find looks for.
type Selector struct {
	Namespace string
	// Kind is RayCluster, RayJob or RayService, or "" for a cluster of any owner. With RayJob and RayService, Name is the owner's or the
	// cluster's.
	Kind    string
	Name    string
	Session string // its name, or Latest or Live: the cluster's newest
}

func (s Selector) String() string { return s.Namespace + "/" + s.Name + "/" + s.Session }

// missAge is the maximum age of a listing that lacks the requested session. If it is older, the store is listed again.
const missAge = 2 * time.Second

// lateWrites is how long after its last known write an ended session may still be written to: workers store their last seconds after the
// end, and the list is up to an interval old. It also covers differences between clocks, and stores whose times are whole seconds.
const lateWrites = time.Minute

// Find finds a session. The store is listed again if the list lacks it. The error is ErrNoSession if the session is not stored, and
// layout.ErrForeign if the selector contains an invalid name. Otherwise it says why the store could not be listed.
func (c *Catalog) Find(ctx context.Context, s Selector) (Entry, error) {
	if err := s.check(); err != nil {
		return Entry{}, err
	}
	l := c.List(ctx)
	e, ok := s.search(l.Entries)
	if !ok && time.Since(l.At) > missAge {
		if err := c.findCluster(ctx, s.Namespace, s.Name); err != nil {
			return Entry{}, fmt.Errorf("look for session %s: %w", s, err)
		}
		e, ok = s.search(c.Known().Entries)
	}
	if !ok {
		return Entry{}, fmt.Errorf("%w: %s", ErrNoSession, s)
	}
	return e, nil
}

func (s Selector) check() error {
	name := s.Session
	if name == Latest || name == Live {
		name = "session_" // the shortest name that passes
	}
	return layout.Session{Namespace: s.Namespace, Cluster: s.Name, Name: name}.Check()
}

// search finds the newest entry that matches: entries are sorted by start.
func (s Selector) search(entries []Entry) (Entry, bool) {
	for _, e := range entries {
		if s.matches(e) {
			return e, true
		}
	}
	return Entry{}, false
}

func (s Selector) matches(e Entry) bool {
	if e.Ref.Namespace != s.Namespace || (s.Session != Latest && s.Session != Live && s.Session != e.Ref.Name) {
		return false
	}
	switch Kind(s.Kind) {
	case RayJob, RayService:
		return e.OwnerKind == Kind(s.Kind) && (e.OwnerName == s.Name || e.Ref.Cluster == s.Name)
	}
	return e.Ref.Cluster == s.Name
}

// Growing says whether more of a session may have been stored since the given time.
func (c *Catalog) Growing(ref layout.Session, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	marked, ok := c.markers[ref]
	if !ok {
		return false
	}
	e := c.entry(ref, marked)
	if !e.Described && c.due(ref) {
		c.schedule.request(ref)
	}
	return e.Running || !e.Described || since.Before(e.LastWrite.Add(lateWrites))
}
