package lab

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// programs are what the lab runs, by file name: main packages of the module tools.
var programs = map[string]string{
	"etcd":           "go.etcd.io/etcd/server/v3",
	"kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
	"kubectl":        "k8s.io/kubernetes/cmd/kubectl",
}

// Bin is the folder of the lab's programs. They are built on the first use of their versions, which takes minutes, and kept in
// RAYHISTORY_TEST_CACHE, or rayhistory-test in the user's cache.
func Bin(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	dir, err := build(filepath.Join(filepath.Dir(here), "tools"))
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
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("kubernetes-%.6x", sha256.Sum256(sums)))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// Built in a folder of its own and renamed, so that an interrupted or a second build does no harm.
	building, err := os.MkdirTemp(cache, "building-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(building) }()
	for name, pkg := range programs {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(building, name), pkg)
		cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	if err := os.Rename(building, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", errors.Join(err, statErr)
		}
	}
	return dir, nil
}

func cacheDir() (string, error) {
	dir := os.Getenv("RAYHISTORY_TEST_CACHE")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "rayhistory-test")
	}
	return dir, os.MkdirAll(dir, 0o755)
}
