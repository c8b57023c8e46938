package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
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
	l.Entries = withRunning(l.Entries, running.Clusters)
	if !v.access.Enabled() {
		return l
	}
	allowed, err := v.access.Filter(ctx, namespaces(l.Entries))
	if err != nil {
		return listing{Listing: catalog.Listing{Err: err}}
	}
	l.Entries = slices.DeleteFunc(slices.Clone(l.Entries), func(e catalog.Entry) bool { return !allowed[e.Ref.Namespace] })
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

func namespaces(entries []catalog.Entry) []string {
	seen := make(map[string]bool)
	var out []string
	for _, e := range entries {
		if !seen[e.Ref.Namespace] {
			seen[e.Ref.Namespace] = true
			out = append(out, e.Ref.Namespace)
		}
	}
	return out
}

// withRunning adds an entry for each running cluster that has no running session among the entries, which it does not change.
func withRunning(entries []catalog.Entry, clusters []kube.Cluster) []catalog.Entry {
	if len(clusters) == 0 {
		return entries
	}
	type key struct{ namespace, name string }
	stored := make(map[key]bool)
	for _, e := range entries {
		if e.Running {
			stored[key{e.Ref.Namespace, e.Ref.Cluster}] = true
		}
	}
	out := slices.Clone(entries)
	for _, c := range clusters {
		if !stored[key{c.Namespace, c.Name}] {
			out = append(out, liveEntry(c))
		}
	}
	slices.SortStableFunc(out, func(a, b catalog.Entry) int { return b.Start.Compare(a.Start) })
	return out
}

// liveEntry is a running cluster of which nothing is stored, as an entry of the list.
func liveEntry(c kube.Cluster) catalog.Entry {
	return catalog.Entry{
		Ref:       layout.Session{Namespace: c.Namespace, Cluster: c.Name, Name: catalog.Live},
		OwnerKind: c.OwnerKind, OwnerName: c.OwnerName, RayVersion: c.RayVersion, Start: c.Created, Running: true, Described: true,
	}
}
