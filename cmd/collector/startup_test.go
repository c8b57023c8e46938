package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector"
)

// trial is a startup whose attempts a test allows one by one.
type trial struct {
	t               *testing.T
	dir             string
	events, metrics string // URLs
	s               *startup
	attempted       chan struct{} // an attempt has failed
	again           chan time.Time
	signals         chan os.Signal
	ended           chan outcome
}

type outcome struct {
	c   *collector.Collector
	err error
}

// try starts with good settings and then those of a test: the last of a flag counts.
func try(t *testing.T, args, environ []string) *trial {
	t.Helper()
	events, metrics, dir := freeport.Port(t), freeport.Port(t), t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, "ray"), 0o777))
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", dir)
	}
	good := []string{
		"--ray-cluster-name=lab", "--role=head", "--ray-tmp-dir=" + dir + "/ray", "--local-dir=" + dir + "/store",
		"--ray-dashboard-address=", "--metrics=off",
		"--metrics-address=127.0.0.1", fmt.Sprintf("--events-port=%d", events),
		fmt.Sprintf("--metrics-port=%d", metrics),
	}
	tr := &trial{
		t: t, dir: dir, events: fmt.Sprintf("http://127.0.0.1:%d", events),
		metrics: fmt.Sprintf("http://127.0.0.1:%d", metrics),
		s:       newStartup(append(good, args...), environ), attempted: make(chan struct{}),
		again:   make(chan time.Time),
		signals: make(chan os.Signal, 1), ended: make(chan outcome, 1),
	}
	tr.s.after = func(time.Duration) <-chan time.Time {
		tr.attempted <- struct{}{}
		return tr.again
	}
	return tr
}

func (tr *trial) start() *trial {
	go func() {
		c, err := tr.s.await(context.Background(), tr.signals)
		tr.ended <- outcome{c, err}
	}()
	return tr
}

// fails waits until an attempt has failed.
func (tr *trial) fails() {
	tr.t.Helper()
	select {
	case <-tr.attempted:
	case got := <-tr.ended:
		if got.c != nil {
			got.c.Start()
			_ = got.c.Close(context.Background())
		}
		tr.t.Fatalf("the first attempt ended the startup: %v, %v", got.c != nil, got.err)
	}
}

