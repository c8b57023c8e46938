package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/metricdocs"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/client"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

func parse(t *testing.T, args, environ []string) (*serveOptions, error) {
	t.Helper()
	o := new(serveOptions)
	fs := pflag.NewFlagSet("historyserver", pflag.ContinueOnError)
	o.addFlags(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	_, err := o.complete(fs, environ)
	return o, err
}

// TestLiveClustersAreAskedFor: the dashboards of running clusters are reached only where a flag says so, KubeRay's or
// ours.
func TestLiveClustersAreAskedFor(t *testing.T) {
	for flag, want := range map[string]kube.Mode{"": kube.Auto, "--enable-live-clusters=false": kube.Off,
		"--enable-live-clusters": kube.Proxy, "--live=proxy": kube.Proxy} {
		args := []string{}
		if flag != "" {
			args = append(args, flag)
		}
		o, err := parse(t, args, nil)
		says.True(t, err == nil && o.kubernetes.live.Live == want, "%q: --live=%s, %v, want %s", flag,
			o.kubernetes.live.Live, err, want)
	}
	says.True(t, says.Err(parse(t, []string{"--live=proxy", "--enable-live-clusters=false"}, nil)) != nil,
		"two flags that contradict each other are taken")
}

func TestSettings(t *testing.T) {
	o, err := parse(t, []string{"--runtime-class-name=local", "--ray-root-dir=/history/",
		"--session-cache-max-memory=512MiB", "--listen=127.0.0.1:0",
		// KubeRay's
		"--use-auth-token-mode", "--session-process-timeout", "2m", "--session-cache-size=10",
		"--session-cache-max-bytes=0", "--session-cache-ttl", "1h", "--kube-api-qps=50", "--kube-api-burst", "100"},
		[]string{"RAY_GRAFANA_HOST=http://grafana:3000", "RAYHISTORY_DASHBOARD_DIR=/dash", "RAYHISTORY_LISTEN=:1"})
	must.OK(t, err)
	says.True(t, o.storage.Root == "history" && o.sessions.MaxBytes == 512<<20 &&
		o.dashboard.GrafanaHost == "http://grafana:3000" && o.dashboardDir == "/dash" && o.listen == "127.0.0.1:0",
		"%+v", o)
	for _, tc := range []struct {
		args, environ []string
		want          string
	}{
		{args: []string{"--session-cache-max-loads=0"}, want: "--session-cache-max-loads=0"},
		{args: []string{"--session-cache-max-memory=lots"}, want: "session-cache-max-memory"},
		{args: []string{"--session-cache-max-memory=10"}, want: "--session-cache-max-memory=10: want"},
		{args: []string{"--max-answer-memory=10"}, want: "--max-answer-memory=10: want"},
		{args: []string{"--session-cache-refresh-interval=0s"}, want: "--session-cache-refresh-interval"},
		{args: []string{"--session-load-timeout=1m"}, want: "--session-load-timeout=1m0s"},
		{args: []string{"--catalog-interval=1ms"}, want: "--catalog-interval"},
		{args: []string{"--catalog-requests=1"}, want: "--catalog-requests"},
		{args: []string{"--shutdown-timeout=-1s"}, want: "--shutdown-timeout"},
		{args: []string{"--max-limit=0"}, want: "--max-limit=0"},
		{args: []string{"--auth="}, want: "--auth is empty"},
		{args: []string{"--log-level=loud"}, want: "--log-level"},
		{args: []string{"--retention=1m"}, want: "--retention=1m"},
		{args: []string{"--unknown"}, want: "unknown flag"},
		{environ: []string{"RAYHISTORY_LISTENS=:80"}, want: "RAYHISTORY_LISTENS"},
		{args: []string{"--storage-root-dir=a", "--ray-root-dir=b"}, want: "contradicts"},
	} {
		says.Error(t, says.Err(parse(t, tc.args, tc.environ)), tc.want, "%v %v", tc.args, tc.environ)
	}
}

// TestMemory: settings that allow more memory than the container has are named.
func TestMemory(t *testing.T) {
	for limit, want := range map[string]string{"max": "", "4294967296": "", "2147483648": "its container has 2.00 GiB: raise"} {
		o := must.Get(parse(t, nil, nil))(t)
		_, err := o.memory(fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")},
			"sys/fs/cgroup/memory.max": {Data: []byte(limit)}})
		says.True(t, (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want)),
			"%s: %v, want %q", limit, err, want)
	}
}

