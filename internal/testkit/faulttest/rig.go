// Package faulttest kills collectors at random moments under load, with stores that fail in every way. In the end it
// compares what is stored with what was sent and written.
//
// It can test any collector that runs in its own process: see Subject and Run. The tests here use a local store that
// fails on purpose. FAULTTEST_KILLS sets how often each collector is killed, and then all kinds of failures are tested
// instead of some. The seed decides when a collector is killed, what is written and which uploads fail; everything else
// depends on the scheduler. Tasks of maintenance are killed at each of their writes.
package faulttest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Subject is a collector under test.
type Subject struct {
	// Command starts one life of it.
	Command func(Life) *exec.Cmd
	// Store opens what it stores in, to be read in the end; dir is the rig's folder.
	Store func(t *testing.T, dir string) blob.Store
	// Redact is how the collector redacts, by Redaction: then all that it gets has secrets. nil: not at all.
	Redact *redact.Redactor
	// Faults counts the faults injected so far.
	Faults func(dir string) int
}

// Life is one start of the collector up to its end.
type Life struct {
	// Dir is the rig's folder: Ray's temporary folder is its ray, the spool's its spool.
	Dir string
	// Port is where it must take events on 127.0.0.1 and serve metrics.
	Port int
	// Number is of the life, from 0.
	Number uint64
	// Sound: no faults are injected from now on, if that can be chosen.
	Sound bool
}

// rig is a collector in a process of its own, its folders and its log.
type rig struct {
	t       *testing.T
	subject Subject
	session layout.Session
	dir     string
	folder  string // Ray's, of the session
	port    int
	lives   uint64
	log     *os.File

	raylet  net.Listener // nil: none runs
	child   *exec.Cmd
	started atomic.Int64 // Unix ns
	ended   []int64      // Unix ms
}

// rigs counts those of this process.
var rigs atomic.Int64

func newRig(t *testing.T, subject Subject) *rig {
	r := &rig{t: t, subject: subject, dir: t.TempDir(), port: freeport.Port(t)}
	// All raylets of the machine are in one list of the kernel's, so each rig has a session of its own.
	r.session = layout.Session{Namespace: "default", Cluster: "lab",
		Name: fmt.Sprintf("session_2026-11-20_23-19-45_%06d_%d", rigs.Add(1), os.Getpid())}
	r.folder = filepath.Join(r.dir, "ray", r.session.Name)
	must.OK(t, os.MkdirAll(r.logs(), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(r.folder, "metrics_agent_port_"+nodeID.String()), []byte("1"), 0o644))
	var err error
	if r.log, err = os.Create(filepath.Join(r.dir, "collector.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			data, _ := os.ReadFile(r.log.Name())
			t.Logf("the collector's log ends:\n%s", data[max(0, len(data)-4000):])
		}
		_ = r.log.Close()
	})
	return r
}

func (r *rig) start(sound bool) {
	r.t.Helper()
	r.child = r.subject.Command(Life{Dir: r.dir, Port: r.port, Number: r.lives, Sound: sound})
	r.lives++
	r.child.Stdout, r.child.Stderr = r.log, r.log
	must.OK(r.t, r.child.Start())
	r.started.Store(time.Now().UnixNano())
}

func (r *rig) kill() {
	r.started.Store(1 << 62)
	if r.child == nil {
		return
	}
	_ = r.child.Process.Kill()
	_ = r.child.Wait()
	r.child = nil
	r.ended = append(r.ended, time.Now().UnixMilli())
}

// end stops the collector as Kubernetes does: Ray ends soon after. It must store everything first.
func (r *rig) end() {
	r.t.Helper()
	if r.raylet != nil {
		time.AfterFunc(time.Second, func() { _ = r.raylet.Close() })
	}
	must.OK(r.t, r.child.Process.Signal(syscall.SIGTERM))
	says.OK(r.t, r.child.Wait(), "the collector's end")
	r.child = nil
	r.ended = append(r.ended, time.Now().UnixMilli())
}

// looked says when the collector was started last and how many scans it has finished since.
func (r *rig) looked() (life, times int64, ok bool) {
	life = r.started.Load()
	n, err := r.read("rayhistory_collector_logs_scan_seconds_count")
	return life, int64(n), err == nil && life == r.started.Load()
}

// logs is the folder of the session's logs.
func (r *rig) logs() string { return filepath.Join(r.folder, "logs") }

func (r *rig) url(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", r.port, path) }

func (r *rig) waitReady() {
	r.t.Helper()
	waitFor(r.t, "the collector to become ready", func() bool {
		answer, err := http.Get(r.url("/readyz"))
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil
	})
}

// waitFor waits for a condition, for three minutes at most.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		must.True(t, !time.Now().After(deadline), "waited three minutes for %s", what)
	}
}

// read reads one value of the collector's metrics.
func (r *rig) read(name string) (float64, error) {
	answer, err := http.Get(r.url("/metrics"))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}
