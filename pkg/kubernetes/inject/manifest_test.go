package inject

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

var update = flag.Bool("update", false, "write the golden files")

func s3() Options {
	o := Default()
	o.StorageBackend = "s3"
	o.Env = []string{"S3_BUCKET=ray-history"}
	return o
}

var manifests = []struct {
	file     string
	as       string // golden file, where it is not the input's
	options  func(*Options)
	warnings []string // a part of each
}{
	{file: "plain.yaml"},
	{file: "plain.yaml", as: "native.yaml", options: func(o *Options) { o.Native = true }},
	{file: "crlf.yaml"},
	{file: "autoscaler.yaml", warnings: []string{"Ray 2.52.0 does not export its events",
		"does not read --temp-dir in workers"}, options: func(o *Options) {
		o.ServiceAccount = "ray-history"
		o.PodLabels = map[string]string{"azure.workload.identity/use": "true"}
		o.ConfigMap = "ray-history-storage"
		o.EnvSecrets = []string{"ray-history-storage"}
		o.EnvConfigMaps = []string{"ray-history"}
		o.StorageRootDir = "history"
		o.Args = []string{"--push-interval=30s"}
		o.EventsPort, o.MetricsPort = 9084, 9085
	}},
	{file: "rayjob.yaml"},
	{file: "rayservice.yaml", warnings: []string{
		"set authOptions.secretName",
		"RAY_enable_ray_event is already set to 0",
		"EVENTS_EXPORT_ADDR is already set to http://events.example/v1",
	}},
	{file: "anchors.yaml"},
	{file: "delegated-auth.yaml", warnings: []string{"hostNetwork is set"}},
	{file: "secret-auth.yaml"},
	{file: "list.yaml", warnings: []string{"another manifest describes"}},
	{file: "collected.yaml", warnings: []string{"shares no volume with Ray's"}},
	{file: "collected.yaml", as: "replaced.yaml", options: func(o *Options) { o.Replace = true }},
	{file: "collected.yaml", as: "replaced-native.yaml",
		options: func(o *Options) { o.Replace, o.Native = true, true }},
	{file: "cluster.json"},
}

func TestManifest(t *testing.T) {
	for _, tt := range manifests {
		ext := filepath.Ext(tt.file)
		stem := strings.TrimSuffix(tt.file, ext)
		if tt.as == "" {
			tt.as = tt.file
		}
		t.Run(tt.as, func(t *testing.T) {
			in, err := os.ReadFile(filepath.Join("testdata", stem+".in"+ext))
			must.OK(t, err)
			o := s3()
			if tt.options != nil {
				tt.options(&o)
			}
			must.OK(t, o.Check())
			out, changes, err := Manifest(in, o)
			must.OK(t, err)
			golden := filepath.Join("testdata", strings.TrimSuffix(tt.as, ext)+".out"+ext)
			if *update {
				must.OK(t, os.WriteFile(golden, out, 0o644))
			}
			want, err := os.ReadFile(golden)
			must.OK(t, err)
			says.Equal(t, cmp.Diff(string(want), string(out)), "", "%s (-want +got)", golden)
			again, _, err := Manifest(out, o)
			must.OK(t, err, "a second time")
			says.Equal(t, cmp.Diff(string(out), string(again)), "", "a second time changed")
			var warnings []string
			for _, c := range changes {
				warnings = append(warnings, c.Warnings...)
			}
			must.True(t, len(warnings) == len(tt.warnings), "warnings %q, want %q", warnings, tt.warnings)
			for i, w := range tt.warnings {
				says.All(t, warnings[i], w)
			}
		})
	}
}

// TestLineEnds: a file's line ends stay what they were, in each document of a stream, in each way of writing YAML and
// in JSON.
func TestLineEnds(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.*")
	must.True(t, err == nil && len(files) >= 10, "%v %v", files, err)
	for _, file := range files {
		in := must.Get(os.ReadFile(file))(t)
		unix := append(bytes.TrimRight(bytes.ReplaceAll(in, []byte("\r\n"), []byte("\n")), "\n"), '\n')
		for name, of := range map[string]func([]byte) []byte{
			"as it is":          func(b []byte) []byte { return b },
			"no last line end":  func(b []byte) []byte { return bytes.TrimRight(b, "\r\n") },
			"after another one": func(b []byte) []byte { return append([]byte("kind: Service\n---\n"), b...) },
		} {
			if strings.HasSuffix(file, ".json") && name != "as it is" {
				continue // JSON has one document; it is indented again, so that it ends in a line end
			}
			want, _, err := Manifest(of(unix), s3())
			must.OK(t, err, "%s, %s", file, name)
			got, _, err := Manifest(bytes.ReplaceAll(of(unix), []byte("\n"), []byte("\r\n")), s3())
			must.OK(t, err, "%s, %s", file, name)
			says.Equal(t, cmp.Diff(string(bytes.ReplaceAll(want, []byte("\n"), []byte("\r\n"))), string(got)), "",
				"%s, %s (-want +got)", file, name)
		}
	}
}