func TestServesUntilToldToStop(t *testing.T) {
	dir := t.TempDir()
	const session = "session_2026-11-20_23-19-45_581717_22125"
	marker := filepath.Join(dir, "log", "metadir", "lab_default", session)
	must.OK(t, os.MkdirAll(filepath.Dir(marker), 0o755))
	must.OK(t, os.WriteFile(marker, nil, 0o600))
	node := rayid.Node{1}
	log := filepath.Join(dir, layout.LogKey("log", layout.Session{Namespace: "default", Cluster: "lab", Name: session},
		node, "raylet.out"))
	must.OK(t, os.MkdirAll(filepath.Dir(log), 0o755))
	must.OK(t, os.WriteFile(log, []byte("line\n"), 0o600))
	o := must.Get(parse(t, []string{"--local-dir=" + dir, "--dashboard-dir=" + dir, "--shutdown-timeout=1h"}, nil))(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	registry := metricdocs.NewRegistry()
	go func() { ended <- o.serve(ctx, listener, silent.Logger(), registry) }()

	get := func(path string) (int, string) {
		t.Helper()
		resp := must.Get(http.Get("http://" + listener.Addr().String() + path))(t)
		defer func() { _ = resp.Body.Close() }()
		body := must.Get(io.ReadAll(resp.Body))(t)
		return resp.StatusCode, string(body)
	}
	for _, request := range []struct{ path, want string }{
		{"/clusters", session}, {"/enter_cluster/default/lab/" + session, "success"},
		{"/namespaces/default/clusters/lab/sessions/latest/api/v0/tasks", `"total":0`}, {"/healthz", "ok"},
		{"/metrics", "rayhistory_storage_operations_total"}, // after the others: the store has been read
	} {
		if status, body := get(request.path); status != http.StatusOK ||
			!strings.Contains(strings.ReplaceAll(body, " ", ""), request.want) {
			t.Errorf("%s: %d %s", request.path, status, body)
		}
	}
	metricdocs.Compare(t, "../..", registry.Names(), "historyserver_", "rayhistory_storage_")
	following := must.Get(http.Get("http://" + listener.Addr().String() +
		"/namespaces/default/clusters/lab/sessions/latest/api/v0/logs/stream?filename=raylet.out&node_id=" +
		node.String()))(t)
	defer func() { _ = following.Body.Close() }()
	says.True(t, !following.Uncompressed, "a stream is compressed, which holds lines back")
	stop()
	if text, err := io.ReadAll(following.Body); string(text) != "line\n" || err == nil {
		t.Errorf("a stream that the server ends: %q, %v", text, err)
	}
	select {
	case err := <-ended:
		says.OK(t, err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the server did not stop")
	}
}

// TestLoadBalancersCloseFirst: a load balancer that keeps an idle connection for ten minutes, as Google's do, closes it
// before the server does.
func TestLoadBalancersCloseFirst(t *testing.T) {
	idle := newHTTPServer(nil).IdleTimeout
	says.True(t, idle > 10*time.Minute, "idle connections are closed after %s", idle)
}

func TestAddressInUse(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = listener.Close() }()
	cmd := command()
	cmd.SetArgs([]string{"--listen=" + listener.Addr().String(), "--local-dir=" + t.TempDir(), "--log-level=error"})
	says.Error(t, cmd.ExecuteContext(t.Context()), "--listen")
}

// One Kubernetes cluster's answer says nothing about another's namespace of the same name.
func TestOneKubernetesSaysWhoMaySeeWhat(t *testing.T) {
	o := must.Get(parse(t, []string{"--auth=kubernetes", "--kubeconfigs=a,b", "--live=storage"}, nil))(t)
	_, _, err := o.kubernetes.open(logrus.New())
	says.True(t, err != nil && strings.Contains(err.Error(), "history server for each of --kubeconfigs"), "%v", err)
}

// TestMissingFolder: a mistyped folder does not look like one without sessions.
func TestMissingFolder(t *testing.T) {
	dir := t.TempDir()
	for folder, warned := range map[string]bool{dir: false, filepath.Join(dir, "none"): true} {
		o := must.Get(parse(t, []string{"--local-dir=" + folder, "--prices=/nothing/here"}, nil))(t)
		log, said := logrus.New(), new(strings.Builder)
		log.SetOutput(said)
		err := o.serve(t.Context(), nil, log, prometheus.NewRegistry())
		says.True(t, err != nil && strings.Contains(said.String(), "no such folder") == warned, "%s: %v, %s", folder,
			err, said)
	}
}

// TestDoctor: each check has a line, of the store's requests and of the server that runs.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	address := strings.TrimSuffix(strings.TrimPrefix(serving(t, dir), "http://"), "/")
	must.Happen(t, "that the first listing has finished", func() bool {
		resp, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		must.OK(t, resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	})
	out, _, err := run(t, "doctor", "--local-dir="+dir, "--listen="+address, "--dashboard-dir="+dir)
	for _, want := range []string{"ok       settings ", "ok       store: list ", "ok       store: write ",
		"ok       store: read ", "ok       clock ", "ok       store: delete ", " space: indexes ",
		"ok       dashboard ",
		"ok       server "} {
		says.True(t, err == nil && strings.Contains(out, want), "%v, no %q in\n%s", err, want, out)
	}
	if out, _, err := run(t, "doctor", "--local-dir="+dir+"/none", "--listen=127.0.0.1:1"); err == nil ||
		err.Error() != "1 check failed" || !strings.Contains(out, "failed   store ") {
		t.Errorf("a folder that is not there: %v\n%s", err, out)
	}
	if out, _, err := run(t, "doctor", "--query-timeout=0s", "--listen=127.0.0.1:1"); err == nil ||
		!strings.Contains(out, "failed   settings         --query-timeout") {
		t.Errorf("a mistake: %v\n%s", err, out)
	}
}

// recordedJobs is a store with two recorded clusters, cases/jobs255 and cases/jobs260.
func recordedJobs(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, archive := range []string{"jobs-2.55", "jobs-2.60"} {
		must.OK(t, recording.Unpack(filepath.Join("..", "..", "pkg", "findings", "testdata", archive+".tar.gz"), dir))
	}
	return dir
}

// serving starts the server over a store, until the test ends, and returns its address.
func serving(t *testing.T, dir string, flags ...string) (address string) {
	t.Helper()
	o := must.Get(parse(t, append([]string{"--local-dir=" + dir, "--dashboard-dir=" + t.TempDir()}, flags...), nil))(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.serve(ctx, listener, silent.Logger(), prometheus.NewRegistry()) }()
	t.Cleanup(func() {
		stop()
		says.OK(t, <-ended)
	})
	return "http://" + listener.Addr().String()
}

// untilDescribed waits until the server has read what its store holds of each session.
func untilDescribed(t *testing.T, address string) {
	t.Helper()
	base := must.Get(client.ParseBase(address))(t)
	c := client.New(base, http.DefaultTransport)
	must.Happen(t, "that all is described", func() bool {
		sessions := must.Get(c.Sessions(t.Context(), nil))(t)
		return !slices.ContainsFunc(sessions, func(s client.Session) bool { return s.Objects == 0 })
	})
}
