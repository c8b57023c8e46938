package kube_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

const rayToken = "the-token-of-this-cluster"

// realHead is a Ray head in a fake pod, with a collector: see head.py.
type realHead struct {
	IP, Python string
	TmpRay     string `json:"tmp_ray"`
	stdin      io.WriteCloser
	stdout     *bufio.Reader
}

func startRay(t *testing.T, store string) *realHead {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("python3", "head.py", dir, binary(t, "collector"), store, rayToken)
	cmd.Stderr = os.Stderr
	stdin := must.Get(cmd.StdinPipe())(t)
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "collector.log"))
			t.Logf("collector:\n%s", log)
		}
	})
	h := &realHead{stdin: stdin, stdout: bufio.NewReader(stdout)}
	h.hear(t, h)
	return h
}

// hear reads the next JSON line that the head's script says.
func (h *realHead) hear(t *testing.T, into any) {
	t.Helper()
	for {
		line, err := h.stdout.ReadBytes('\n')
		if err != nil {
			t.Fatalf("Ray: %v", err)
		}
		if line[0] == '{' { // the rest is of an installation
			must.OK(t, json.Unmarshal(line, into))
			return
		}
	}
}

// A real Ray head, which wants a token, is a RayCluster's: its dashboard's pages are shown as they are, its logs are
// followed, directly and through the API server. Then the cluster is deleted, and the same link shows what was stored
// of it.
func TestRealRayHead(t *testing.T) {
	l := lab.Start(t)
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(repository, "config/rbac/service_account.yaml")},
		{"apply", "-f", filepath.Join(repository, "config/rbac/service_account-token.yaml")},
		{"apply", "-f", filepath.Join(repository, "config/rbac/service_account-proxy.yaml")},
		{"create", "secret", "generic", "lab", "--from-literal=auth_token=" + rayToken},
	} {
		l.Kubectl(t, "", args...)
	}
	stored := t.TempDir()
	ray := startRay(t, stored)
	l.Kubectl(t, `{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"name":"lab"},"spec":{"rayVersion":"2.60.0","authOptions":{"mode":"token"},
"headGroupSpec":{"rayStartParams":{},"template":{"spec":{"containers":[{"name":"ray-head","image":"rayproject/ray:2.60.0"}]}}}}}`, "create", "-f", "-")
	ip := l.HeadService(t, "default", "lab")
	ownAddress(t, ip)
	forward(t, ip+":8265", ray.IP+":8265") // what kube-proxy does
	l.HeadPod(t, "default", "lab", ray.IP)

	kubeconfig := l.KubeconfigOf(t, l.TokenOf(t, "default", "historyserver"))
	serve := func(args ...string) string {
		port := freeport.Port(t)
		run(t, nil, "historyserver", append([]string{"--listen=" + strings.TrimPrefix(url(port, ""), "http://"),
			"--storage-backend=local", "--local-dir=" + stored,
			"--dashboard-dir=" + dashboards(t), "--catalog-interval=1s", "--live=proxy", "--live-anonymous-tokens",
			"--kubeconfigs=" + kubeconfig}, args...)...)
		live := url(port, "/namespaces/default/clusters/lab/sessions/live")
		lab.Eventually(t, "the running cluster answers",
			func() bool { _, body := ask(t, live+"/api/jobs/ticks", ""); return strings.Contains(body, "RUNNING") })
		return live
	}
	direct, through := serve(), serve("--use-kubernetes-proxy")
	if status, body := ask(t, "http://"+ray.IP+":8265/api/jobs/ticks", ""); status != 401 {
		t.Fatalf("the dashboard lets everybody in: %d %s", status, body)
	}
	pages := []page{
		{Name: "overview", Path: "/#/overview", Wait: "Recent jobs"},
		{Name: "jobs", Path: "/#/jobs", Wait: "ticks.py"},
		{Name: "job", Path: "/#/jobs/ticks", Wait: "tick 2"},
		{Name: "cluster", Path: "/#/cluster", Wait: ray.IP},
		{Name: "actors", Path: "/#/actors", Wait: "kept"},
		{Name: "serve", Path: "/#/serve", Wait: "Serve"},
		{Name: "logs", Path: "/#/logs", Wait: "Node ID"},
	}
	for what, base := range map[string]string{"directly": direct, "through the API server": through} {
		visitRunning(t, "running, "+what, base, pages)
		followed(t, what, base)
		ray.followsJob(t, what, base)
	}

	must.OK(t, os.WriteFile(filepath.Join(ray.TmpRay, "enough"), nil, 0o600))
	lab.Eventually(t, "the job ends", func() bool {
		_, body := ask(t, direct+"/api/jobs/ticks", "")
		return strings.Contains(body, "SUCCEEDED")
	})
	l.Kubectl(t, "", "delete", "raycluster", "lab")
	must.Get(io.WriteString(ray.stdin, "end\n"))(t)
	var ended struct{ Collector int }
	if ray.hear(t, &ended); ended.Collector != 0 {
		t.Errorf("the collector's exit code is %d", ended.Collector)
	}
	for what, base := range map[string]string{"directly": direct, "through the API server": through} {
		lab.Eventually(t, "the stored job has ended",
			func() bool { _, body := ask(t, base+"/api/jobs/ticks", ""); return strings.Contains(body, "SUCCEEDED") })
		visit(t, "deleted, "+what, base, pages)
		if t.Failed() {
			_, actors := ask(t, base+"/logical/actors", "")
			t.Logf("actors: %s", actors)
		}
	}
}

