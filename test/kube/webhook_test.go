package kube_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// startWebhook runs the webhook of the release ray in namespace ray-history as its pod would, with its account's
// rights.
func startWebhook(t *testing.T, l *lab.Lab) *process {
	t.Helper()
	ip := l.Kubectl(t, "", "get", "service", "-n", "ray-history", "ray-webhook", "-o", "jsonpath={.spec.clusterIP}")
	ownAddress(t, ip)
	var settings struct{ Data map[string]string }
	must.OK(t, json.Unmarshal([]byte(l.Kubectl(t, "", "get", "configmap", "-n", "ray-history", "ray-webhook", "-o",
		"json")), &settings))
	env := []string{"POD_NAMESPACE=ray-history"}
	for k, v := range settings.Data {
		env = append(env, k+"="+v)
	}
	account := l.KubeconfigOf(t, l.TokenOf(t, "ray-history", "ray-webhook"))
	var args []string
	must.OK(t, json.Unmarshal([]byte(l.Kubectl(t, "", "get", "deployment", "-n", "ray-history", "ray-webhook", "-o",
		"jsonpath={.spec.template.spec.containers[0].args}")), &args))
	webhook := run(t, env, "historyserver", append(args, "--kubeconfigs="+account, "--webhook-listen="+ip+":443")...)
	lab.Eventually(t, "the API server knows the authority", func() bool {
		return l.Kubectl(t, "", "get", "mutatingwebhookconfiguration", "ray-history-ray-webhook", "-o",
			"jsonpath={.webhooks[0].clientConfig.caBundle}") != ""
	})
	return webhook
}

// The webhook as the chart installs it: the account's rights, the certificate, the API server's trust in it, what it
// adds.
func TestWebhook(t *testing.T) {
	l := lab.Start(t)
	release := []string{"upgrade", "--install", "ray", chart, "--namespace=ray-history", "--create-namespace",
		example("minio"), "--set=webhook.enabled=true"}
	l.Helm(t, release...)
	webhook := startWebhook(t, l)

	template := `"rayStartParams":{},"template":{"spec":{"containers":[{"name":"ray","image":"rayproject/ray:2.60.0"}]}}`
	cluster := fmt.Sprintf(`{"headGroupSpec":{%s},"workerGroupSpecs":[{"groupName":"cpu","replicas":1,"minReplicas":0,"maxReplicas":1,%s}]}`, template, template)
	objects := map[string]struct{ spec, at string }{
		"RayCluster": {cluster, ".spec"},
		"RayJob":     {`{"entrypoint":"true","rayClusterSpec":` + cluster + `}`, ".spec.rayClusterSpec"},
		"RayService": {`{"serveConfigV2":"applications: []","rayClusterConfig":` + cluster + `}`,
			".spec.rayClusterConfig"},
		"RayCronJob": {`{"schedule":"0 * * * *","jobTemplate":{"entrypoint":"true","rayClusterSpec":` + cluster + `}}`,
			".spec.jobTemplate.rayClusterSpec"},
	}
	containers := func(kind, name, at string) string {
		return l.Kubectl(t, "", "get", strings.ToLower(kind), name, "-o",
			fmt.Sprintf("jsonpath={%s.headGroupSpec.template.spec.containers[*].name} {%s.workerGroupSpecs[*].template.spec.containers[*].name}", at, at))
	}
	// It has learned of the authority some time before it uses it.
	probe := fmt.Sprintf(`{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"name":"probe","labels":{"ray.io/history":"true"}},"spec":%s}`, cluster)
	lab.Eventually(t, "the API server asks the webhook", func() bool {
		return l.Kubectl(t, probe, "create", "--dry-run=server", "-f", "-", "-o",
			"jsonpath={.spec.headGroupSpec.template.spec.containers[*].name}") == "ray collector"
	})
	for kind, o := range objects {
		for name, labels := range map[string]string{"with": `{"ray.io/history":"true"}`, "without": `{}`,
			"other": `{"ray.io/history":"false"}`} {
			manifest := fmt.Sprintf(`{"apiVersion":"ray.io/v1","kind":%q,"metadata":{"name":%q,"labels":%s},"spec":%s}`,
				kind, name, labels, o.spec)
			l.Kubectl(t, manifest, "create", "-f", "-")
			want := "ray ray"
			if name == "with" {
				want = "ray collector ray collector"
			}
			if got := containers(kind, name, o.at); got != want {
				t.Errorf("%s %s has containers %q, want %q", kind, name, got, want)
			}
		}
	}
	// A newer chart.
	webhook.kill()
	l.Helm(t, append(release, "--set=webhook.collectorImage.tag=v9",
		"--set=webhook.settings.RAYHISTORY_ARG=--push-interval=30s",
		"--set-string=collectors.serviceAccount.annotations.role=ray")...)
	webhook = startWebhook(t, l)
	lab.Eventually(t, "it adds its own collector", func() bool {
		return strings.HasSuffix(l.Kubectl(t, probe, "create", "--dry-run=server", "-f", "-", "-o",
			"jsonpath={.spec.headGroupSpec.template.spec.containers[*].image}"), "collector:v9")
	})
	for kind, o := range objects {
		spec := func() string {
			return l.Kubectl(t, "", "get", strings.ToLower(kind), "with", "-o", "jsonpath={"+o.at+"}")
		}
		before := spec()
		// The user's own manifest, which has no collector, is applied again: KubeRay must see no change.
		manifest := fmt.Sprintf(`{"apiVersion":"ray.io/v1","kind":%q,"metadata":{"name":"with","labels":{"ray.io/history":"true"},"annotations":{"again":"yes"}},"spec":%s}`, kind, o.spec)
		l.Kubectl(t, manifest, "replace", "-f", "-")
		if got := containers(kind, "with", o.at); got != "ray collector ray collector" {
			t.Errorf("%s replaced has containers %q", kind, got)
		}
		if after := spec(); after != before {
			t.Errorf("%s replaced is\n%s\nbefore\n%s", kind, after, before)
		}
	}
	// Labelled later.
	l.Kubectl(t, "", "label", "raycluster", "without", "ray.io/history=true")
	if got := containers("RayCluster", "without", ".spec"); got != "ray collector ray collector" {
		t.Errorf("labelled later: %q", got)
	}
	if out := l.Kubectl(t, "", "get", "raycluster", "with", "-o",
		"jsonpath={.spec.headGroupSpec.template.spec.containers[1]}"); !strings.Contains(out, "ray-history-storage") ||
		!strings.Contains(out, "--role=Head") {
		t.Errorf("the collector: %s", out)
	}

	// Without the webhook clusters are still made.
	webhook.kill()
	l.Kubectl(t, fmt.Sprintf(`{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"name":"late","labels":{"ray.io/history":"true"}},"spec":%s}`, cluster), "create", "-f", "-")
	if got := containers("RayCluster", "late", ".spec"); got != "ray ray" {
		t.Errorf("without the webhook: %q", got)
	}
}
