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

// ErrNoSession is what Find answers for what is not stored.
var ErrNoSession = errors.New("no such session is stored")

// Want says which session is looked for.
type Want struct {
	Namespace string
	// Kind is RayCluster, RayJob or RayService, or empty for a cluster of any owner. With RayJob and RayService, Name is the owner's or
	// the cluster's.
	Kind    string
	Name    string
	Session string // its name, or Latest or Live: the cluster's newest
}

func (w Want) String() string { return w.Namespace + "/" + w.Name + "/" + w.Session }

// forgiven is how long a listing is believed when it lacks a session that is asked for.
const forgiven = 2 * time.Second

// Find looks a session up; the store is listed again if the list lacks it. ErrNoSession says that it is not stored, other errors that
// the store could not be asked. Names that are no names are layout.ErrForeign.
func (c *Catalog) Find(ctx context.Context, w Want) (Entry, error) {
	if err := w.check(); err != nil {
		return Entry{}, err
	}
	l := c.List(ctx)
	e, ok := w.search(l.Entries)
	if !ok && time.Since(l.At) > forgiven {
		if err := c.Refresh(ctx); err != nil {
			return Entry{}, fmt.Errorf("look for session %s: %w", w, err)
		}
		e, ok = w.search(c.Known().Entries)
	}
	if !ok {
		return Entry{}, fmt.Errorf("%w: %s", ErrNoSession, w)
	}
	return e, nil
}

func (w Want) check() error {
	name := w.Session
	if name == Latest || name == Live {
		name = "session_" // the shortest name that passes
	}
	return layout.Session{Namespace: w.Namespace, Cluster: w.Name, Name: name}.Check()
}

// search finds the newest entry that is wanted: entries are sorted by start.
func (w Want) search(entries []Entry) (Entry, bool) {
	for _, e := range entries {
		if w.matches(e) {
			return e, true
		}
	}
	return Entry{}, false
}

func (w Want) matches(e Entry) bool {
	if e.Ref.Namespace != w.Namespace || (w.Session != Latest && w.Session != Live && w.Session != e.Ref.Name) {
		return false
	}
	switch Kind(w.Kind) {
	case RayJob, RayService:
		return e.OwnerKind == Kind(w.Kind) && (e.OwnerName == w.Name || e.Ref.Cluster == w.Name)
	}
	return e.Ref.Cluster == w.Name
}

// Growing says whether more of a session may have been stored since the given time: it runs, or has been written since.
func (c *Catalog) Growing(ref layout.Session, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	marked, ok := c.markers[ref]
	if !ok {
		return false
	}
	e := c.entry(ref, marked)
	return e.Running || !e.Described || e.LastWrite.After(since)
}
