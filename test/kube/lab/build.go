package lab

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/buildcache"
)

// programs are what the lab runs, by file name: main packages of the module tools.
var programs = map[string]string{
	"etcd":           "go.etcd.io/etcd/server/v3",
	"kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
	"kubectl":        "k8s.io/kubernetes/cmd/kubectl",
}

// Bin is the folder of the lab's programs. They are built on the first use of their versions, which takes minutes. It
// is called in the folder test/kube.
func Bin(t testing.TB) string {
	t.Helper()
	dir, err := build("lab/tools")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func build(module string) (string, error) {
	sums, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", err
	}
	return buildcache.Folder(fmt.Sprintf("kubernetes-%.6x", sha256.Sum256(sums)), func(dir string) error {
		for name, pkg := range programs {
			cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, name), pkg)
			cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOGC=400", "GOWORK=off")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("build %s: %w\n%s", name, err, out)
			}
		}
		return nil
	})
}
