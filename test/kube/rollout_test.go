package kube_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

const (
	// manyNamespaces and manyClusters are a company that begins to keep history.
	manyNamespaces = 60
	manyClusters   = 300
)

// choices are the values of the label ray.io/history; empty: none.
var choices = []string{"", "true", "false"}

// metadata is an object's in JSON.
func metadata(namespace, name, choice string) string {
	labels := "{}"
	if choice != "" {
		labels = fmt.Sprintf(`{"ray.io/history":%q}`, choice)
	}
	return fmt.Sprintf(`{"namespace":%q,"name":%q,"labels":%s}`, namespace, name, labels)
}

func labelledCluster(namespace, name, choice string) string {
	return fmt.Sprintf(`{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":%s,"spec":{"headGroupSpec":`+
		`{"rayStartParams":{},"template":{"spec":{"containers":[{"name":"ray","image":"rayproject/ray:2.60.0"}]}}}}}`,
		metadata(namespace, name, choice))
}

// A roll-out over many namespaces: for each way to select, the webhook covers what it should and nothing else, and the
// namespaces of covered clusters, and no others, get what collectors need, by the rights of the webhook's own account.
func TestRollOut(t *testing.T) {
	l := lab.Start(t)
	install := func(what, selects string) {
		l.Helm(t, what, "ray", chart, "--namespace=ray-history", "--create-namespace", example("minio"),
			"--set=networkPolicy.collectors=true",
			"--set=webhook.enabled=true,webhook.copy.settings=true,webhook.copy.secret=true,webhook.select="+selects,
			"--set-string=collectors.serviceAccount.annotations.role=ray")
	}
	install("install", "objects")
	webhook := startWebhook(t, l)
	random := rand.New(rand.NewPCG(1, 2))
	choose := func() string { return choices[random.IntN(len(choices))] }

	var namespaces, list strings.Builder
	chosen := map[string]string{"asks": "true", "silent": "", "declines": "false"}
	for i := len(chosen); i < manyNamespaces; i++ {
		chosen[fmt.Sprintf("team-%d", i)] = choose()
	}
	for name, choice := range chosen {
		fmt.Fprintf(&namespaces, `{"apiVersion":"v1","kind":"Namespace","metadata":%s}`, metadata("", name, choice))
	}
	l.Kubectl(t, namespaces.String(), "create", "-f", "-")

	covered := map[string]bool{} // namespaces
	for _, mode := range []struct {
		selects string
		wants   func(namespace, object string) bool
		sign    string // a namespace in which a cluster without the label gets a collector in this mode, not before
	}{
		{"objects", func(_, object string) bool { return object == "true" }, ""},
		{"namespaces", func(ns, object string) bool { return ns == "true" && object != "false" }, "asks"},
		{"all", func(ns, object string) bool { return ns != "false" && object != "false" }, "silent"},
	} {
		if mode.sign != "" {
			install("upgrade", mode.selects)
			lab.Eventually(t, "the API server has heard of the selection by "+mode.selects, func() bool {
				return strings.Contains(l.Kubectl(t, labelledCluster(mode.sign, "trial", ""), "create",
					"--dry-run=server",
					"-o", "json", "-f", "-"), `"collector"`)
			})
		}
		list.Reset()
		want := map[string]bool{}
		for i := range manyClusters / 3 {
			namespace, object := fmt.Sprintf("team-%d", len(choices)+random.IntN(manyNamespaces-len(choices))), choose()
			name := fmt.Sprintf("%s-%d", mode.selects, i)
			list.WriteString(labelledCluster(namespace, name, object))
			want[namespace+"/"+name] = mode.wants(chosen[namespace], object)
			covered[namespace] = covered[namespace] || want[namespace+"/"+name]
		}
		l.Kubectl(t, list.String(), "create", "-f", "-")
		checkCovered(t, l, mode.selects+"-", want)
	}

	for kind, name := range map[string]string{"configmap": "ray-history-storage", "secret": "ray-history-storage",
		"serviceaccount": "ray-history-collector", "networkpolicy": "ray-history-collector"} {
		has := map[string]bool{}
		for namespace := range strings.FieldsSeq(l.Kubectl(t, "", "get", kind, "--all-namespaces",
			"--field-selector=metadata.name="+name, "-o", "jsonpath={.items[*].metadata.namespace}")) {
			has[namespace] = true
		}
		for namespace := range chosen {
			if has[namespace] != covered[namespace] {
				t.Errorf("namespace %s has the %s: %t, and covered clusters: %t", namespace, kind, has[namespace],
					covered[namespace])
			}
		}
	}
	t.Log(latency(t, l))
	webhook.kill()
	checkCoverage(t, l, random)
}

