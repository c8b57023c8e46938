package server

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/openid"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/kubernetes/coverage"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/rayv1"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/access"
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
		withStoredClusters(t, o, api)
	})
	got := f.ask(t, http.MethodGet, "/api/history/coverage", asProgram)
	got.wants(t, http.StatusOK, `"uncovered":1`, `"old":1`, `"starting":1`, `"covered":0`,
		"the collector is v1, want v2")
	page := f.ask(t, http.MethodGet, "/coverage", asBrowser)
	page.wants(t, http.StatusOK, `<a class="filter" href="?state=old">1 old</a>`, "the collector is v1, want v2",
		`href="./homepage?cluster=bare&amp;namespace=team"`, "no collector in 1 of 1 groups of pods")
	f.ask(t, http.MethodGet, "/coverage?state=old", asBrowser).has(t, ">other<").lacks(t, ">bare<")
	f.ask(t, http.MethodGet, "/coverage?state=lost", asBrowser).wants(t, http.StatusBadRequest,
		"uncovered, silent, old, starting or covered")
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

// A rule for the namespaces of the server's own Kubernetes cluster, under its name, shows its running clusters; one for
// namespaces without a name does not.
func TestCoverageOfANamedKubernetesCluster(t *testing.T) {
	p := openid.Start(t)
	rules := filepath.Join(t.TempDir(), "namespaces.yaml")
	must.OK(t, os.WriteFile(rules,
		[]byte("- user: ann\n  namespaces: ['*.home']\n- user: eve\n  namespaces: [default]\n"), 0o600))
	f := start(t, func(o *Options, _ *gatedStore) {
		o.KubernetesCluster = "home"
		config := openIDs(p)
		config.OIDC.NamespacesFile = rules
		o.Access = must.Get(access.New(config, nil, silent.Logger()))(t)
		o.Access.Start()
		t.Cleanup(o.Access.Close)
		withStoredClusters(t, o, kubernetes(t, runningCluster("default", "ours")[0]))
	})
	for user, sees := range map[string]bool{"ann": true, "eve": false} {
		var a answer
		must.Happen(t, "that the provider is known", func() bool {
			a = f.ask(t, http.MethodGet, "/api/history/coverage", asProgram,
				"Authorization: Bearer "+p.Token(map[string]any{"email": user}))
			return a.status != http.StatusServiceUnavailable
		})
		says.True(t, a.status == http.StatusOK && strings.Contains(a.body, `"ours"`) == sees,
			"%s: %d %s, want of the running cluster: %t", user, a.status, a.body, sees)
	}
}

// Clusters that ran before their Kubernetes cluster had its name store without it until their pods are made again.
func TestCoverageOfClustersFromBeforeTheName(t *testing.T) {
	before, moved := runningCluster("team", "before")[0], runningCluster("team", "moved")[0]
	other := runningCluster("team", "other")[0]
	for _, c := range []client.Object{before, moved, other} {
		cluster := c.(*rayv1.RayCluster)
		cluster.Status.State = kube.Ready
		cluster.Spec.HeadGroupSpec.Template.Spec.InitContainers = []rayv1.Container{{Name: "collector", Image: "c:v1"}}
	}
	f := start(t, func(o *Options, store *gatedStore) {
		o.KubernetesCluster = "home"
		withStoredClusters(t, o, kubernetes(t, before, moved, other))
		for _, ref := range []layout.Session{
			{Namespace: "team", Cluster: "before", Name: name},
			{Namespace: "team", Cluster: "moved", Name: name},
			{Namespace: "team.away", Cluster: "other", Name: name},
		} {
			put(t, store, layout.MarkerKey(root, ref), "")
		}
		ended := layout.Session{Namespace: "team.home", Cluster: "moved", Name: old}
		put(t, store, layout.MarkerKey(root, ended), "")
		put(t, store, layout.MetadataKey(root, ended, layout.End), `{"end":"2026-11-20T23:25:00Z"}`)
	})
	f.waitDescribed(t)
	var report struct{ Data coverage.Report }
	must.OK(t, json.Unmarshal([]byte(f.ask(t, http.MethodGet, "/api/history/coverage", asProgram).body), &report))
	got := map[string]coverage.State{}
	for _, c := range report.Data.Clusters {
		got[c.Name] = c.State
	}
	want := map[string]coverage.State{"before": coverage.Covered, "moved": coverage.Silent, "other": coverage.Silent}
	says.Equal(t, cmp.Diff(want, got), "")
}
