package lab

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/buildcache"
)

// Helm runs Helm as the administrator; an error ends the test.
func (l *Lab) Helm(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(buildcache.Helm(t), append(args, "--kubeconfig="+l.Kubeconfig)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+l.dir, "HELM_CONFIG_HOME="+l.dir, "HELM_DATA_HOME="+l.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("helm %q: %v\n%s", args, err, out)
	}
	return string(out)
}