func TestManifestErrors(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"no YAML": {"a: [ray.io/", "document at line 1: parse YAML"},
		"second document": {"a: 1\n---\nkind: RayCluster\napiVersion: ray.io/v1\nmetadata: {name: x}\n",
			"document at line 2: RayCluster x: it has no spec"},
		"no head": {"kind: RayCluster\napiVersion: ray.io/v1\nspec: {a: 1}\n", "headGroupSpec is missing"},
		"no container": {"kind: RayCluster\napiVersion: ray.io/v1\nspec: {headGroupSpec: {template: {}}}\n",
			"headGroupSpec: template.spec.containers: want at least Ray's container"},
		"container":     {"kind: RayCluster\napiVersion: ray.io/v1\nspec: {headGroupSpec: {template: {spec: {containers: [1]}}}}\n", "containers[0]: want a mapping"},
		"containers":    {"kind: RayCluster\napiVersion: ray.io/v1\nspec: {headGroupSpec: {template: {spec: {containers: 1}}}}\n", "containers: want a list"},
		"env":           {"kind: RayCluster\napiVersion: ray.io/v1\nspec: {headGroupSpec: {template: {spec: {containers: [{env: a}]}}}}\n", "env: want a list"},
		"read-only":     {"kind: RayCluster\napiVersion: ray.io/v1\nspec: {headGroupSpec: {template: {spec: {containers: [{volumeMounts: [{name: v, mountPath: /tmp/ray, readOnly: true}]}]}}}}\n", "volume v is mounted read-only at /tmp/ray"},
		"key twice":     {"apiVersion: ray.io/v1\nkind: RayCluster\nkind: RayJob\n", `key "kind" is given twice`},
		"Helm template": {"{{ if .Values.x }}\napiVersion: ray.io/v1\nkind: RayCluster\n{{ end }}\n", "render a Helm template first"},
		"Helm include":  {"apiVersion: ray.io/v1\na:\n  {{- include \"x\" . }}\n", "render a Helm template first"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := Manifest([]byte(tt.in), s3())
			says.Error(t, err, tt.want, "error %v, want one with %q", err, tt.want)
		})
	}
}

// TestManifestPassesOn: what is not KubeRay's need not be what this reads.
func TestManifestPassesOn(t *testing.T) {
	for _, other := range []string{"a: [", "a: 1\na: 2\n", "? [x]\n: y\n", "{{ if .Values.x }}\na: 1\n{{ end }}\n"} {
		plain := must.Get(os.ReadFile("testdata/plain.in.yaml"))(t)
		out, changes, err := Manifest(append([]byte(other+"\n---\n"), plain...), s3())
		says.True(t, err == nil && len(changes) == 1 && len(changes[0].Done) != 0 &&
			strings.HasPrefix(string(out), other+"\n---\n"), "%q: %v, %v", other, changes, err)
	}
}

