package visible

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/kubernetes/coverage"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/problem"
)

// errNotWatched is the answer about running clusters of a server that does not watch them.
var errNotWatched = &problem.Problem{
	Status: http.StatusNotFound, Title: "Running clusters are not watched",
	Detail: "The server does not ask Kubernetes which RayClusters run.",
	Advice: "Start it with --live=storage or --live=proxy.",
}

// Coverage says how well collectors cover the running clusters that the caller may see. collectorVersion is the tag
// that the image of collectors should have; "" if any will do.
func (v Sessions) Coverage(ctx context.Context, collectorVersion string) (coverage.Report, error) {
	return v.coverage(ctx, collectorVersion, func(clusters []kube.Cluster) ([]kube.Cluster, error) {
		return v.allowedClusters(ctx, clusters)
	})
}

// CoverageOfAll says how well collectors cover all running clusters, whoever may see them. It is for figures, not for
// answers. collectorVersion is as in Coverage.
func (v Sessions) CoverageOfAll(ctx context.Context, collectorVersion string) (coverage.Report, error) {
	return v.coverage(ctx, collectorVersion,
		func(clusters []kube.Cluster) ([]kube.Cluster, error) { return clusters, nil })
}

// coverage compares the running clusters that choose leaves of all with what the list of sessions says of them: when a
// collector last stored something of each. collectorVersion is as in Coverage. If one of the two lists may be old, the
// report has a warning; if there is none yet, that is an error.
func (v Sessions) coverage(ctx context.Context, collectorVersion string,
	choose func([]kube.Cluster) ([]kube.Cluster, error)) (coverage.Report, error) {
	if v.Live == nil {
		return coverage.Report{}, errNotWatched
	}
	stored := Listing{Listing: v.Catalog.List(ctx)}
	if err := stored.Unavailable(); err != nil {
		return coverage.Report{}, err
	}
	running := v.Live.List(ctx)
	if running.At.IsZero() && running.Err != nil {
		return coverage.Report{}, fmt.Errorf("list running clusters: %w", running.Err)
	}
	clusters, err := choose(running.Clusters)
	if err != nil {
		return coverage.Report{}, err
	}
	now := time.Now()
	report := coverage.Of(clusters, coverage.Facts{
		LastWrites: v.lastWrites(clusters, stored, now), CollectorVersion: collectorVersion, Now: now,
	})
	switch {
	case running.Err != nil:
		report.Warning = "the clusters may be old: " + running.Err.Error()
	case stored.Err != nil:
		report.Warning = "what is stored may be old: the store could not be listed"
	}
	return report, nil
}

// lastWrites says, of the clusters of which a running session is stored, when the session's last object was stored.
//
// The namespaces of stored sessions have the Kubernetes cluster's name at their end. Pods that started before the
// Kubernetes cluster was given a name store without it. Their sessions count if no session of the same cluster is
// stored with the name.
func (v Sessions) lastWrites(clusters []kube.Cluster, stored Listing, now time.Time) map[coverage.Key]time.Time {
	withName, withoutName := map[coverage.Key]time.Time{}, map[coverage.Key]time.Time{}
	for e := range stored.Matching(catalog.Filter{State: catalog.Running}, now) {
		namespace, kubernetesCluster := layout.SplitNamespace(e.Ref.Namespace)
		writes := withName
		switch kubernetesCluster {
		case v.KubernetesCluster:
		case "":
			writes = withoutName
		default:
			continue
		}
		if key := (coverage.Key{Namespace: namespace, Name: e.Ref.Cluster}); e.LastWrite.After(writes[key]) {
			writes[key] = e.LastWrite
		}
	}
	for _, c := range clusters {
		f := catalog.Filter{Namespace: layout.JoinNamespace(c.Namespace, v.KubernetesCluster), Cluster: c.Name}
		key := coverage.Key{Namespace: c.Namespace, Name: c.Name}
		if at, ok := withoutName[key]; ok && len(catalog.First(stored.Matching(f, now), 1)) == 0 {
			withName[key] = at
		}
	}
	return withName
}

// allowedClusters returns those of some running clusters that the caller may see; clusters is changed in place. With an
// error the result lacks the clusters of which it is not known whether the caller may see them.
func (v Sessions) allowedClusters(ctx context.Context, clusters []kube.Cluster) ([]kube.Cluster, error) {
	if !v.Access.Enabled() {
		return clusters, nil
	}
	namespaceOf := func(c kube.Cluster) string { return layout.JoinNamespace(c.Namespace, v.KubernetesCluster) }
	namespaces := map[string]bool{}
	for _, c := range clusters {
		namespaces[namespaceOf(c)] = true
	}
	allowed, err := v.Access.Filter(ctx, slices.Collect(maps.Keys(namespaces)))
	return slices.DeleteFunc(clusters, func(c kube.Cluster) bool { return !allowed[namespaceOf(c)] }), err
}
