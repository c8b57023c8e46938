package kube_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// KubeRay's guides apply files of config/ without Helm. Those with Ray's objects come from config/guides_test.go; these
// come from the chart.

// accounts are the kinds of who the server is and what it may do in Kubernetes: the guides apply them on their own.
var accounts = []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}

// guideServer is a file with objects that the chart makes.
type guideServer struct {
	file, example, about string
	kinds                []string
	set                  []string // values
	edit                 func(*testing.T, map[string]any)
	text                 *strings.Replacer
}

var guideServers = []guideServer{
	{file: "service_account.yaml", example: "minio", kinds: accounts,
		about: "The history server's account: it reads which RayClusters run. In another namespace than default, change it in the binding."},
	{file: "historyserver.yaml", example: "minio",
		about: "The history server for config/minio.yaml. Apply config/service_account.yaml too."},
	{file: "historyserver-azureblob.yaml", example: "azurite",
		about: "The history server for config/azurite.yaml. Apply config/service_account.yaml too."},
	{file: "historyserver-gcs.yaml", example: "gcs",
		set:   []string{"storage.gcs.bucket=GUIDE-BUCKET", "image.repository=guide-image"},
		about: "Apply it with your bucket and image:  envsubst < config/historyserver-gcs.yaml | kubectl apply -f -\n# Its account (config/service_account.yaml) must be allowed into the bucket: docs/kubernetes/gke.md.",
		text:  strings.NewReplacer("GUIDE-BUCKET", `"${GCS_BUCKET}"`, "guide-image:v0.1.0", "${HISTORY_SERVER_IMAGE}")},
	{file: "samples/aliyuncs/historyserver.yaml", example: "aliyunoss",
		kinds: append([]string{"Deployment"}, accounts...), edit: settingsFromFile,
		about: "The history server and its account, with the settings of configmap.yaml. Its RAM role lets it into the bucket: docs/kubernetes/ack.md."},
	{file: "samples/aliyuncs/svc.yaml", example: "aliyunoss", kinds: []string{"Service"},
		about: "The history server's Service."},
}

// chartsCollectors is the chart's account for collectors: the guides' collectors have what they need in their own
// files.
const chartsCollectors = "ray-history-collector"

// of renders the file's objects as YAML.
func (g guideServer) of(t *testing.T) string {
	t.Helper()
	args := []string{example(g.example), "--namespace=default", "--set=replicas=1"}
	for _, v := range g.set {
		args = append(args, "--set="+v)
	}
	objects := must.Get(render(t, args...))(t)
	kinds := g.kinds
	if kinds == nil {
		kinds = []string{"Service", "ConfigMap", "Secret", "Deployment"}
	}
	out := "# Made by `make manifests` from config/helm with its examples/" + g.example +
		".yaml: change those, not this.\n# " + g.about + "\n"
	separator := ""
	for _, o := range objects {
		if !slices.Contains(kinds, o.Kind) || o.Metadata.Name == chartsCollectors || o.Kind == "ConfigMap" &&
			o.Metadata.Name == "ray-history-storage" {
			continue
		}
		var object map[string]any
		must.OK(t, json.Unmarshal([]byte(o.text), &object))
		plain(object)
		if g.edit != nil && o.Kind == "Deployment" {
			g.edit(t, object)
		}
		text := must.Get(yaml.Marshal(object))(t)
		out += separator + string(text)
		separator = "---\n"
	}
	if g.text != nil {
		out = g.text.Replace(out)
	}
	return out
}

// plain removes what is Helm's, its labels and the namespace, which kubectl chooses, and gives the Deployment the
// guides' name.
func plain(object map[string]any) {
	metadata := object["metadata"].(map[string]any)
	delete(metadata, "namespace")
	if object["kind"] == "Deployment" {
		metadata["name"] = "historyserver-demo"
	}
	if labels, ok := metadata["labels"].(map[string]any); ok {
		for _, name := range []string{"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart"} {
			delete(labels, name)
		}
	}
	if spec, ok := object["spec"].(map[string]any); ok {
		if template, ok := spec["template"].(map[string]any); ok {
			delete(template["metadata"].(map[string]any), "annotations")
		}
	}
}