func TestOptionsCheck(t *testing.T) {
	tests := map[string]struct {
		change func(*Options)
		want   string
	}{
		"no backend":  {func(o *Options) { o.StorageBackend = "" }, "--storage-backend is not set"},
		"by variable": {func(o *Options) { o.StorageBackend, o.Env = "", []string{"STORAGE_BACKEND=s3"} }, ""},
		"by file":     {func(o *Options) { o.StorageBackend, o.ConfigMap = "", "c" }, ""},
		"image":       {func(o *Options) { o.Image = "" }, "--image is empty"},
		"pull policy": {func(o *Options) { o.PullPolicy = "Sometimes" }, "--image-pull-policy=Sometimes"},
		"port":        {func(o *Options) { o.EventsPort = 70000 }, "--events-port=70000"},
		"metrics":     {func(o *Options) { o.MetricsPort = 0 }, "--metrics-port=0"},
		"one port":    {func(o *Options) { o.MetricsPort = o.EventsPort }, "different from --events-port"},
		"env":         {func(o *Options) { o.Env = []string{"A B=c"} }, "--env=A B=c: want NAME=VALUE"},
		"arg":         {func(o *Options) { o.Args = []string{"push"} }, "--arg=push"},
		"image with port and digest": {func(o *Options) {
			o.Image = "[::1]:5000/a_b/c:v1@sha256:" + strings.Repeat("0a", 32)
		}, ""},
		"image by host":       {func(o *Options) { o.Image = "registry.example.com:5000/team/collector:v0.1.0" }, ""},
		"image with a space":  {func(o *Options) { o.Image = "collector :v1" }, "--image=collector :v1: want an image"},
		"image in capitals":   {func(o *Options) { o.Image = "Team/Collector:v1" }, "--image=Team/Collector:v1"},
		"image with two tags": {func(o *Options) { o.Image = "collector:v1:v2" }, "--image=collector:v1:v2"},
		"image of a URL":      {func(o *Options) { o.Image = "https://registry.example/collector" }, "--image=https"},
		"backend": {func(o *Options) { o.StorageBackend = "s4" },
			"--storage-backend=s4: want aliyunoss, azureblob, gcs, local"},
		"backend in capitals": {func(o *Options) { o.StorageBackend = "GCS" }, ""},
		"backend by variable": {func(o *Options) {
			o.StorageBackend, o.Env = "", []string{"STORAGE_BACKEND=s4"}
		}, "--storage-backend=s4"},
		"backend by a Secret too": {func(o *Options) { o.StorageBackend, o.EnvSecrets = "s4", []string{"s"} },
			"--storage-backend=s4"},
		"two backends": {func(o *Options) { o.Env = []string{"STORAGE_BACKEND=gcs"} },
			"--env=STORAGE_BACKEND=gcs contradicts s3"},
		"one backend twice": {func(o *Options) { o.Env = []string{"STORAGE_BACKEND=S3"} }, ""},
		"variable twice":    {func(o *Options) { o.Env = []string{"A=1", "A=2"} }, "--env=A is given twice"},
		"port by variable": {func(o *Options) { o.Env = []string{"EVENTS_PORT=9000"} },
			"--env=EVENTS_PORT=9000: use --events-port"},
		"role by variable": {func(o *Options) { o.Env = []string{"RAY_ROLE=Head"} },
			"--env=RAY_ROLE=Head: each group's collector has its own role"},
		"folder by variable": {func(o *Options) { o.Env = []string{"RAY_TMP_ROOT=/x"} },
			"--env=RAY_TMP_ROOT=/x: use --ray-tmp-dir"},
		"role": {func(o *Options) { o.Args = []string{"--role=Head"} }, "each group's collector has its own role"},
		"folder by arg": {func(o *Options) { o.Args = []string{"--ray-tmp-dir=/x"} },
			"use --ray-tmp-dir without --arg"},
		"folder": {func(o *Options) { o.RayTmpDir = "x" }, "--ray-tmp-dir=x: want an absolute path"},
		"dashboard": {func(o *Options) { o.RayDashboardAddress = "127.0.0.1:8265" },
			"--ray-dashboard-address=127.0.0.1:8265: want a URL"},
		"no dashboard": {func(o *Options) { o.RayDashboardAddress = "none" }, ""},
		"secret":       {func(o *Options) { o.EnvSecrets = []string{"My_Secret"} }, "--env-from-secret=My_Secret"},
		"config map":   {func(o *Options) { o.EnvConfigMaps = []string{""} }, "--env-from-configmap="},
		"account":      {func(o *Options) { o.ServiceAccount = "a b" }, "--service-account=a b"},
		"label":        {func(o *Options) { o.PodLabels = map[string]string{"a b": "c"} }, "--pod-label=a b"},
		"label's value": {func(o *Options) { o.PodLabels = map[string]string{"a.b/c": "d e"} },
			"--pod-label=a.b/c=d e"},
		"quantity": {func(o *Options) { o.Limits = map[string]string{"memory": "256MB"} },
			"--limits=memory=256MB: want a quantity"},
		"resource": {func(o *Options) { o.Limits = map[string]string{"memroy": "256Mi"} },
			"--limits=memroy: want cpu, memory or ephemeral-storage (did you mean memory?)"},
		"quantities": {func(o *Options) {
			o.Requests = map[string]string{"cpu": "0.5", "memory": "1e9", "example.com/x": "1"}
		}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := s3()
			o.Backends = []string{"aliyunoss", "azureblob", "gcs", "local", "s3"}
			tt.change(&o)
			err := o.Check()
			if tt.want == "" {
				must.OK(t, err)
				return
			}
			says.Error(t, err, tt.want, "error %v, want one with %q", err, tt.want)
		})
	}
}