// followed checks that a log that grows comes as it grows.
func followed(t *testing.T, what, base string) {
	t.Helper()
	_, body := ask(t, base+"/nodes?view=summary", "")
	var nodes struct {
		Data struct {
			Summary []struct {
				Raylet struct {
					NodeID string `json:"nodeId"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &nodes); err != nil || len(nodes.Data.Summary) != 1 {
		t.Fatalf("%s: %v %.300s", what, err, body)
	}
	cmd := exec.Command("curl", "-sN", "--max-time", "120",
		fmt.Sprintf("%s/api/v0/logs/stream?node_id=%s&filename=job-driver-ticks.log&lines=1&interval=0.2", base,
			nodes.Data.Summary[0].Raylet.NodeID))
	ticks(t, what+", log stream", cmd)
}

// followsJob checks that Ray's own command line follows a job's log, over a WebSocket.
func (h *realHead) followsJob(t *testing.T, what, base string) {
	t.Helper()
	cmd := exec.Command(h.Python, "-m", "ray.scripts.scripts", "job", "logs", "--follow", "--address", base, "ticks")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "PYTHONUNBUFFERED=1", "HOME=" + t.TempDir()}
	ticks(t, what+", ray job logs", cmd)
}

// ticks reads what a command prints until it has seen five of the job's ticks, each a line of its own later than the
// one before.
func ticks(t *testing.T, what string, cmd *exec.Cmd) {
	t.Helper()
	out := must.Get(cmd.StdoutPipe())(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	seen := 0
	for lines := bufio.NewScanner(out); seen < 5 && lines.Scan(); {
		if strings.Contains(lines.Text(), "tick ") {
			seen++
		}
	}
	if seen < 5 {
		t.Errorf("%s: %d lines of a log that grows: %s", what, seen, stderr.String())
	}
}

// forward passes connections to an address on to another until the test ends.
func forward(t *testing.T, from, to string) {
	t.Helper()
	l := listen(t, from)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go carry(t.Context(), conn, to)
		}
	}()
}

// dashboards is the folder of the frontend's builds, as `make dashboard` fills it.
func dashboards(t *testing.T) string {
	t.Helper()
	dir := must.Get(filepath.Abs(filepath.Join(repository, "build/dashboard")))(t)
	if out, err := exec.Command(filepath.Join(repository, "scripts/dashboard.sh"), "2.60.0",
		dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}
