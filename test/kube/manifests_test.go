// Package kube_test holds what only a real API server can show: that manifests are accepted, that rights are enough and no more, that
// clusters are followed, that people see their namespaces, that the webhook is asked.
package kube_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/inject"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

const repository = "../.."

func TestRenderedManifestsAreCurrent(t *testing.T) {
	out := t.TempDir()
	cmd := exec.Command(filepath.Join(repository, "scripts/render-config.sh"), binary(t, "collector"), out)
	cmd.Env = append(os.Environ(), "PATH="+lab.Bin(t)+":"+os.Getenv("PATH")) // kubectl
	if log, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	rendered, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(rendered) < 10 {
		t.Fatal(rendered, err)
	}
	for _, file := range rendered {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(repository, "config", filepath.Base(file)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("config/%s is not what it is made of (%v): run `make manifests`", filepath.Base(file), err)
		}
	}
}

// Every manifest of config/ as it is.
func TestManifestsAreAccepted(t *testing.T) {
	for _, version := range lab.KubeRays {
		t.Run("KubeRay "+version, func(t *testing.T) { manifestsAreAccepted(t, lab.StartWith(t, version)) })
	}
}

func manifestsAreAccepted(t *testing.T, l *lab.Lab) {
	l.InstallPrometheusOperator(t)
	files, err := filepath.Glob(filepath.Join(repository, "config/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{
		"minio", "azurite", "raycluster", "raycluster-azureblob", "raycluster-gcs", "raycluster-aliyunoss", "rayjob", "rayservice",
		"historyserver", "historyserver-azureblob", "historyserver-gcs", "historyserver-aliyunoss", "service_account", "configmap",
	}
	for _, name := range wanted {
		if _, err := os.Stat(filepath.Join(repository, "config", name+".yaml")); err != nil {
			t.Error(err)
		}
	}
	for _, file := range files {
		out, err := l.Try(t, "", "apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", file)
		if err != nil || strings.Contains(out, "Warning") {
			t.Errorf("%s: %v\n%s", filepath.Base(file), err, out)
		}
	}
}

// Injected manifests: the golden ones, and all of KubeRay's own samples, both forms.
func TestInjectedManifestsAreAccepted(t *testing.T) {
	for _, version := range lab.KubeRays {
		t.Run("KubeRay "+version, func(t *testing.T) {
			injectedManifestsAreAccepted(t, lab.StartWith(t, version), filepath.Join(lab.KubeRayDir(t, version), "config/samples/*.yaml"))
		})
	}
}

func injectedManifestsAreAccepted(t *testing.T, l *lab.Lab, pattern string) {
	golden, err := filepath.Glob(filepath.Join(repository, "pkg/inject/testdata/*.out.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range golden {
		manifest, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		l.Accepts(t, filepath.Base(file), manifest)
	}
	samples, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	injected := 0
	for _, file := range samples {
		manifest, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, native := range []bool{false, true} {
			o := inject.Default()
			o.StorageBackend, o.Native = "s3", native
			out, changes, err := inject.Manifest(manifest, o)
			if err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
				continue
			}
			if len(changes) == 0 || len(changes[0].Done) == 0 {
				continue
			}
			injected++
			l.Accepts(t, filepath.Base(file), out)
		}
	}
	if injected < 100 {
		t.Errorf("only %d samples were injected", injected)
	}
	t.Logf("%d golden manifests, %d injected samples", len(golden), injected)
}
