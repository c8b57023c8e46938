package kube_test

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/rayhistory/historyserver/test/kube/lab"
)

// A release's chart, as Helm takes it from a registry: installed, upgraded to the next release and rolled back, with
// the images of the release that it is of.
func TestChartFromRegistry(t *testing.T) {
	l := lab.Start(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	images := strings.TrimPrefix(server.URL, "http://") + "/ray"
	program := filepath.Join(t.TempDir(), "make-release")
	inFolder(t, repository+"/test/release", "go", "build", "-o", program, ".")
	for _, version := range []string{"v0.9.0", "v0.9.1"} {
		inFolder(t, repository, program, "--only-chart", "--version="+version, "--registry="+images,
			"--out="+filepath.Join(t.TempDir(), "release"))
	}

	released := func(command, version string) {
		t.Helper()
		l.Helm(t, command, "history", "oci://"+images+"/charts/ray-history", "--plain-http", "--version="+version,
			"--namespace=history", "--create-namespace", example("minio"), "--set=webhook.enabled=true")
	}
	check := func(version string) {
		t.Helper()
		image := l.Kubectl(t, "", "get", "-n", "history", "deployment", "history", "-o",
			"jsonpath={.spec.template.spec.containers[0].image}")
		if want := images + "/historyserver:" + version; image != want {
			t.Errorf("the server's image is %s, want %s", image, want)
		}
		adds := l.Kubectl(t, "", "get", "-n", "history", "configmap", "history-webhook", "-o",
			"jsonpath={.data.RAYHISTORY_IMAGE}")
		if want := images + "/collector:" + version; adds != want {
			t.Errorf("the webhook adds the collector %s, want %s", adds, want)
		}
	}
	released("install", "0.9.0")
	check("v0.9.0")
	released("upgrade", "0.9.1")
	check("v0.9.1")
	l.Helm(t, "rollback", "history", "1", "--namespace=history")
	check("v0.9.0")
}

// inFolder runs a program in a folder.
func inFolder(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}
