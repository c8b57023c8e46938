package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// All markers are listed as often as FullRequests allows. In between, only the time-ordered markers of sessions that
// have begun since are listed.

const (
	// pageKeys is how many keys a store lists in one request.
	pageKeys = 1000
	// recentMargin is added to the time since the last listing of all markers: time-ordered markers of sessions that
	// began within both are listed.
	recentMargin = time.Hour
	// beginMargin is the same for a server that starts with packs. Packs have no running sessions: those that began
	// before the margin are found by listing all markers.
	beginMargin = 7 * 24 * time.Hour
	// maxRecent limits the time-ordered markers that are read at a time; further sessions are found by listing all
	// markers.
	maxRecent = 50_000
	// cheapPages limits listing all markers when somebody looks for an unknown session: it is done only if it takes at
	// most so many requests.
	cheapPages = 10
)

// listAll lists the markers of both layouts and adds the sessions that are not known. It returns the known sessions
// that have no marker. Other objects are skipped. pages is about how many requests it took, also after an error.
//
// Of the sessions with a marker it keeps only hashes, to save memory: if two have the same, a removed session may stay
// in the list until the server starts again.
func (c *Catalog) listAll(ctx context.Context) (removed []layout.Session, pages int, err error) {
	var hashes []uint64 // of the sessions that have a marker
	for _, prefix := range layout.MarkerPrefixes(c.opts.Root) {
		n, err := c.listMarkers(ctx, prefix, func(ref layout.Session, at time.Time) {
			hashes = append(hashes, c.table.hash(ref))
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.table.has(ref) {
				c.table.put(ref, session{marked: at})
			}
		})
		if pages += 1 + n/pageKeys; err != nil {
			return nil, pages, err
		}
	}
	slices.Sort(hashes)
	l := c.Cached().list
	for p := range l.everyRow() {
		ref := l.ref(p)
		if _, ok := slices.BinarySearch(hashes, c.table.hash(ref)); !ok {
			removed = append(removed, ref)
		}
	}
	return removed, pages, nil
}

// listMarkers calls found with each session that has a marker below prefix, and with when the marker was written. n
// counts the listed objects, also those that are no markers.
func (c *Catalog) listMarkers(ctx context.Context, prefix string, found func(layout.Session, time.Time)) (n int,
	err error) {
	for o, err := range c.opts.Store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return n, fmt.Errorf("list the session markers: %w", err)
		}
		n++
		ref, err := layout.ParseMarker(c.opts.Root, o.Key)
		if err != nil || !layout.IsSession(ref.Name) {
			c.opts.Log.WithError(err).Debug("skipped an object that is not a session marker")
			continue
		}
		found(ref, o.ModTime)
	}
	return n, nil
}

// listRecent lists the time-ordered markers of sessions that began after a moment, at most maxRecent of them. It
// returns when the newest marker of each session was stored.
func (c *Catalog) listRecent(ctx context.Context, since time.Time) (map[layout.Session]time.Time, error) {
	found := make(map[layout.Session]time.Time)
	n := 0
	for o, err := range c.opts.Store.List(ctx, layout.RecentPrefix(c.opts.Root),
		blob.ListOptions{StartAfter: layout.RecentHour(c.opts.Root, since)}) {
		if err != nil {
			return nil, fmt.Errorf("list the markers of recent sessions: %w", err)
		}
		if n++; n > maxRecent {
			break
		}
		if ref, err := layout.ParseRecent(c.opts.Root, o.Key); err == nil && layout.IsSession(ref.Name) &&
			o.ModTime.After(found[ref]) {
			found[ref] = o.ModTime
		}
	}
	return found, nil
}

// pauseAfterAll returns the time from one listing of all markers, which took so many requests, to the next. It is at
// least least, and keeps to Options.FullRequests.
func (c *Catalog) pauseAfterAll(pages int, least time.Duration) time.Duration {
	return max(least, time.Duration(pages)*(24*time.Hour/time.Duration(c.opts.FullRequests)))
}

// findCluster looks in the store for sessions of a cluster that the list lacks, and adds them. It lists all markers if
// that is cheap, otherwise the cluster's own markers and the recent ones. Recent markers alone are not enough:
// KubeRay's sessions have no time-ordered ones.
func (c *Catalog) findCluster(ctx context.Context, namespace, cluster string) error {
	c.mu.Lock()
	cheap := max(c.full.requests, c.table.rows/pageKeys) <= cheapPages
	since := c.full.began
	allListed := c.full.err == nil && time.Since(c.full.ended) <= missAge // every marker was listed just now
	recentListed := c.err == nil && time.Since(c.listed) <= missAge       // at least the recent markers were
	c.mu.Unlock()
	switch {
	case allListed:
		return nil
	case cheap:
		return c.refresh(ctx, true) // lists all markers
	}
	// Results are remembered for missAge, so somebody who requests the same missing cluster again and again does not
	// use up the limit of all.
	_, err := c.missed.Load(ctx, [2]string{namespace, cluster}, func(ctx context.Context) (none struct{}, err error) {
		if recentListed && !c.misses.Allow() { // too many look for clusters that are not stored
			return none, budget.ErrBusy
		}
		found := make(map[layout.Session]time.Time)
		if _, err = c.listMarkers(ctx, layout.ClusterMarkers(c.opts.Root, namespace, cluster),
			func(ref layout.Session, at time.Time) { found[ref] = at }); err != nil {
			return none, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.addRecent(found)
		return none, nil
	})
	if err != nil || recentListed {
		return err
	}
	// The recent markers were not listed lately: the cluster may have begun since.
	if since.IsZero() {
		since = time.Now()
	}
	return c.refreshRecent(ctx, since.Add(-recentMargin))
}

// addRecent adds markers that were found between two listings of all markers; c.mu must be held.
func (c *Catalog) addRecent(found map[layout.Session]time.Time) {
	for ref, at := range found {
		if !c.table.has(ref) {
			c.table.put(ref, session{marked: at})
		}
		c.recent[ref] = time.Now()
	}
	c.rereadContinued(found)
}

// rereadContinued requests to read the details of sessions again that a further head continues: their time-ordered
// marker, which the head stored before all else, is newer than their details. Details that were read within
// Options.Quiet after the marker count as older, because the head may have stored nothing else by then. c.mu must be
// held.
func (c *Catalog) rereadContinued(found map[layout.Session]time.Time) {
	for ref, at := range found {
		if s, ok := c.table.get(ref); ok && s.facts != nil && at.Add(c.opts.Quiet).After(s.facts.Seen) &&
			c.wasQuiet(s) {
			c.changed[ref] = true
			c.schedule.request(ref)
		}
	}
}
