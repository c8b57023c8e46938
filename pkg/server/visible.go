package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/access"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/kube"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/problem"
)

// visible holds the stored and running sessions that the caller of a request may see. Handlers have no other access to them.
type visible struct {
	catalog *catalog.Catalog
	live    *kube.Clusters
	access  *access.Access
}

// listing is the list of sessions for one caller.
type listing struct {
	catalog.Listing
	// LiveErr is why running clusters may be missing.
	LiveErr error
}

// liveWait is how long a list waits for an API server that has not answered yet: stored sessions do not depend on it.
const liveWait = 2 * time.Second

// list returns the sessions that the caller may see: the stored ones, and one named catalog.Live for each running cluster that has no
// stored running session.
func (v visible) list(ctx context.Context) listing {
	l := listing{Listing: v.catalog.List(ctx)}
	soon, cancel := context.WithTimeout(ctx, liveWait)
	defer cancel()
	running := v.live.List(soon)
	l.LiveErr = running.Err
	live := make([]catalog.Entry, len(running.Clusters))
	for i, c := range running.Clusters {
		live[i] = liveEntry(c)
	}
	l.Listing = v.catalog.WithRunning(l.Listing, live)
	if !v.access.Enabled() {
		return l
	}
	allowed, err := v.access.Filter(ctx, l.Namespaces())
	if err != nil {
		return listing{Listing: catalog.Listing{Err: err}}
	}
	l.Listing = l.Within(allowed)
	return l
}

// find looks up a stored session, if the caller may see it.
func (v visible) find(ctx context.Context, sel catalog.Selector) (catalog.Entry, error) {
	if err := v.access.Allowed(ctx, sel.Namespace); err != nil {
		return catalog.Entry{}, err
	}
	e, err := v.catalog.Find(ctx, sel)
	if sel.Session == catalog.Live && errors.Is(err, catalog.ErrNoSession) {
		if why := v.live.NotReached(sel.Namespace, sel.Name); why != nil {
			// Not 404: Ray's proxying dashboard answers that with its own cluster's data instead.
			return e, &problem.Problem{
				Status: http.StatusGone, Title: "Nothing is stored of this running cluster",
				Detail: "The cluster " + sel.Name + " runs, but nothing of its session is stored yet. " + problem.Sentence(why),
				Advice: "Check that its pods have a collector. What a collector stores is shown within a minute.",
			}
		}
	}
	return e, err
}

// running finds the selected running cluster, if the caller may see it and requests for it are passed on. Only catalog.Live stands for one:
// a session's own name always means the stored session.
func (v visible) running(ctx context.Context, sel catalog.Selector) (kube.Cluster, bool, error) {
	if sel.Session != catalog.Live {
		return kube.Cluster{}, false, nil
	}
	if err := v.access.Allowed(ctx, sel.Namespace); err != nil {
		return kube.Cluster{}, false, err
	}
	c, ok := v.live.Reachable(sel.Namespace, catalog.Kind(sel.Kind), sel.Name)
	return c, ok, nil
}

// liveEntry is a running cluster of which nothing is stored, as an entry of the list.
func liveEntry(c kube.Cluster) catalog.Entry {
	return catalog.Entry{
		Ref:       layout.Session{Namespace: c.Namespace, Cluster: c.Name, Name: catalog.Live},
		OwnerKind: c.OwnerKind, OwnerName: c.OwnerName, RayVersion: c.RayVersion, Start: c.Created, Running: true, Described: true,
	}
}
