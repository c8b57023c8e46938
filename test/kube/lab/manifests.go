package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// prometheusOperator is the version whose types InstallPrometheusOperator installs.
const prometheusOperator = "v0.85.0"

// InstallPrometheusOperator makes the API server know ServiceMonitors, PodMonitors and PrometheusRules.
func (l *Lab) InstallPrometheusOperator(t *testing.T) {
	t.Helper()
	dir, err := moduleDir(t, "github.com/prometheus-operator/prometheus-operator@"+prometheusOperator)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range []string{"servicemonitors", "podmonitors", "prometheusrules"} {
		files = append(files, filepath.Join(dir, "example/prometheus-operator-crd/monitoring.coreos.com_"+name+".yaml"))
	}
	if err := l.install(t.Context(), files); err != nil {
		t.Fatal(err)
	}
}

// install creates types out of files and waits until they can be used.
func (l *Lab) install(ctx context.Context, files []string) error {
	args := []string{"create"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	if out, err := l.kubectl(ctx, "", args...); err != nil {
		return fmt.Errorf("create types: %w\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		// It ends with an error where a type has no conditions at all yet.
		out, err := l.kubectl(ctx, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the types cannot be used: %w %s", err, out)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Manifest is a text with objects, and what a test that fails calls it.
type Manifest struct {
	Name string
	Text []byte
}

// Accepts checks that the API server takes KubeRay's objects of manifests, with strict validation of every field.
// Other objects in them are not looked at: samples may need types that are not installed.
func (l *Lab) Accepts(t *testing.T, manifests ...Manifest) {
	t.Helper()
	all := ""
	for _, m := range manifests {
		all += kubeRays(t, m)
	}
	dryRun := func(objects string) (string, error) {
		return l.Try(t, objects, "create", "--dry-run=server", "--validate=strict", "-f", "-")
	}
	out, err := dryRun(all)
	if err == nil {
		return
	}
	t.Errorf("not all are taken: %v\n%s", err, out)
	for _, m := range manifests {
		if out, err := dryRun(kubeRays(t, m)); err != nil {
			t.Errorf("%s: %v\n%s", m.Name, err, out)
		}
	}
}

// kubeRays are KubeRay's objects in a manifest.
func kubeRays(t *testing.T, m Manifest) string {
	t.Helper()
	var ours strings.Builder
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(m.Text), 4096)
	for {
		var object map[string]any
		err := docs.Decode(&object)
		if errors.Is(err, io.EOF) && ours.Len() == 0 {
			t.Fatalf("%s has none of KubeRay's objects", m.Name)
		}
		if errors.Is(err, io.EOF) {
			return ours.String()
		}
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		if version, _ := object["apiVersion"].(string); !strings.HasPrefix(version, "ray.io/") &&
			object["kind"] != "List" {
			continue
		}
		if meta, ok := object["metadata"].(map[string]any); ok {
			delete(meta, "namespace") // it does not exist
		}
		line, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		ours.WriteString("---\n")
		ours.Write(line)
		ours.WriteByte('\n')
	}
}
