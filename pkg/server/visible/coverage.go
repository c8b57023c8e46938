package visible

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/kubernetes/coverage"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/problem"
)

// errNotWatched is a server that knows no running clusters.
var errNotWatched = &problem.Problem{
	Status: http.StatusNotFound, Title: "Running clusters are not watched",
	Detail: "The server does not ask Kubernetes which RayClusters run.",
	Advice: "Start it with --live=storage or --live=proxy.",
}

// Coverage says how well the running clusters that the caller may see keep their history. version is the tag of the
// collectors' image; "" if any will do.
func (v Sessions) Coverage(ctx context.Context, version string) (coverage.Report, error) {
	return v.coverage(ctx, version, func(clusters []kube.Cluster) ([]kube.Cluster, error) {
		return seen(ctx, v.Access, clusters, func(c kube.Cluster) string {
			return layout.JoinNamespace(c.Namespace, v.KubernetesCluster)
		})
	})
}

// CoverageOfAll is Coverage whoever may see the clusters: for figures, not for answers.
func (v Sessions) CoverageOfAll(ctx context.Context, version string) (coverage.Report, error) {
	return v.coverage(ctx, version, func(clusters []kube.Cluster) ([]kube.Cluster, error) { return clusters, nil })
}

// coverage compares those of the running clusters that a function selects with what the list of sessions says of them.
// A list that may be old is a warning, none at all an error.
func (v Sessions) coverage(ctx context.Context, version string,
	of func([]kube.Cluster) ([]kube.Cluster, error)) (coverage.Report, error) {
	if v.Live == nil {
		return coverage.Report{}, errNotWatched
	}
	stored := Listing{Listing: v.Catalog.List(ctx)}
	if err := stored.Unknown(); err != nil {
		return coverage.Report{}, err
	}
	running := v.Live.List(ctx)
	if running.At.IsZero() && running.Err != nil {
		return coverage.Report{}, fmt.Errorf("list running clusters: %w", running.Err)
	}
	clusters, err := of(running.Clusters)
	if err != nil {
		return coverage.Report{}, err
	}
	now := time.Now()
	report := coverage.Of(clusters, coverage.Facts{
		Running: v.lastWrites(clusters, stored, now), Version: version, Now: now, Idle: lifetime.Idle,
	})
	switch {
	case running.Err != nil:
		report.Warning = "the clusters may be old: " + running.Err.Error()
	case stored.Err != nil:
		report.Warning = "what is stored may be old: the store could not be listed"
	}
	return report, nil
}

// lastWrites says of clusters that have a running stored session when its last object was stored. Pods from before the
// Kubernetes cluster had its name store without it: their sessions count until one with the name is stored.
func (v Sessions) lastWrites(clusters []kube.Cluster, stored Listing, now time.Time) map[coverage.Key]time.Time {
	named, unnamed := map[coverage.Key]time.Time{}, map[coverage.Key]time.Time{}
	for e := range stored.Matching(catalog.Filter{State: catalog.Running}, now) {
		namespace, kubernetesCluster := layout.SplitNamespace(e.Ref.Namespace)
		of := named
		switch kubernetesCluster {
		case v.KubernetesCluster:
		case "":
			of = unnamed
		default:
			continue
		}
		if key := (coverage.Key{Namespace: namespace, Name: e.Ref.Cluster}); e.LastWrite.After(of[key]) {
			of[key] = e.LastWrite
		}
	}
	for _, c := range clusters {
		f := catalog.Filter{Namespace: layout.JoinNamespace(c.Namespace, v.KubernetesCluster), Cluster: c.Name}
		key := coverage.Key{Namespace: c.Namespace, Name: c.Name}
		if at, ok := unnamed[key]; ok && len(catalog.First(stored.Matching(f, now), 1)) == 0 {
			named[key] = at
		}
	}
	return named
}

// seen keeps what is of namespaces that the caller may see. The error says why not all of that is known.
func seen[T any](ctx context.Context, a *access.Access, all []T, namespaceOf func(T) string) ([]T, error) {
	if !a.Enabled() {
		return all, nil
	}
	namespaces := map[string]bool{}
	for _, one := range all {
		namespaces[namespaceOf(one)] = true
	}
	allowed, err := a.Filter(ctx, slices.Collect(maps.Keys(namespaces)))
	return slices.DeleteFunc(all, func(one T) bool { return !allowed[namespaceOf(one)] }), err
}
