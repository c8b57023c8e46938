// Demo shows the collector and the history server on one machine, without Ray. It replays recorded Ray sessions into
// one collector per recorded node, ends the collectors as Kubernetes ends a pod, adds what collectors stored of other
// recorded clusters, and leaves a history server running that shows all of it.
//
// `make demo` builds the binaries, gets the Ray Dashboard's build and runs the demo. `make screenshots` also runs the
// program that takes the pictures of docs/, and the moving one of the README.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/play"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
)

func main() {
	bin := pflag.String("bin", "build", "folder of the binaries collector and historyserver")
	dashboards := pflag.String("dashboard-dir", "build/dashboard", "folder of the Ray Dashboard's builds")
	port := pflag.Int("port", 8080, "port of the history server on localhost")
	names := pflag.StringSlice("recording", nil, "recordings to replay, folders of test/testdata (default: all)")
	running := pflag.StringSlice("running", nil, "show these clusters of the namespace cases as running")
	command := pflag.StringArray("run", nil,
		"run this, an argument each, with the server's address as DEMO_URL, and end")
	pflag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *bin, *dashboards, *port, *names, *running, *command)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run collects the recordings and serves what was stored until ctx ends, or until command has run.
func run(ctx context.Context, bin, dashboards string, port int, names, running, command []string) (err error) {
	listen := net.JoinHostPort("localhost", strconv.Itoa(port))
	if err := checkFree(listen); err != nil {
		return err
	}
	if len(names) == 0 {
		if names, err = recording.Names(); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp("", "rayhistory-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	data := filepath.Join(work, "data")

	if err := storeSessions(ctx, bin, work, data, names, running); err != nil {
		return err
	}
	say("history server over %s", data)
	server, err := play.Start(filepath.Join(work, "historyserver.log"), filepath.Join(bin, "historyserver"),
		"--listen", listen, "--storage-backend", "local", "--local-dir", data, "--dashboard-dir", dashboards)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(10*time.Second)) }()
	base := "http://" + listen
	latest := fmt.Sprintf("%s/namespaces/%s/clusters/%s/sessions/latest", base, recording.Namespace, recording.Cluster)
	if err := server.WaitReady(ctx, base+"/readyz", 30*time.Second); err != nil {
		return err
	}
	if len(command) > 0 {
		c := exec.CommandContext(ctx, command[0], command[1:]...)
		c.Env, c.Stdout, c.Stderr = append(os.Environ(), "DEMO_URL="+base), os.Stdout, os.Stderr
		return c.Run()
	}
	printLinks(base, latest)
	select {
	case <-ctx.Done():
		fmt.Println()
		return nil
	case <-server.Ended():
		return fmt.Errorf("the history server ended by itself:\n%s", server.Tail())
	}
}

// storeSessions fills the store below data: collectors in work replay the recordings with these names, other recorded
// clusters are unpacked, and all are indexed. The clusters in running then look like running ones.
func storeSessions(ctx context.Context, bin, work, data string, names, running []string) error {
	for _, name := range names {
		recorded := play.Recording{Name: name, Binary: filepath.Join(bin, "collector"),
			Work: filepath.Join(work, name), Data: data, Say: say}
		if err := recorded.Collect(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := addClusters(data); err != nil {
		return err
	}
	if err := index(ctx, filepath.Join(bin, "historyserver"), data); err != nil {
		return err
	}
	for _, cluster := range running {
		if err := showRunning(data, cluster); err != nil {
			return err
		}
	}
	return nil
}

// printLinks prints what to open. base is the server's address, latest that of the last replayed session.
func printLinks(base, latest string) {
	cases := base + "/namespaces/" + casesNamespace + "/clusters"
	fmt.Printf(`
  These clusters are gone; their history is not:

    all sessions        %s/
    all together        %s/fleet?from=2025-01-01
    the latest of %q   %s/
    why a job failed    %s/oom_task/sessions/latest/findings
    metrics             %s/more260/sessions/latest/#/metrics
    with Ray's own CLI  ray list tasks --address %s

  Ctrl-C ends the demo.
`, base, base, recording.Cluster, latest, cases, cases, latest)
}

// checkFree says beforehand what would otherwise show only after the collectors' work.
func checkFree(listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("%w: choose another port with `make demo PORT=…`", err)
	}
	return l.Close()
}

var began = time.Now()

func say(format string, a ...any) {
	fmt.Printf("%5.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, a...))
}
