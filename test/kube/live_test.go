package kube_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// rayCluster is the least that KubeRay's types take.
func rayCluster(namespace, name, labels string) string {
	return fmt.Sprintf(`{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"namespace":%q,"name":%q,"labels":{%s}},
"spec":{"rayVersion":"2.60.0","headGroupSpec":{"rayStartParams":{},"template":{"spec":{"containers":[{"name":"ray-head","image":"rayproject/ray:2.60.0"}]}}}}}
`, namespace, name, labels)
}

func follow(t *testing.T, c kube.Config) *kube.Clusters {
	t.Helper()
	c.Live = kube.Proxy
	clusters := must.Get(kube.Open(c, silent.Logger()))(t)
	clusters.Start()
	t.Cleanup(clusters.Close)
	return clusters
}

func listed(t *testing.T, c *kube.Clusters) string {
	t.Helper()
	l := c.List(t.Context())
	var names []string
	for _, cluster := range l.Clusters {
		names = append(names, cluster.Namespace+"/"+cluster.Name+"("+cluster.State+")")
	}
	if l.Err != nil {
		names = append(names, "error: "+l.Err.Error())
	}
	return strings.Join(names, " ")
}

func TestRunningClustersAreFollowed(t *testing.T) {
	l := lab.Start(t)
	l.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "config/rbac/service_account.yaml"))
	for _, ns := range []string{"a", "b"} {
		l.Kubectl(t, "", "create", "namespace", ns)
	}
	server := l.KubeconfigOf(t, l.TokenOf(t, "default", "historyserver"))
	all := follow(t, kube.Config{Kubeconfigs: []string{server}})
	onlyB := follow(t, kube.Config{Kubeconfigs: []string{server}, Namespaces: []string{"b"}})
	ofTeam := follow(t, kube.Config{Kubeconfigs: []string{server}, Selector: "team=x"})
	expect := func(what, wantAll, wantB, wantTeam string) {
		t.Helper()
		var got []string
		lab.Eventually(t, what, func() bool {
			got = []string{listed(t, all), listed(t, onlyB), listed(t, ofTeam)}
			return slices.Equal(got, []string{wantAll, wantB, wantTeam})
		})
	}
	expect("none", "", "", "")

	l.Kubectl(t, rayCluster("a", "one", ``)+rayCluster("b", "two", `"team":"x"`), "apply", "-f", "-")
	expect("made", "a/one() b/two()", "b/two()", "b/two()")

	l.Kubectl(t, "", "patch", "raycluster", "-n", "b", "two", "--subresource=status", "--type=merge", "-p",
		`{"status":{"state":"ready","head":{"serviceName":"two-head-svc"}}}`)
	expect("ready", "a/one() b/two(ready)", "b/two(ready)", "b/two(ready)")

	l.Kubectl(t, "", "label", "raycluster", "-n", "a", "one", "team=x")
	l.Kubectl(t, "", "label", "raycluster", "-n", "b", "two", "team-")
	expect("labelled", "a/one() b/two(ready)", "b/two(ready)", "a/one()")

	// Made anew under its name.
	l.Kubectl(t, "", "delete", "raycluster", "-n", "b", "two")
	expect("deleted", "a/one()", "", "a/one()")
	l.Kubectl(t, rayCluster("b", "two", ``), "apply", "-f", "-")
	expect("made anew", "a/one() b/two()", "b/two()", "a/one()")
}

func TestWithoutRightsTheListSaysWhatToDo(t *testing.T) {
	l := lab.Start(t)
	l.Kubectl(t, "", "create", "serviceaccount", "nobody")
	clusters := follow(t, kube.Config{Kubeconfigs: []string{l.KubeconfigOf(t, l.TokenOf(t, "default", "nobody"))}})
	if got := listed(t, clusters); !strings.Contains(got, "config/rbac/service_account.yaml") {
		t.Errorf("listed %q", got)
	}
	l.Kubectl(t, "", "delete", "crd", "rayclusters.ray.io")
	// An API server lists objects of a definition for some seconds after it was deleted.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		got := listed(t, follow(t, kube.Config{Kubeconfigs: []string{l.Kubeconfig}}))
		if strings.Contains(got, "KubeRay is not installed") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("without KubeRay: %q", got)
		}
	}
}
