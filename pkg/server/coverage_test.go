package server

import (
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
)

// Coverage is told of the running clusters, by the images of their collectors, and counted for Prometheus.
func TestCoverage(t *testing.T) {
	ours, other := runningCluster("default", "ours")[0], runningCluster("default", "other")[0]
	for cluster, image := range map[client.Object]string{ours: "collector:v2", other: "collector:v1"} {
		spec := &cluster.(*rayv1.RayCluster).Spec.HeadGroupSpec.Template.Spec
		spec.InitContainers = []rayv1.Container{{Name: "collector", Image: image}}
	}
	api := kubernetes(t, ours, other, runningCluster("team", "bare")[0])
	f := start(t, func(o *Options, _ *gatedStore) {
		o.CollectorVersion = "v2"
		o.Live = kube.New(kube.Config{Live: kube.Storage}, api, nil, silent.Logger())
		o.Live.Start()
		t.Cleanup(o.Live.Close)
		o.Live.List(t.Context())
	})
	got := f.ask(t, http.MethodGet, "/api/history/coverage", asProgram)
	got.wants(t, http.StatusOK, `"uncovered":1`, `"old":1`, `"starting":1`, `"covered":0`,
		"the collector is v1, want v2")
	page := f.ask(t, http.MethodGet, "/coverage", asBrowser)
	page.wants(t, http.StatusOK, `<a class="filter" href="?state=old">1 old</a>`, "the collector is v1, want v2",
		`href="./homepage?cluster=bare&amp;namespace=team"`, "no collector in 1 of 1 groups of pods")
	f.ask(t, http.MethodGet, "/coverage?state=old", asBrowser).has(t, ">other<").lacks(t, ">bare<")
	if got := f.ask(t, http.MethodGet, "/coverage?state=lost", asBrowser); got.status != http.StatusBadRequest ||
		!strings.Contains(got.body, "uncovered, silent, old, starting, covered") {
		t.Errorf("a state that is none: %d %s", got.status, got.body)
	}
	f.ask(t, http.MethodGet, "/fleet", asBrowser).has(t, `href="coverage"`)
	must.Happen(t, "that the clusters are counted", func() bool {
		body := f.ask(t, http.MethodGet, "/metrics").body
		return strings.Contains(body, `historyserver_clusters_covered{state="old"} 1`) &&
			strings.Contains(body, `historyserver_clusters_covered{state="silent"} 0`)
	})
}

func TestCoverageWithoutKubernetes(t *testing.T) {
	f := start(t, nil)
	f.ask(t, http.MethodGet, "/api/history/coverage", asProgram).wants(t, http.StatusNotFound, "--live=storage")
}
