package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/buildcache"
)

// helmVersion is the version of Helm that charts are tested with.
const helmVersion = "v4.3.1"

// HelmBin is Helm's program. It is built on the first use of its version, which takes minutes.
func HelmBin(t testing.TB) string {
	t.Helper()
	dir, err := buildcache.Folder("helm@"+helmVersion, func(dir string) error {
		cmd := exec.Command("go", "install", "-ldflags=-s -w", "helm.sh/helm/v4/cmd/helm@"+helmVersion)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build Helm: %w\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "helm")
}

// Helm runs Helm as the administrator; an error ends the test.
func (l *Lab) Helm(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(HelmBin(t), append(args, "--kubeconfig="+l.Kubeconfig)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+l.dir, "HELM_CONFIG_HOME="+l.dir, "HELM_DATA_HOME="+l.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("helm %q: %v\n%s", args, err, out)
	}
	return string(out)
}
