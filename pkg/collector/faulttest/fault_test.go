// Package faulttest kills collectors at random instants under load, with a backend that fails in every way, and compares what is stored
// in the end with what was sent and written.
//
// The number of kills is FAULTTEST_KILLS (default 6). A run is repeatable as far as processes are: the seed decides when is killed,
// what is written, and which uploads fail.
package faulttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/layout"
	historysession "github.com/rayhistory/historyserver/pkg/session"
)

// rig is a collector in a process of its own and what surrounds it.
type rig struct {
	t    *testing.T
	dir  string
	port int
	env  []string
	log  *os.File

	child   *exec.Cmd
	started atomic.Int64 // Unix ns
}

func newRig(t *testing.T, env ...string) *rig {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	r := &rig{t: t, dir: t.TempDir(), port: port, env: env}
	logs := filepath.Join(r.dir, "ray", session.Name, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "ray", session.Name, "metrics_agent_port_"+nodeID.String()), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
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

func (r *rig) start(seed uint64) {
	r.t.Helper()
	r.child = exec.Command(os.Args[0])
	r.child.Env = append(os.Environ(), childVariable+"=1", dirVariable+"="+r.dir, portVariable+"="+strconv.Itoa(r.port), seedVariable+"="+strconv.FormatUint(seed, 10))
	r.child.Env = append(r.child.Env, r.env...)
	r.child.Stdout, r.child.Stderr = r.log, r.log
	if err := r.child.Start(); err != nil {
		r.t.Fatal(err)
	}
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
}

// end ends the collector as Kubernetes does; everything must be stored then.
func (r *rig) end() {
	r.t.Helper()
	if err := r.child.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if err := r.child.Wait(); err != nil {
		r.t.Errorf("the collector's end: %v", err)
	}
	r.child = nil
}

// looked says when the collector was started last and how many scans it has finished since.
func (r *rig) looked() (life, times int64, ok bool) {
	life = r.started.Load()
	n, err := r.read("rayhistory_collector_logs_scan_seconds_count")
	return life, int64(n), err == nil && life == r.started.Load()
}

func (r *rig) url(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", r.port, path) }

// load posts and writes until the returned function is called.
func (r *rig) load(files int, seed uint64) (*events, *writers, func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	e := &events{url: r.url("/v1/events"), sent: map[string]bool{}}
	w := &writers{dir: filepath.Join(r.dir, "ray", session.Name, "logs"), files: files, looked: r.looked, written: map[string]*bytes.Buffer{}}
	var running sync.WaitGroup
	running.Go(func() { e.run(ctx, r.t) })
	running.Go(func() { w.run(ctx, r.t, seed) })
	return e, w, func() {
		cancel()
		running.Wait()
	}
}

// verify compares what is stored with what was answered for and written.
func (r *rig) verify(e *events, w *writers) {
	r.t.Helper()
	store, err := local.Open(filepath.Join(r.dir, "data"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	logs := historysession.NewLogSet(store)
	for object, err := range store.List(r.t.Context(), layout.LogPrefix("log", session, nodeID), blob.ListOptions{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		o, err := layout.ParseObject("log", session, object.Key)
		if err != nil {
			r.t.Error(err)
			continue
		}
		logs.Add(o, object)
	}
	lost, bytesWritten := 0, 0
	for path, want := range w.written {
		bytesWritten += want.Len()
		file, err := logs.Open(r.t.Context(), nodeID, path)
		if err != nil {
			r.t.Errorf("log %s: %v", path, err)
			continue
		}
		var got bytes.Buffer
		if err := file.WriteRange(r.t.Context(), &got, 0, file.Size()); err != nil {
			r.t.Error(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			lost++
			at := difference(got.Bytes(), want.Bytes())
			r.t.Errorf("log %s: %d bytes stored, %d written, the first difference at %d: stored %.200q, written %.200q", path, got.Len(), want.Len(), at,
				got.Bytes()[max(0, at-100):], want.Bytes()[max(0, at-100):])
			r.explain(path, w)
		}
	}
	stored, lines := r.storedEvents()
	missing := 0
	for id := range e.sent {
		if !stored[id] {
			missing++
		}
	}
	if missing > 0 {
		r.t.Errorf("%d of %d events that were answered 200 are not stored", missing, len(e.sent))
	}
	r.t.Logf("%d events answered 200, %d found (%d lines), %d lost; %d logs with %d bytes, %d rotations, %d logs not equal",
		len(e.sent), len(stored), lines, missing, len(w.written), bytesWritten, w.rotated, lost)
}

// explain prints what happened to a log.
func (r *rig) explain(path string, w *writers) {
	for _, line := range w.history {
		if strings.Contains(line, " "+path+",") {
			r.t.Log(line)
		}
	}
	data, err := os.ReadFile(r.log.Name())
	if err != nil {
		r.t.Error(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "log="+path+" ") || strings.Contains(line, "log="+path+"\n") || strings.Contains(line, "msg=collecting") {
			r.t.Log(strings.TrimSpace(line))
		}
	}
}

func difference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// storedEvents reads all stored events' IDs, whole by whole.
func (r *rig) storedEvents() (ids map[string]bool, lines int) {
	ids = map[string]bool{}
	root := filepath.Join(r.dir, "data", layout.Prefix("log", session), "job_events")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, _, c := ship.EventNames.Parse(path)
		in, err := decompress(data, c)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for in.Scan() {
			var event struct {
				ID string `json:"eventId"`
			}
			if err := json.Unmarshal(in.Bytes(), &event); err != nil {
				return fmt.Errorf("%s: %.100q: %w", path, in.Bytes(), err)
			}
			ids[event.ID] = true
			lines++
		}
		return in.Err()
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Error(err)
	}
	return ids, lines
}

// decompress reads a chunk's lines.
func decompress(data []byte, c layout.Compression) (*bufio.Scanner, error) {
	var plain io.Reader = bytes.NewReader(data)
	if c == layout.Zstd {
		decoder, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer decoder.Close()
		data, err = decoder.DecodeAll(data, nil)
		if err != nil {
			return nil, err
		}
		plain = bytes.NewReader(data)
	}
	in := bufio.NewScanner(plain)
	in.Buffer(nil, 1<<20)
	return in, nil
}

func setting(name string, byDefault int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return byDefault
}

// TestKills is the fault suite: SIGKILL at random instants, under load, and a backend that fails.
func TestKills(t *testing.T) {
	kills := setting("FAULTTEST_KILLS", 6)
	for name, test := range map[string]struct {
		seed uint64 // of the backend's faults; 0 is none
		env  []string
	}{
		"sound backend":              {},
		"failing backend":            {seed: 7},
		"failing backend compressed": {seed: 8, env: []string{zipVariable + "=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, test.env...)
			random := rand.New(rand.NewPCG(test.seed, 5))
			r.start(test.seed)
			e, w, stop := r.load(8, test.seed)
			for i := range kills {
				wait := time.Duration(random.IntN(1500)) * time.Millisecond
				if random.IntN(6) == 0 {
					wait += 4 * time.Second // long enough for rotations
				}
				time.Sleep(wait)
				r.kill()
				faults := uint64(0)
				if test.seed > 0 {
					faults = test.seed + uint64(i)
				}
				r.start(faults)
			}
			time.Sleep(3 * time.Second)
			stop()
			r.kill()
			r.start(0)
			r.waitReady()
			r.end()
			t.Logf("%d kills", kills+1)
			r.verify(e, w)
		})
	}
}

func (r *rig) waitReady() {
	r.t.Helper()
	for range 500 {
		if answer, err := http.Get(r.url("/readyz")); err == nil {
			_ = answer.Body.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.t.Fatal("the collector does not become ready")
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
