package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// All markers are listed as often as FullRequests allows. In between, only the time-ordered markers of sessions that began since are.

const (
	// pageKeys is how many keys a store lists by one request.
	pageKeys = 1000
	// recentMargin is how long before the last listing of all markers a session may have begun to be looked for by its time-ordered one.
	recentMargin = time.Hour
	// maxRecent bounds the time-ordered markers that are read at a time; sessions beyond are found by listing all.
	maxRecent = 50_000
	// cheapPages is how many requests listing all markers may take to be done because somebody looks for a session that is not known.
	cheapPages = 10
)

// markers are those listed at a time.
type markers struct {
	of    map[layout.Session]time.Time // when each was written
	pages int                          // requests that it took, about
}

// listAll lists the markers of both layouts. Other objects are skipped. After an error the result says what it took.
func (c *Catalog) listAll(ctx context.Context) (markers, error) {
	c.mu.Lock()
	known := len(c.markers)
	c.mu.Unlock()
	found := markers{of: make(map[layout.Session]time.Time, known)}
	for _, prefix := range layout.MarkerPrefixes(c.opts.Root) {
		if err := c.listMarkers(ctx, prefix, &found); err != nil {
			return found, err
		}
	}
	return found, nil
}

// listMarkers adds the markers whose keys start with prefix.
func (c *Catalog) listMarkers(ctx context.Context, prefix string, found *markers) error {
	n := 0
	defer func() { found.pages += 1 + n/pageKeys }()
	for o, err := range c.opts.Store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			return fmt.Errorf("list the session markers: %w", err)
		}
		n++
		ref, err := layout.ParseMarker(c.opts.Root, o.Key)
		if err != nil {
			c.opts.Log.WithError(err).Debug("skipped an object that is not a session marker")
			continue
		}
		found.of[ref] = o.ModTime
	}
	return nil
}

// listRecent lists the time-ordered markers of sessions that began after a moment.
func (c *Catalog) listRecent(ctx context.Context, since time.Time) (map[layout.Session]time.Time, error) {
	found := make(map[layout.Session]time.Time)
	n := 0
	for o, err := range c.opts.Store.List(ctx, layout.RecentPrefix(c.opts.Root), blob.ListOptions{StartAfter: layout.RecentHour(c.opts.Root, since)}) {
		if err != nil {
			return nil, fmt.Errorf("list the markers of recent sessions: %w", err)
		}
		if n++; n > maxRecent {
			break
		}
		if ref, err := layout.ParseRecent(c.opts.Root, o.Key); err == nil {
			found[ref] = o.ModTime
		}
	}
	return found, nil
}

// pause is the time from one listing of all markers to the next.
func (c *Catalog) pause(pages int, least time.Duration) time.Duration {
	return max(least, time.Duration(pages)*(24*time.Hour/time.Duration(c.opts.FullRequests)))
}

// findCluster looks for sessions of a cluster that are not known yet.
func (c *Catalog) findCluster(ctx context.Context, namespace, cluster string) error {
	c.mu.Lock()
	cheap := c.fullAt.IsZero() || c.pages <= cheapPages
	c.mu.Unlock()
	if cheap {
		return c.refresh(ctx, true)
	}
	var found markers
	found.of = make(map[layout.Session]time.Time)
	if err := c.listMarkers(ctx, layout.ClusterMarkers(c.opts.Root, namespace, cluster), &found); err != nil {
		return err
	}
	c.mu.Lock()
	c.add(found.of)
	c.mu.Unlock()
	return c.refresh(ctx, false)
}

// add takes markers that were found between two listings of all; c.mu must be held.
func (c *Catalog) add(found map[layout.Session]time.Time) {
	for ref, at := range found {
		if _, known := c.markers[ref]; !known {
			c.markers[ref], c.entries = at, nil // whoever waited for the listing finds it
		}
		c.recent[ref] = time.Now()
	}
}
