package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Aliases that stand for a session's name. Live is what the list calls the session of a running cluster.
const (
	Latest = "latest"
	Live   = "live"
)

// IsAlias says whether a name stands for the newest session of a cluster.
func IsAlias(name string) bool { return name == Latest || name == Live }

// ErrNoSession says that a session is not stored.
var ErrNoSession = errors.New("no such session is stored")

// Selector says which session Find looks for.
type Selector struct {
	Namespace string
	// Kind is RayCluster, RayJob or RayService, or "" for a cluster of any owner. With RayJob and RayService, Name is
	// the owner's or the cluster's.
	Kind    string
	Name    string
	Session string // its name, or an alias
}

func (s Selector) String() string { return s.Namespace + "/" + s.Name + "/" + s.Session }

const (
	// missAge is the maximum age of a listing that does not contain the requested session. If the listing is older,
	// the store is listed again.
	missAge = 2 * time.Second
	// missesPerSecond bounds how often clusters are looked for one by one, if a listing of missAge lacks them.
	missesPerSecond = 20
	// maxMissed is how many of these clusters are remembered.
	maxMissed = 1000
)

// Find finds a session. The store is listed again if the list does not contain it. The error is ErrNoSession if the
// session is not stored, and layout.ErrForeign if the selector contains an invalid name. Any other error says why the
// store could not be listed.
func (c *Catalog) Find(ctx context.Context, s Selector) (Entry, error) {
	if err := s.check(); err != nil {
		return Entry{}, err
	}
	if e, ok := c.findExact(s); ok { // as most requests, it names the session itself
		return e, nil
	}
	e, ok := s.newestIn(c.List(ctx))
	if !ok {
		if err := c.findCluster(ctx, s.Namespace, s.Name); err != nil {
			return Entry{}, fmt.Errorf("look for session %s: %w", s, err)
		}
		e, ok = s.newestIn(c.Cached())
	}
	if !ok {
		return Entry{}, fmt.Errorf("%w: %s", ErrNoSession, s)
	}
	return e, nil
}

// check returns layout.ErrForeign if a name is invalid.
func (s Selector) check() error {
	name := s.Session
	if IsAlias(name) {
		name = "session_" // the shortest name that is valid
	}
	return layout.Session{Namespace: s.Namespace, Cluster: s.Name, Name: name}.Check()
}

// findExact looks up a session of our layout by its exact name, without a search. Most requests name one. ok is false
// for aliases, owners' names and sessions of other layouts, which newestIn finds.
func (c *Catalog) findExact(s Selector) (Entry, bool) {
	if kind := Kind(s.Kind); kind == RayJob || kind == RayService {
		return Entry{}, false
	}
	ref := layout.Session{Namespace: s.Namespace, Cluster: s.Name, Name: s.Session}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.table.get(ref)
	return known.entry(ref, time.Now(), c.opts.Quiet), ok
}

// newestIn finds the newest session of a list that the selector selects; false if there is none. A selector of kind
// RayJob or RayService selects sessions of such an owner by the owner's name or the cluster's; else only the cluster's
// name counts. An alias, such as "latest", is any session.
func (s Selector) newestIn(l Listing) (Entry, bool) {
	if l.list == nil {
		return Entry{}, false
	}
	n, kind := &l.list.names, Kind(s.Kind)
	owner := codeOf(kinds, kind)
	for p := range l.list.all() { // newest first
		r := l.list.row(p)
		c := n.clusters[r.cluster]
		matches := n.texts[c.name] == s.Name
		if kind == RayJob || kind == RayService {
			matches = r.kind == owner && (matches || n.texts[r.owner] == s.Name)
		}
		if !matches || n.texts[c.namespace] != s.Namespace {
			continue
		}
		if IsAlias(s.Session) || s.Session == string(l.list.blocks[p.block].sessionName(int(p.row))) {
			return l.list.entry(p, time.Now().UnixMicro()), true
		}
	}
	return Entry{}, false
}

// Growing says whether more of a session may have been stored since the given time; false for a session that is not in
// the list. It counts as a use of the session, see noteUse.
func (c *Catalog) Growing(ref layout.Session, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.table.get(ref)
	if !ok {
		return false
	}
	c.noteUse(ref, s)
	e := s.entry(ref, time.Now(), c.opts.Quiet)
	return e.Running || !e.Described || since.Before(e.LastWrite.Add(lifetime.LateWrites))
}

// Earlier returns the sessions that began before another one, of the same cluster and of clusters that the same RayJob
// or RayService created. entries and the result are sorted, newest first.
func Earlier(entries iter.Seq[Entry], than Entry) []Entry {
	var found []Entry
	for e := range entries {
		owned := e.OwnerKind == than.OwnerKind && e.OwnerName == than.OwnerName && than.OwnerName != "" &&
			than.OwnerKind != RayCluster
		if e.Ref.Namespace == than.Ref.Namespace && (e.Ref.Cluster == than.Ref.Cluster || owned) &&
			e.Start.Before(than.Start) && e.Ref.Name != Live { // of a live session nothing is stored
			found = append(found, e)
		}
	}
	return found
}