// FuzzManifest: whatever comes in, what goes out holds what Mutate says, and a second time changes nothing.
func FuzzManifest(f *testing.F) {
	files, err := filepath.Glob("testdata/*.in.*")
	if err != nil || len(files) == 0 {
		f.Fatal(err, "no seeds")
	}
	for _, file := range files {
		in := must.Get(os.ReadFile(file))(f)
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, changes, err := Manifest(in, s3())
		if err != nil {
			return
		}
		must.True(t, len(changes) != 0 || bytes.Equal(in, out), "changed without a change")
		again, _, err := Manifest(out, s3())
		must.OK(t, err, "a second time: %v\n%s", err, out)
		must.True(t, bytes.Equal(out, again), "a second time changed\n%s\nto\n%s", out, again)
	})
}

// TestLabels: the head's collector is told the labels that users gave the object, not KubeRay's.
func TestLabels(t *testing.T) {
	pod := func() map[string]any {
		return map[string]any{"template": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "ray",
				"image": "rayproject/ray:2.60.0"}}}}}
	}
	object := map[string]any{
		"apiVersion": "ray.io/v1", "kind": "RayCluster",
		"metadata": map[string]any{"name": "lab", "labels": map[string]any{"team": "search",
			"app.kubernetes.io/part-of": "shop", "ray.io/x": "y", "empty": ""}},
		"spec": map[string]any{"rayVersion": "2.60.0", "headGroupSpec": pod(), "workerGroupSpecs": []any{pod()}},
	}
	must.Get(Mutate(object, s3()))(t)
	text := must.Get(json.Marshal(object))(t)
	const want = `{"name":"CLUSTER_LABELS","value":"app.kubernetes.io/part-of=shop,team=search"}`
	says.Equal(t, strings.Count(string(text), want), 1, "%s", text)
	says.Equal(t, strings.Count(string(text), "CLUSTER_LABELS"), 1, "%s", text)
}

// TestJSONDocuments: JSON objects one behind the other, which kubectl takes, get a collector each.
func TestJSONDocuments(t *testing.T) {
	in := must.Get(os.ReadFile("testdata/cluster.in.json"))(t)
	one, changes, err := Manifest(in, s3())
	must.OK(t, err)
	for _, between := range []string{"", "\n", "\n\n"} {
		two, all, err := Manifest([]byte(string(in)+between+string(in)), s3())
		must.OK(t, err)
		says.Equal(t, cmp.Diff(strings.Repeat(string(one), 2), string(two)), "", "with %q between (-want +got)", between)
		says.Equal(t, len(all), 2*len(changes))
	}
}

// TestOtherConfigMap: a collector that is replaced gets the ConfigMap that is named now. A volume of the user's that has
// the name of its own stays, with a warning.
func TestOtherConfigMap(t *testing.T) {
	in := must.Get(os.ReadFile("testdata/plain.in.yaml"))(t)
	o := s3()
	o.Replace, o.ConfigMap = true, "first"
	first, _, err := Manifest(in, o)
	must.OK(t, err)
	o.ConfigMap = "second"
	want, _, err := Manifest(in, o)
	must.OK(t, err)
	got, _, err := Manifest(first, o)
	must.OK(t, err)
	says.Equal(t, cmp.Diff(string(want), string(got)), "", "(-want +got)")
	foreign := bytes.ReplaceAll(first, []byte("optional: true"), []byte("defaultMode: 420"))
	_, changes, err := Manifest(foreign, o)
	must.OK(t, err)
	says.All(t, changes[0].Warnings[0], "the manifest's own volume collector-config, not from ConfigMap second")
	o.ConfigMap = "first"
	_, changes, err = Manifest(foreign, o)
	must.OK(t, err)
	says.Equal(t, len(changes[0].Warnings), 0, "of the same ConfigMap: %q", changes[0].Warnings)
}