func ask(t *testing.T, method, url string) (status int, text, retryAfter string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url,
		strings.NewReader(`[{"sessionName":"session_2026-11-20_23-19-45_581717_1"}]`))
	must.OK(t, err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	must.OK(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must.OK(t, err)
	return answer.StatusCode, string(body), answer.Header.Get("Retry-After")
}

// standsBy checks that the process lives, is not ready, says why, and refuses events.
func (tr *trial) standsBy(url, why string) {
	tr.t.Helper()
	for _, path := range []string{"/healthz", "/livez"} {
		if status, _, _ := ask(tr.t, "GET", url+path); status != 200 {
			tr.t.Errorf("%s: %d", path, status)
		}
	}
	if status, text, _ := ask(tr.t, "GET", url+"/readyz"); status != 503 || !strings.Contains(text, why) {
		tr.t.Errorf("/readyz: %d: %s, want 503 with %s", status, text, why)
	}
	if status, text, _ := ask(tr.t, "GET", url+"/metrics"); status != 200 ||
		!strings.Contains(text, "rayhistory_collector_ready 0") {
		tr.t.Errorf("/metrics: %d, %.200s", status, text)
	}
	if url != tr.events {
		return
	}
	if status, text, retry := ask(tr.t, "POST", url+"/v1/events"); status != 503 || retry == "" ||
		!strings.Contains(text, why) {
		tr.t.Errorf("events: %d, Retry-After %q: %s", status, retry, text)
	}
}

// collects lets another attempt run, which must succeed.
func (tr *trial) collects() {
	tr.t.Helper()
	tr.again <- time.Time{}
	select {
	case got := <-tr.ended:
		must.True(tr.t, got.c != nil, "ended: %v", got.err)
		got.c.Start()
		if status, text, _ := ask(tr.t, "GET", tr.events+"/readyz"); status != 200 {
			tr.t.Errorf("not ready: %s", text)
		}
		says.Error(tr.t, got.c.Close(tr.t.Context()), "refused", "after events were refused")
	case <-tr.attempted:
		_, text, _ := ask(tr.t, "GET", tr.events+"/readyz")
		tr.t.Fatalf("still not ready: %s", text)
	}
}

// terminated ends the process, whose last words must have all parts.
func (tr *trial) terminated(parts ...string) {
	tr.t.Helper()
	tr.signals <- syscall.SIGTERM
	got := <-tr.ended
	must.True(tr.t, got.c == nil && got.err != nil, "ended with %v, %v", got.c, got.err)
	for _, part := range parts {
		says.True(tr.t, strings.Contains(got.err.Error(), part), "ended with %q, without %q", got.err, part)
	}
}

// TestMistakes: whatever is wrong, the process lives, says what, refuses Ray's events, and ends promptly and not with
// success.
func TestMistakes(t *testing.T) {
	for name, test := range map[string]struct {
		args, env []string
		why       string
	}{
		"S3 without a bucket":       {args: []string{"--storage-backend=s3"}, why: "--s3-bucket"},
		"GCS without a bucket":      {args: []string{"--storage-backend=gcs"}, why: "bucket"},
		"Azure without a container": {args: []string{"--storage-backend=azureblob"}, why: "azure"},
		"OSS without a bucket":      {args: []string{"--storage-backend=aliyunoss"}, why: "oss"},
		"unknown backend":           {args: []string{"--storage-backend=s4"}, why: `--storage-backend="s4"`},
		"mistyped setting": {args: []string{"--storage-backend-config-path=DIR/bad.json", "--push-interval=0"},
			why: `unknown setting "s3Bukket"`},
		"settings that are no JSON":   {args: []string{"--storage-backend-config-path=DIR/ray"}, why: "DIR/ray"},
		"no settings file":            {args: []string{"--storage-backend-config-path=DIR/none.json"}, why: "none.json"},
		"unknown redaction, flag":     {args: []string{"--redactt=hush"}, why: "unknown flag: --redactt"},
		"unknown redaction, 2nd flag": {args: []string{"--new=1", "--redactt", "hush"}, why: "unknown flag"},
		"unknown redaction, variable": {env: []string{"RAYHISTORY_REDACTED=hush"}, why: "RAYHISTORY_REDACTED"},
		"unknown flag and value": {args: []string{"--some-new-flag", "1", "--push-interval=0"},
			why: "--some-new-flag"},
		"value of a flag":        {args: []string{"--push-interval=1minute"}, why: "--push-interval"},
		"separate boolean":       {args: []string{"--delete-shipped", "true"}, why: `unexpected argument "true"`},
		"spool below a file":     {args: []string{"--spool-dir=DIR/bad.json/spool"}, why: "--spool-dir"},
		"store below a file":     {args: []string{"--local-dir=DIR/bad.json/store"}, why: "bad.json"},
		"RAY_AUTH_MODE":          {env: []string{"RAY_AUTH_MODE=k8s"}, why: `--ray-auth-mode="k8s"`},
		"PUSH_INTERVAL":          {env: []string{"PUSH_INTERVAL=0"}, why: "--push-interval=0s"},
		"PUSH_INTERVAL of words": {env: []string{"PUSH_INTERVAL=soon"}, why: "PUSH_INTERVAL"},
		"several mistakes": {args: []string{"--log-level=loud", "--metrics-interval=1ms",
			"--event-compression=lz4"}, why: "--log-level=\"loud\""},
		"metrics interval":       {args: []string{"--metrics-interval=1ms"}, why: "--metrics-interval=1ms"},
		"long metrics interval":  {args: []string{"--metrics-interval=3m"}, why: "--metrics-interval=3m0s"},
		"metrics mode":           {args: []string{"--metrics=maybe"}, why: `--metrics="maybe"`},
		"name of the cluster":    {args: []string{"--ray-cluster-name=a/b"}, why: `--ray-cluster-name="a/b"`},
		"no name of the cluster": {args: []string{"--ray-cluster-name="}, why: "--ray-cluster-name is not set"},
		"namespace":              {args: []string{"--ray-cluster-namespace=a_b"}, why: "--ray-cluster-namespace"},
		"role":                   {args: []string{"--role=boss"}, why: "--role"},
		"contradiction": {args: []string{"--event-compression=zstd", "--event-compression-enabled"},
			why: "contradicts"},
		"owner": {args: []string{"--owner-name=x"}, why: "give both or neither"},
		"dashboard": {args: []string{"--ray-dashboard-address=http://[x"},
			why: "ray-dashboard-address"},
		"address": {args: []string{"--metrics-address=here"}, why: "--metrics-address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := try(t, test.args, test.env)
			must.OK(t, os.WriteFile(filepath.Join(tr.dir, "bad.json"), []byte(`{"s3Bukket": "x"}`), 0o600))
			tr.start()
			tr.fails()
			why := strings.ReplaceAll(test.why, "DIR", tr.dir)
			tr.standsBy(tr.events, why)
			tr.standsBy(tr.metrics, why)
			tr.terminated("no logs and no events of this node are stored", "1 batch of events was refused", why)
		})
	}
}

