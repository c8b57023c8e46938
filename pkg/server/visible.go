package server

import (
	"context"
	"slices"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/access"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/kube"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// visible is what the caller of a request may know of stored and running sessions. Handlers have no other way to either.
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

// liveWait is how long a list waits for the first word of an API server that does not answer: stored sessions are not concerned by it.
const liveWait = 2 * time.Second

// list tells of the sessions that the caller may see: those that are stored, and of a running cluster that has none stored one named
// catalog.Live.
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

// find looks up a stored session that the caller may see.
func (v visible) find(ctx context.Context, w catalog.Want) (catalog.Entry, error) {
	if err := v.access.Allowed(ctx, w.Namespace); err != nil {
		return catalog.Entry{}, err
	}
	return v.catalog.Find(ctx, w)
}

// running finds the running cluster that is wanted, if the caller may see it and requests for it are passed on. Only catalog.Live stands
// for one: a session's own name always means what is stored.
func (v visible) running(ctx context.Context, w catalog.Want) (kube.Cluster, bool, error) {
	if w.Session != catalog.Live {
		return kube.Cluster{}, false, nil
	}
	if err := v.access.Allowed(ctx, w.Namespace); err != nil {
		return kube.Cluster{}, false, err
	}
	c, ok := v.live.Reachable(w.Namespace, catalog.Kind(w.Kind), w.Name)
	return c, ok, nil
}

// authorize is a filter that refuses, before any handler runs, what is about a namespace that the caller may not see.
func (s *Server) authorize(req *restful.Request, resp *restful.Response, chain *restful.FilterChain) {
	if ns, ok := req.PathParameters()[paramNamespace]; ok {
		if err := s.opts.Access.Allowed(req.Request.Context(), ns); err != nil {
			s.fail(resp, req.Request, err)
			return
		}
	}
	chain.ProcessFilter(req, resp)
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
