package kube_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// binary builds one of the commands, once for all tests.
func binary(t *testing.T, name string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if builds.dir == "" {
		dir := must.Get(os.MkdirTemp("", "ray-history-"))(t)
		builds.dir = dir
	}
	path := filepath.Join(builds.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.Command("go", "build", "-o", path, "./cmd/"+name)
	cmd.Dir = repository // the module that is shipped, with its versions
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

var builds struct {
	sync.Mutex
	dir string
}

func TestMain(m *testing.M) {
	code := m.Run()
	lab.StopNext()
	_ = os.RemoveAll(builds.dir)
	os.Exit(code)
}

// process is a running command of the project.
type process struct {
	cmd *exec.Cmd
	log lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run starts a command; it is killed when the test ends, and its log is shown if the test failed.
func run(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary(t, name), args...)}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = append(os.Environ(), env...), &p.log, &p.log, t.TempDir()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.OK(t, p.cmd.Start())
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.log.String())
		}
	})
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop ends the process with SIGTERM and gives its exit code.
func (p *process) stop(t *testing.T) int {
	t.Helper()
	must.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
	ended := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// ownAddress gives the host an address of a service's until the test ends, as a cluster's network would lead there. It
// needs root.
func ownAddress(t *testing.T, ip string) {
	t.Helper()
	if out, err := exec.Command("ip", "address", "replace", ip+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("take the address %s (as root?): %v\n%s", ip, err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "address", "del", ip+"/32", "dev", "lo").Run() })
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l := must.Get(net.Listen("tcp", address))(t)
	return l
}

func url(port int, path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", port, path) }
