package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/initalloc"
	"github.com/rayhistory/historyserver/internal/testkit/metricdocs"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
)

// TestMetrics: the metrics of the collector are those that the documentation, the alerts and the dashboard name.
func TestMetrics(t *testing.T) {
	o, _, err := read([]string{"--ray-cluster-name=lab", "--role=Head", "--ray-tmp-dir=" + t.TempDir(),
		"--spool-dir=" + t.TempDir(), "--redact=secret"}, nil)
	must.OK(t, err)
	store := storetest.New()
	log := silent.Logger()
	servers := collector.NewServers(collector.Listeners{EventsAddress: collector.Loopback,
		MetricsAddress: collector.Loopback}, log)
	must.OK(t, servers.Open())
	registry := metricdocs.NewRegistry()
	o.Log, o.Servers, o.Refused, o.EventBodyBytes = log, servers, &sink.Refused{}, minEventBody
	c, err := o.open(store, registry)
	must.OK(t, err)
	metricdocs.Compare(t, "../..", registry.Names(), "rayhistory_")
	c.Start()
	must.OK(t, c.Close(t.Context()))
}

// TestInit: a package takes little memory before main starts.
func TestInit(t *testing.T) { initalloc.Bound(t, 32<<10) }

// TestLostTerminal: a collector whose output nobody reads any more, and whose terminal is closed, stores the rest.
func TestLostTerminal(t *testing.T) {
	if folder := os.Getenv("TEST_COLLECTOR_FOLDER"); folder != "" {
		if err := run(t.Context(), []string{"--role=worker", "--storage-backend=local", "--local-dir=" + folder + "/store",
			"--spool-dir=" + folder + "/spool", "--ray-tmp-dir=" + folder, "--ray-cluster-name=lab", "--metrics=off",
			"--events-port=" + os.Getenv("TEST_EVENTS_PORT"), "--metrics-port=" + os.Getenv("TEST_METRICS_PORT")},
			nil); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Below nohup SIGHUP is ignored, also in the collector: a signal that is handled here is not ignored there.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	defer signal.Stop(handled)
	child := exec.Command(os.Args[0], "-test.run=^TestLostTerminal$")
	child.Env = []string{"TEST_COLLECTOR_FOLDER=" + t.TempDir(), "TEST_EVENTS_PORT=" + strconv.Itoa(freeport.Port(t)),
		"TEST_METRICS_PORT=" + strconv.Itoa(freeport.Port(t))}
	output, write, err := os.Pipe()
	must.OK(t, err)
	child.Stdout, child.Stderr = write, write
	must.OK(t, child.Start())
	defer func() { _ = child.Process.Kill() }()
	must.OK(t, write.Close())
	var printed strings.Builder
	for lines := bufio.NewScanner(output); lines.Scan() && !strings.Contains(lines.Text(), "collecting"); {
		printed.WriteString(lines.Text() + "\n")
	}
	must.OK(t, output.Close())
	for range 2 { // of the shell and of the kernel
		must.OK(t, child.Process.Signal(syscall.SIGHUP))
	}
	says.OK(t, child.Wait(), "it had printed %s", &printed)
}

// TestDoctor: each check has a line; what is not there is a warning, a mistake ends with an error.
func TestDoctor(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want []string
		err  string
	}{
		"right": {args: []string{"--local-dir=DIR/store", "--ray-auth-token=hush"},
			want: []string{"ok       settings ", "warning  Ray ", "warning  dashboard ", "ok       store: list ",
				"ok       store: write ", "ok       clock ", "ok       store: delete ", " inotify: watches ",
				" inotify: instances ", " space: spool ", "warning  collector "}},
		"mistakes": {args: []string{"--push-interval=0s", "--role=boss"}, err: "2 checks failed",
			want: []string{"failed   settings         --role", "failed   settings         --push-interval"}},
		"no store": {args: []string{"--storage-backend=s3"}, want: []string{"failed   store ", "--s3-bucket"},
			err: "1 check failed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bundle := filepath.Join(dir, "bundle.tar.gz")
			cmd := doctorCommand()
			args := []string{"--ray-cluster-name=lab", "--role=head", "--ray-tmp-dir=" + dir,
				"--metrics-address=127.0.0.1",
				"--metrics-port=1", "--ray-dashboard-address=127.0.0.1:1", "--bundle=" + bundle}
			for _, arg := range tt.args {
				args = append(args, strings.ReplaceAll(arg, "DIR", dir))
			}
			var out strings.Builder
			cmd.SetArgs(args)
			cmd.SetOut(&out)
			err := cmd.Execute()
			says.True(t, (tt.err != "" || err == nil) && (tt.err == "" || err != nil && err.Error() == tt.err),
				"%v, want %q", err, tt.err)
			for _, want := range tt.want {
				says.True(t, strings.Contains(out.String(), want), "no %q in\n%s", want, &out)
			}
			info := must.Get(os.Stat(bundle))(t)
			says.True(t, info.Mode() == 0o600 && info.Size() != 0, "the bundle: %v", info)
		})
	}
}
