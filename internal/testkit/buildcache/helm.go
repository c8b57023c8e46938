package buildcache

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// helmVersion is the version of Helm that charts are tested with.
const helmVersion = "v4.3.1"

// Helm is Helm's program. It is built on the first use of its version, which takes minutes.
func Helm(t testing.TB) string {
	t.Helper()
	dir, err := Folder("helm@"+helmVersion, func(dir string) error {
		cmd := exec.Command("go", "install", "-ldflags=-s -w", "helm.sh/helm/v4/cmd/helm@"+helmVersion)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOGC=400", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build Helm: %w\n%s", err, out)
		}
		return nil
	})
	must.OK(t, err)
	return filepath.Join(dir, "helm")
}