// TestMistakesThatPass: once what was wrong is right, the collector begins.
func TestMistakesThatPass(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for name, test := range map[string]struct {
		args       []string
		wrong, put func(t *testing.T, dir string)
		why        string
	}{
		"the settings file comes": {
			args: []string{"--storage-backend-config-path=DIR/settings.json"}, why: "settings.json",
			put: func(t *testing.T, dir string) { write(t, dir+"/settings.json", `{"storage-root-dir": "x"}`) },
		},
		"the settings file is mended": {
			args: []string{"--storage-backend-config-path=DIR/settings.json"}, why: "push-interval",
			wrong: func(t *testing.T, dir string) { write(t, dir+"/settings.json", `{"push-interval": "soon"}`) },
			put:   func(t *testing.T, dir string) { write(t, dir+"/settings.json", `{"storage-root-dir": "x"}`) },
		},
		"a file is where the spool should be": {
			args: []string{"--spool-dir=DIR/spool"}, why: "--spool-dir",
			wrong: func(t *testing.T, dir string) { write(t, dir+"/spool", "") },
			put: func(t *testing.T, dir string) {
				must.OK(t, os.Remove(dir+"/spool"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := try(t, test.args, nil)
			if test.wrong != nil {
				test.wrong(t, tr.dir)
			}
			tr.start()
			tr.fails()
			tr.standsBy(tr.events, test.why)
			test.put(t, tr.dir)
			tr.collects()
		})
	}
}

// TestStoreIsOpenedOnce: attempts that fail for another reason use one store, and open another only for other settings.
func TestStoreIsOpenedOnce(t *testing.T) {
	tr := try(t, []string{"--spool-dir=DIR/spool", "--storage-backend-config-path=DIR/settings.json"}, nil)
	for name, text := range map[string]string{"spool": "", "settings.json": "{}"} {
		must.OK(t, os.WriteFile(filepath.Join(tr.dir, name), []byte(text), 0o600))
	}
	tr.start()
	tr.fails()
	first := tr.s.store
	tr.again <- time.Time{}
	tr.fails()
	says.True(t, first != nil && tr.s.store == first, "another attempt has opened the store anew")
	must.OK(t, os.WriteFile(filepath.Join(tr.dir, "settings.json"), []byte(`{"storage-root-dir": "x"}`), 0o600))
	tr.again <- time.Time{}
	tr.fails()
	says.True(t, tr.s.store != first, "other settings have not opened another store")
	tr.terminated("--spool-dir")
}

// TestSettingsOfLaterVersions: names that are no settings do not keep the collector from storing. They are told in its
// log, in its metrics and by doctor.
func TestSettingsOfLaterVersions(t *testing.T) {
	for name, test := range map[string]struct {
		args, env []string
		want      string
	}{
		"flag":           {args: []string{"--some-new-flag=1"}, want: "--some-new-flag"},
		"flag and value": {args: []string{"--some-new-flag", "1"}, want: "--some-new-flag"},
		"variable":       {env: []string{"RAYHISTORY_NEW=1"}, want: "RAYHISTORY_NEW"},
		"file": {args: []string{"--storage-backend-config-path=DIR/new.json"},
			want: `unknown setting "newSetting"`},
	} {
		t.Run(name, func(t *testing.T) {
			tr := try(t, test.args, test.env)
			must.OK(t, os.WriteFile(filepath.Join(tr.dir, "new.json"), []byte(`{"newSetting": "x"}`), 0o600))
			got := <-tr.start().ended
			must.OK(t, got.err)
			got.c.Start()
			_, metrics, _ := ask(t, "GET", tr.metrics+"/metrics")
			must.OK(t, got.c.Close(t.Context()))
			says.True(t, strings.Contains(metrics, "rayhistory_collector_settings_ignored 1") &&
				strings.Contains(tr.s.unknown, test.want), "%q is logged, want %s", tr.s.unknown, test.want)
		})
	}
}

// TestTakenPorts: a port of another process keeps the collector from starting, and only until it is free.
func TestTakenPorts(t *testing.T) {
	for flag, other := range map[string]func(*trial) string{
		"--events-port":  func(tr *trial) string { return tr.metrics },
		"--metrics-port": func(tr *trial) string { return tr.events },
	} {
		tr := try(t, nil, nil)
		at := map[string]string{"--events-port": tr.events, "--metrics-port": tr.metrics}[flag]
		taken := must.Get(net.Listen("tcp", strings.TrimPrefix(at, "http://")))(t)
		tr.start()
		tr.fails()
		tr.standsBy(other(tr), flag)
		must.OK(t, taken.Close())
		if flag == "--events-port" {
			tr.s.refused.Add("", "it was taken", time.Now()) // as collects expects
		}
		tr.collects()
	}
}

// TestWaitsForRay: that Ray has not made its folder yet is no mistake, and nothing is lost when the pod ends before.
func TestWaitsForRay(t *testing.T) {
	tr := try(t, []string{"--ray-tmp-dir=DIR/tmp/ray"}, nil).start()
	tr.fails()
	status, text, _ := ask(t, "GET", tr.metrics+"/readyz")
	says.True(t, status == 200, "/readyz: %d: %s", status, text)
	if status, text, retry := ask(t, "POST", tr.events+"/v1/events"); status != 503 || retry == "" ||
		!strings.Contains(text, "Ray has not made the folder") {
		t.Errorf("events: %d, Retry-After %q: %s", status, retry, text)
	}
	says.True(t, says.Err(os.Lstat(filepath.Join(tr.dir, "tmp"))) != nil, "the collector made a folder of Ray's")
	must.OK(t, os.MkdirAll(filepath.Join(tr.dir, "tmp", "ray"), 0o777))
	tr.collects()

	tr = try(t, []string{"--ray-tmp-dir=DIR/tmp/ray"}, nil).start()
	tr.fails()
	tr.signals <- syscall.SIGTERM
	got := <-tr.ended
	says.True(t, got.c == nil && got.err == nil, "ended before Ray: %v, %v", got.c, got.err)
}

// TestExitOnError: those who prefer it get the first mistake as the exit's error.
func TestExitOnError(t *testing.T) {
	for name, test := range map[string]struct{ args, env []string }{
		"flag":         {args: []string{"--storage-backend=s4", "--exit-on-error"}},
		"variable":     {args: []string{"--storage-backend=s4"}, env: []string{"RAYHISTORY_EXIT_ON_ERROR=true"}},
		"unknown flag": {args: []string{"--nonsense", "--exit-on-error"}},
	} {
		got := <-try(t, test.args, test.env).start().ended
		says.True(t, got.c == nil && got.err != nil, "%s: %v, %v", name, got.c, got.err)
	}
}

// TestCommandLine: what people ask at a terminal fails or succeeds at once. Wrong usage ends with 2, other errors with
// 1.
func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"--help": "", "-h": "", "--version": "", "help": "", "inject --help": "", "--nonsense --help": "",
		"injectt -f x": "did you mean inject?", "inject --imagee=x": "did you mean --image?",
		"inject x.yaml":          "usage: collector inject -f FILE",
		"inject -f /nonexistent": "no such file",
		"inject -f options.go":   "--storage-backend is not set",
		"inject":                 "-f is not set",
		"inject -f options.go --storage-backend=s3 --image=": "--image is empty",
		"env --shell=csh":     "want fish, sh or systemd",
		"env --ray-version=x": "want a version",
		"doctor x":            "wrong number of arguments",
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(io.Discard)
		err := cmd.Execute()
		says.True(t, (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want)),
			"collector %s: %v, want %q", args, err, want)
		code := settings.CodeUsage
		switch want {
		case "":
			code = 0
		case "no such file":
			code = 1
		}
		says.Equal(t, settings.ExitCode(err), code, "collector %s ends with", args)
	}
}