// checkCovered compares which clusters have a collector, of those whose names begin with prefix.
func checkCovered(t *testing.T, l *lab.Lab, prefix string, want map[string]bool) {
	t.Helper()
	var clusters struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
			Spec     struct {
				HeadGroupSpec struct {
					Template struct {
						Spec struct {
							ServiceAccountName string
							Containers         []struct{ Name string }
						}
					}
				}
			}
		}
	}
	must.OK(t, json.Unmarshal([]byte(l.Kubectl(t, "", "get", "rayclusters", "--all-namespaces", "-o", "json")),
		&clusters))
	seen := 0
	for _, c := range clusters.Items {
		if !strings.HasPrefix(c.Metadata.Name, prefix) {
			continue
		}
		seen++
		name, pod := c.Metadata.Namespace+"/"+c.Metadata.Name, c.Spec.HeadGroupSpec.Template.Spec
		if has := len(pod.Containers) == 2; has != want[name] {
			t.Errorf("%s has a collector: %t, want %t", name, has, want[name])
		} else if has && pod.ServiceAccountName != "ray-history-collector" {
			t.Errorf("%s has the service account %q", name, pod.ServiceAccountName)
		}
	}
	if seen != len(want) {
		t.Errorf("%d clusters of %s were made, want %d", seen, prefix, len(want))
	}
}

// latency is the share of the API server's calls of the webhook that took at most 25 and 100 ms: limits of buckets of
// its metric.
func latency(t *testing.T, l *lab.Lab) string {
	t.Helper()
	count := map[string]float64{} // by bucket
	lines := bufio.NewScanner(strings.NewReader(l.Kubectl(t, "", "get", "--raw=/metrics")))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(name, "apiserver_admission_webhook_admission_duration_seconds_bucket{") ||
			!strings.Contains(name, `name="inject.history.ray.io"`) {
			continue
		}
		_, after, _ := strings.Cut(name, `le="`)
		limit, _, _ := strings.Cut(after, `"`)
		count[limit] += must.Get(strconv.ParseFloat(value, 64))(t)
	}
	all := count["+Inf"]
	if all == 0 {
		t.Error("the API server counted no calls of the webhook")
	}
	return fmt.Sprintf("of %.0f calls of the webhook, %.1f %% took at most 25 ms, %.1f %% at most 100 ms", all,
		100*count["0.025"]/all, 100*count["0.1"]/all)
}

// Without copies, and where an account is missing, pods keep their own; a webhook that has nothing to ask writes the
// settings into the collector.
func TestWebhookInline(t *testing.T) {
	l := lab.Start(t)
	l.Helm(t, "install", "ray", chart, "--namespace=ray-history", "--create-namespace", example("minio"),
		"--set=webhook.enabled=true,webhook.select=all,webhook.inline=true",
		"--set-string=collectors.serviceAccount.annotations.role=ray")
	startWebhook(t, l)
	out := l.Kubectl(t, labelledCluster("default", "lab", ""), "create", "-o", "json", "-f", "-")
	if !strings.Contains(out, `"ray-historyserver"`) || strings.Contains(out, "configMapRef") ||
		strings.Contains(out, "serviceAccountName") ||
		!strings.Contains(out, "no service account ray-history-collector") {
		t.Errorf("the cluster is %s", out)
	}
}
