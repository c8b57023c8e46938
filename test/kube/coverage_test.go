package kube_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/kubernetes/coverage"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// objects is a list for kubectl.
func objects(items []unstructured.Unstructured) string {
	list := strings.Builder{}
	for _, item := range items {
		text, _ := json.Marshal(item.Object)
		list.WriteString(string(text) + "\n")
	}
	return list.String()
}

// checkCoverage changes clusters at random, which nobody answers for at the webhook, and compares what a server says of
// each of them with what was done to it.
func checkCoverage(t *testing.T, l *lab.Lab, random *rand.Rand) {
	t.Helper()
	var list struct{ Items []unstructured.Unstructured }
	must.OK(t, json.Unmarshal([]byte(l.Kubectl(t, "", "get", "rayclusters", "--all-namespaces", "-o", "json")), &list))
	want, wanted, dir := map[string]coverage.State{}, "", t.TempDir()
	var deleted, replaced, suspended []unstructured.Unstructured
	for _, cluster := range list.Items {
		at := []string{"spec", "headGroupSpec", "template", "spec", "containers"}
		containers, _, err := unstructured.NestedSlice(cluster.Object, at...)
		must.OK(t, err)
		state, stored := coverage.Starting, random.IntN(2) == 0
		if stored {
			store(t, dir, cluster.GetNamespace(), cluster.GetName())
			state = coverage.Covered
		}
		if len(containers) == 1 {
			state = coverage.Uncovered
		} else {
			wanted = kube.Tag(containers[1].(map[string]any)["image"].(string))
		}
		switch change := random.IntN(6); {
		case change == 0:
			deleted = append(deleted, cluster)
			continue
		case change == 1:
			must.OK(t, unstructured.SetNestedField(cluster.Object, true, "spec", "suspend"))
			suspended = append(suspended, cluster)
			continue
		case change == 2 && len(containers) == 2:
			state = coverage.Uncovered
			must.OK(t, unstructured.SetNestedSlice(cluster.Object, containers[:1], at...))
			replaced = append(replaced, cluster)
		case change == 3 && len(containers) == 2:
			state = coverage.Old
			containers[1].(map[string]any)["image"] = "collector:v0.0.1"
			must.OK(t, unstructured.SetNestedSlice(cluster.Object, containers, at...))
			replaced = append(replaced, cluster)
		}
		want[cluster.GetNamespace()+"/"+cluster.GetName()] = state
	}
	l.Kubectl(t, objects(deleted), "delete", "--wait=false", "-f", "-")
	l.Kubectl(t, objects(replaced), "replace", "-f", "-")
	l.Kubectl(t, objects(suspended), "replace", "-f", "-")
	var added strings.Builder
	for i := range 30 {
		name := fmt.Sprintf("late-%d", i)
		added.WriteString(labelledCluster("asks", name, "true"))
		want["asks/"+name] = coverage.Uncovered
	}
	began := time.Now()
	l.Kubectl(t, added.String(), "create", "-f", "-")
	t.Logf("%d deleted, %d changed, %d suspended; 30 made in %s though the webhook is down", len(deleted),
		len(replaced),
		len(suspended), time.Since(began).Round(time.Millisecond))

	port := freeport.Port(t)
	run(t, nil, "historyserver", "--listen="+strings.TrimPrefix(url(port, ""), "http://"), "--storage-backend=local",
		"--local-dir="+dir, "--live=storage", "--kubeconfigs="+l.Kubeconfig, "--live-collector-version="+wanted)
	var body string
	ok := func() bool {
		var report struct{ Data coverage.Report }
		_, body = ask(t, url(port, "/api/history/coverage"), "")
		if json.Unmarshal([]byte(body), &report) != nil {
			return false
		}
		got := map[string]coverage.State{}
		for _, c := range report.Data.Clusters {
			got[c.Namespace+"/"+c.Name] = c.State
		}
		for name, state := range want {
			if got[name] != state {
				body = fmt.Sprintf("%s is %q, want %q", name, got[name], state)
			}
		}
		return maps.Equal(got, want)
	}
	defer func() {
		if t.Failed() {
			t.Logf("at last: %.500s", body)
		}
	}()
	lab.Eventually(t, "the coverage is what the clusters are", ok)
	counts := map[coverage.State]int{}
	for _, state := range want {
		counts[state]++
	}
	for _, state := range []coverage.State{coverage.Uncovered, coverage.Old, coverage.Starting, coverage.Covered} {
		if counts[state] < 5 {
			t.Errorf("only %d clusters are %s", counts[state], state)
		}
	}
	t.Logf("coverage: %v", counts)
}
