package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
)

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
	if err := child.Wait(); err != nil {
		t.Errorf("%v; it had printed\n%s", err, &printed)
	}
}