// settingsFromFile gives a Deployment its settings by the file of a ConfigMap.
func settingsFromFile(t *testing.T, deployment map[string]any) {
	t.Helper()
	pod := deployment["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	container := pod["containers"].([]any)[0].(map[string]any)
	delete(container, "envFrom")
	container["args"] = append(container["args"].([]any), "--storage-backend=aliyunoss",
		"--storage-backend-config-path=/var/collector-config/data")
	mounts, _ := container["volumeMounts"].([]any)
	container["volumeMounts"] = append(mounts, map[string]any{"name": "storage", "mountPath": "/var/collector-config",
		"readOnly": true})
	volumes, _ := pod["volumes"].([]any)
	pod["volumes"] = append(volumes, map[string]any{"name": "storage",
		"configMap": map[string]any{"name": "aliyunoss-config"}})
}

// TestGuideServers: the files are what the chart makes. UPDATE_MANIFESTS=1 writes them.
func TestGuideServers(t *testing.T) {
	for _, g := range guideServers {
		t.Run(g.file, func(t *testing.T) {
			file, want := filepath.Join(repository, "config", g.file), g.of(t)
			if os.Getenv("UPDATE_MANIFESTS") != "" {
				must.OK(t, os.WriteFile(file, []byte(want), 0o644))
			}
			got := must.Get(os.ReadFile(file))(t)
			if string(got) != want {
				t.Errorf("config/%s is not up to date: run `make manifests`", g.file)
			}
		})
	}
}

// TestGuides: the guides' commands that need no cloud, in their order, on an API server without anything.
func TestGuides(t *testing.T) {
	env := append(os.Environ(), "GCS_BUCKET=20261125", "HISTORY_SERVER_IMAGE=registry.example/historyserver:v1",
		"COLLECTOR_IMAGE=registry.example/collector:v1")
	for name, files := range map[string][]string{
		"MinIO": {"minio.yaml", "service_account.yaml", "historyserver.yaml", "raycluster.yaml",
			"rayjob.yaml"},
		"MinIO, collectors first": {"minio.yaml", "rayjob.yaml", "service_account.yaml", "historyserver.yaml"},
		"Azurite": {"azurite.yaml", "raycluster-azureblob.yaml", "rayjob-azureblob.yaml",
			"service_account.yaml", "historyserver-azureblob.yaml"},
		"GCS": {"service_account.yaml", "historyserver-gcs.yaml", "raycluster-gcs.yaml",
			"rayjob-gcs.yaml"},
		"Alibaba Cloud": {"samples/aliyuncs/configmap.yaml", "samples/aliyuncs/raycluster.yaml",
			"samples/aliyuncs/historyserver.yaml", "samples/aliyuncs/svc.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			l := lab.Start(t)
			for _, file := range files {
				apply(t, l, env, file)
			}
			for _, file := range files { // a second time changes nothing
				apply(t, l, env, file)
			}
			checkServer(t, l)
			checkCollectors(t, l)
			for _, file := range slices.Backward(files) {
				// Not waited for: nothing here ends a namespace.
				l.Kubectl(t, substituted(t, env, file), "delete", "--wait=false", "-f", "-")
			}
		})
	}
}

func substituted(t *testing.T, env []string, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, "config", file))
	must.OK(t, err)
	if !strings.HasSuffix(file, "-gcs.yaml") {
		return string(data)
	}
	cmd := exec.Command("envsubst")
	cmd.Env, cmd.Stdin = env, bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal("envsubst (package gettext-base): ", err)
	}
	return string(out)
}

func apply(t *testing.T, l *lab.Lab, env []string, file string) {
	t.Helper()
	if out, err := l.Try(t, substituted(t, env, file), "apply", "--validate=strict", "-f", "-"); err != nil ||
		strings.Contains(out, "Warning") {
		t.Errorf("apply config/%s: %v\n%s", file, err, out)
	}
}

// checkServer checks what the guides do with the server: port-forward svc/historyserver 8080:30080, and logs -l
// app=historyserver.
func checkServer(t *testing.T, l *lab.Lab) {
	t.Helper()
	if got := l.Kubectl(t, "", "get", "svc", "historyserver", "-o",
		"jsonpath={.spec.ports[0].port} {.spec.selector}"); got != `30080 {"app":"historyserver"}` {
		t.Errorf("the Service is %s", got)
	}
	pods := l.Kubectl(t, "", "get", "deployments", "-l", "app=historyserver", "-o",
		"jsonpath={.items[*].spec.template.metadata.labels.app} {.items[*].spec.template.spec.containers[0].ports[0].name} {.items[*].spec.template.spec.serviceAccountName}")
	if pods != "historyserver http historyserver" {
		t.Errorf("the server's pods are %q", pods)
	}
	l.Kubectl(t, "", "get", "serviceaccount", "historyserver")
	l.Kubectl(t, "", "get", "deployment", "historyserver-demo")
	can := l.Kubectl(t, "", "auth", "can-i", "watch", "rayclusters.ray.io",
		"--as=system:serviceaccount:default:historyserver")
	if strings.TrimSpace(can) != "yes" {
		t.Errorf("the account may watch RayClusters: %s", can)
	}
	type ref struct {
		Name     string
		Optional bool
	}
	var from []struct{ ConfigMapRef, SecretRef *ref }
	out := l.Kubectl(t, "", "get", "deployment", "historyserver-demo", "-o",
		"jsonpath={.spec.template.spec.containers[0].envFrom}")
	if out != "" {
		must.OK(t, json.Unmarshal([]byte(out), &from))
	}
	for _, f := range from {
		for kind, r := range map[string]*ref{"configmap": f.ConfigMapRef, "secret": f.SecretRef} {
			if r != nil && !r.Optional {
				l.Kubectl(t, "", "get", kind, r.Name)
			}
		}
	}
}

// checkCollectors checks the container that the guides name, and that Ray's pods wait for nothing that is not there.
func checkCollectors(t *testing.T, l *lab.Lab) {
	t.Helper()
	for kind, at := range map[string]string{"rayclusters": ".spec", "rayjobs": ".spec.rayClusterSpec"} {
		out := l.Kubectl(t, "", "get", kind, "-o", "json")
		var found struct{ Items []map[string]any }
		must.OK(t, json.Unmarshal([]byte(out), &found))
		for _, item := range found.Items {
			spec := item["spec"].(map[string]any)
			if at != ".spec" {
				spec = spec["rayClusterSpec"].(map[string]any)
			}
			groups := append([]any{spec["headGroupSpec"]}, spec["workerGroupSpecs"].([]any)...)
			for _, g := range groups {
				pod := g.(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
				collector := pod["containers"].([]any)[1].(map[string]any)
				if collector["name"] != "collector" {
					t.Errorf("%s: %v", kind, collector["name"])
				}
				for _, key := range []string{"readinessProbe", "livenessProbe", "startupProbe", "lifecycle"} {
					if collector[key] != nil {
						t.Errorf("%s: the collector has a %s, which can keep Ray's pod from being ready", kind, key)
					}
				}
				if account, ok := pod["serviceAccountName"].(string); ok {
					l.Kubectl(t, "", "get", "serviceaccount", account)
				}
			}
		}
	}
}
