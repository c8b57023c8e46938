package kube_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rayhistory/historyserver/internal/testkit/buildcache"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

const rollout = repository + "/config/rollout"

// tree is an object as it is read; at gives what lies in it, nil if it is not there.
type tree map[string]any

func (o tree) at(path ...string) any {
	var value any = map[string]any(o)
	for _, name := range path {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	return value
}

func trees(t *testing.T, manifest []byte) (all []tree) {
	t.Helper()
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var o tree
		if err := docs.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

func rolloutFile(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join(rollout, name)))(t)
}

// The kustomize component labels what KubeRay knows, and nothing else.
func TestKustomizeComponent(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	component := must.Get(filepath.Rel(dir, must.Get(filepath.Abs(filepath.Join(rollout, "kustomize")))(t)))(t)
	must.OK(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"),
		[]byte("resources: [objects.yaml]\ncomponents: ["+component+"]\n"), 0o600))
	objects := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"
	for _, sample := range inConfig(t, "samples/ray*.yaml", 3) {
		objects += "---\n" + string(must.Get(os.ReadFile(sample))(t))
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(objects), 0o600))
	out, err := exec.Command(filepath.Join(lab.Bin(t), "kubectl"), "kustomize", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, o := range trees(t, out) {
		labelled := o.at("metadata", "labels", "ray.io/history") == "true"
		if ours := strings.HasPrefix(o["apiVersion"].(string), "ray.io/"); labelled != ours {
			t.Errorf("%s %s is labelled: %t", o["kind"], o.at("metadata", "name"), labelled)
		}
	}
}

// The values that Argo CD and Flux are given are values of the chart, and what they and Kyverno name is there.
func TestDeployersExamples(t *testing.T) {
	for file, path := range map[string][]string{
		"argocd.yaml": {"spec", "source", "helm", "valuesObject"}, "flux.yaml": {"spec", "values"},
	} {
		found := 0
		for _, o := range trees(t, rolloutFile(t, file)) {
			values := o.at(path...)
			if values == nil {
				continue
			}
			found++
			if _, err := render(t, "--set-json="+string(must.Get(json.Marshal(values))(t))); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		if found != 1 {
			t.Errorf("%s has values in %d objects, want 1", file, found)
		}
	}
	objects := must.Get(render(t, example("s3"), "--set=webhook.enabled=true"))(t)
	for _, policy := range trees(t, rolloutFile(t, "kyverno.yaml")) {
		rules, _ := policy.at("spec", "rules").([]any)
		for _, r := range rules {
			generated, _ := r.(map[string]any)["generate"].(map[string]any)
			kind, _ := generated["kind"].(string)
			name, _ := tree(generated).at("clone", "name").(string)
			if _, ok := find(objects, kind, name); !ok {
				t.Errorf("kyverno.yaml copies %s %s, which the chart does not make", kind, name)
			}
		}
		if len(rules) != 2 {
			t.Errorf("%d rules, want 2", len(rules))
		}
	}
	if _, ok := find(objects, "Secret", "historyserver-webhook"); !ok ||
		!bytes.Contains(rolloutFile(t, "argocd.yaml"), []byte("name: historyserver-webhook")) {
		t.Error("argocd.yaml does not name the Secret that the webhook fills")
	}
}

// The files of values for platforms go with each backend, and do what they say.
func TestPlatformExamples(t *testing.T) {
	for name, want := range map[string]struct {
		says  string
		lacks string
	}{
		"openshift": {`"runAsNonRoot":true`, "fsGroup"},
		"autopilot": {`"storageClassName":"premium-rwo"`, "sizeLimit"},
		"istio":     {`"traffic.sidecar.istio.io/excludeInboundPorts":"9443"`, ""},
	} {
		for backend := range backends {
			objects, err := render(t, example(backend), example(name), "--set=webhook.enabled=true")
			if err != nil {
				t.Errorf("%s, %s: %v", name, backend, err)
				continue
			}
			server, _ := find(objects, "Deployment", "historyserver")
			if !strings.Contains(server.text, want.says) || want.lacks != "" &&
				strings.Contains(server.text, want.lacks) {
				t.Errorf("%s, %s: want %s, not %s, in %s", name, backend, want.says, want.lacks, server.text)
			}
		}
	}
}

// Helm's post-renderer adds the collector to what another chart makes.
func TestHelmPostRenderer(t *testing.T) {
	plugins, other := t.TempDir(), t.TempDir()
	must.OK(t, os.CopyFS(filepath.Join(plugins, "ray-history"), os.DirFS(filepath.Join(rollout, "helm-plugin"))))
	must.OK(t, os.Mkdir(filepath.Join(other, "templates"), 0o700))
	for name, content := range map[string][]byte{
		"Chart.yaml": []byte("apiVersion: v2\nname: other\nversion: 0.1.0\n"),
		"templates/cluster.yaml": must.Get(os.ReadFile(filepath.Join(repository, "config/samples/raycluster.yaml")))(
			t),
		"templates/settings.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"),
	} {
		must.OK(t, os.WriteFile(filepath.Join(other, name), content, 0o600))
	}
	cmd := exec.Command(buildcache.Helm(t), "template", "lab", other, "--post-renderer=ray-history",
		"--post-renderer-args=--image=example.com/collector:v1",
		"--post-renderer-args=--env-from-configmap=ray-history-storage")
	cmd.Env = append(os.Environ(), "HELM_PLUGINS="+plugins,
		"PATH="+filepath.Dir(binary(t, "collector"))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Count(out, []byte("image: example.com/collector:v1")) != 2 ||
		!bytes.Contains(out, []byte("kind: ConfigMap")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// What Kueue and Airflow are given.
func jobsExamples(t *testing.T) []lab.Manifest {
	t.Helper()
	_, after, _ := strings.Cut(string(rolloutFile(t, "airflow.py")), `RAYJOB = """`)
	job, _, ok := strings.Cut(after, `"""`)
	if job = strings.ReplaceAll(job, "{{ ts_nodash | lower }}", "20261101t000000"); !ok ||
		!strings.Contains(job, `ray.io/history: "true"`) {
		t.Fatalf("airflow.py has no labelled job: %s", job)
	}
	return []lab.Manifest{{Name: "kueue-rayjob.yaml", Text: rolloutFile(t, "kueue-rayjob.yaml")},
		{Name: "airflow.py", Text: []byte(job)}}
}
