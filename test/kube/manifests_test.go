// Package kube_test holds what only a real API server can show: that manifests are accepted, that rights are enough and
// no more, that clusters are followed, that people see their namespaces, that the webhook is asked.
package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

const repository = "../.."

// Our manifests, and KubeRay's own samples once they are injected, with each version of KubeRay's types; chart_test.go
// has the chart.
func TestManifestsAreAccepted(t *testing.T) {
	for _, version := range lab.KubeRays {
		t.Run("KubeRay "+version, func(t *testing.T) {
			l := lab.StartWith(t, version)
			samples := filepath.Join(lab.KubeRayDir(t, version), "config/samples/*.yaml")
			// What is only tried comes first: the last leaves its objects.
			t.Run("examples", func(t *testing.T) { l.Accepts(t, jobsExamples(t)...) })
			t.Run("injected", func(t *testing.T) { injectedManifestsAreAccepted(t, l, samples) })
			t.Run("config", func(t *testing.T) { manifestsAreAccepted(t, l) })
		})
	}
}

// Every manifest of config/ as it is.
func manifestsAreAccepted(t *testing.T, l *lab.Lab) {
	apply := func(what, stdin string, args ...string) {
		t.Helper()
		out, err := l.Try(t, stdin, append([]string{"apply", "--server-side", "--force-conflicts", "--validate=strict"},
			args...)...)
		if err != nil || strings.Contains(out, "Warning") {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
	for _, pattern := range []string{"*.yaml", "rbac/service_account*.yaml"} {
		for _, file := range inConfig(t, pattern, 3) {
			apply(file, "", "-f", file)
		}
	}
	dir := filepath.Join(repository, "config/rbac")
	apply(dir, "", "-k", dir)
	for _, file := range inConfig(t, "samples/*.yaml", 3) {
		manifest := must.Get(os.ReadFile(file))(t)
		for _, native := range []bool{false, true} {
			o := inject.Default()
			o.EnvConfigMaps, o.EnvSecrets, o.Native = []string{"ray-history-storage"}, []string{"ray-history-storage"},
				native
			out, changes, err := inject.Manifest(manifest, o)
			if err != nil || len(changes) != 1 || len(changes[0].Done) != 2 {
				t.Errorf("inject into %s: %v, %v", file, changes, err)
			}
			apply(file, string(out), "-f", "-")
		}
	}
}

// inConfig gives what lies in config/ by a pattern that so many files or folders match at least.
func inConfig(t *testing.T, pattern string, atLeast int) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(repository, "config", pattern))
	if err != nil || len(found) < atLeast {
		t.Fatalf("config/%s: %q, %v", pattern, found, err)
	}
	return found
}

// Injected manifests: the golden ones, and all of KubeRay's own samples, both forms.
func injectedManifestsAreAccepted(t *testing.T, l *lab.Lab, pattern string) {
	var manifests []lab.Manifest
	golden := must.Get(filepath.Glob(filepath.Join(repository, "pkg/kubernetes/inject/testdata/*.out.*")))(t)
	for _, file := range golden {
		manifest := must.Get(os.ReadFile(file))(t)
		manifests = append(manifests, lab.Manifest{Name: filepath.Base(file), Text: manifest})
	}
	samples := must.Get(filepath.Glob(pattern))(t)
	injected := 0
	for _, file := range samples {
		manifest := must.Get(os.ReadFile(file))(t)
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
			manifests = append(manifests, lab.Manifest{Name: filepath.Base(file), Text: out})
		}
	}
	l.Accepts(t, manifests...)
	if injected < 100 {
		t.Errorf("only %d samples were injected", injected)
	}
	t.Logf("%d golden manifests, %d injected samples", len(golden), injected)
}
