package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

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
	l.install(t, files)
}

// install creates types out of files and waits until they can be used.
func (l *Lab) install(t *testing.T, files []string) {
	t.Helper()
	args := []string{"create"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	l.Kubectl(t, "", args...)
	Eventually(t, "the types can be used", func() bool {
		// It ends with an error where a type has no conditions at all yet.
		_, err := l.Try(t, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
		return err == nil
	})
}

// Accepts checks that the API server takes KubeRay's objects of a manifest, with strict validation of every field.
// Other objects in it are not looked at: samples may need types that are not installed.
func (l *Lab) Accepts(t *testing.T, name string, manifest []byte) {
	t.Helper()
	var ours bytes.Buffer
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var object map[string]any
		err := docs.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
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
	if out, err := l.Try(t, ours.String(), "create", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}
