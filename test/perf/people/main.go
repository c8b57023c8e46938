// People measures what many people at once wait for: a history server with a small memory cap, several sessions of
// 100,000 tasks, and people who each open one of them, look at a page, and go on to the next.
//
//	go run ./perf/people -binary ../build/historyserver          (in test/)
//
// Sessions are generated (0.5 GB each) below -dir and kept for the next run. Prints a line of Markdown. Linux only.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/test/servers"
)

type options struct {
	binary, dir, memory, index string
	sessions, tasks, people    int
	pause, duration            time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "../build/historyserver", "the history server")
	flag.StringVar(&o.dir, "dir", "../build/bench/people", "where sessions are generated")
	flag.StringVar(&o.memory, "memory", "512MiB", "its --session-cache-max-memory")
	flag.StringVar(&o.index, "index", "off", "its --index")
	flag.IntVar(&o.sessions, "sessions", 5, "sessions")
	flag.IntVar(&o.tasks, "tasks", 100_000, "tasks of each")
	flag.IntVar(&o.people, "people", 50, "people")
	flag.DurationVar(&o.pause, "pause", time.Second, "mean time that a person looks at an answer")
	flag.DurationVar(&o.duration, "duration", 30*time.Second, "how long they do")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "people:", err)
		os.Exit(1)
	}
}

// byJob filters by the first job.
const byJob = "filter_keys=job_id&filter_predicates=%3D&filter_values=01000000"

// pages are what people ask for; how often each stands here is how often it is asked for.
var pages = slices.Concat(
	slices.Repeat([]string{"api/jobs/", "nodes?view=summary", "api/v0/tasks/summarize?" + byJob, "logical/actors"}, 4),
	slices.Repeat([]string{"api/v0/tasks?limit=100",
		"api/v0/tasks?limit=100&filter_keys=state&filter_predicates=%3D&filter_values=FAILED"}, 4),
	[]string{"api/v0/tasks?detail=1&limit=1000&" + byJob, "api/v0/tasks/summarize?summary_by=lineage&" + byJob},
)

func run(o options) error {
	sessions, err := generate(o)
	if err != nil {
		return err
	}
	s, err := start(o)
	if err != nil {
		return err
	}
	defer s.stop()
	began := time.Now()
	for _, session := range sessions {
		if err := s.open(session); err != nil {
			return err
		}
	}
	opened := time.Since(began)
	took, failed := s.visit(o, sessions)
	if len(took) == 0 {
		return errors.New("nothing was answered")
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(100 * time.Microsecond)
	}
	held, err := s.metric("historyserver_session_cache_bytes")
	if err != nil {
		return err
	}
	peak, err := s.peak()
	if err != nil {
		return err
	}
	fmt.Printf("| people | sessions | opened in | answers | errors | p50 | p99 | most | sessions in memory | process at most |\n|--|--|--|--|--|--|--|--|--|--|\n")
	fmt.Printf("| %d | %d of %d tasks | %s | %d | %d | %s | %s | %s | %.0f MiB of %s | %s |\n", o.people, len(sessions),
		o.tasks, opened.Round(10*time.Millisecond),
		len(took), failed, at(.5), at(.99), at(1), held/(1<<20), o.memory, peak)
	return nil
}

// generate writes the sessions that are not there.
func generate(o options) ([]string, error) {
	var names []string
	if err := os.MkdirAll(filepath.Join(o.dir, "store"), 0o755); err != nil {
		return nil, err
	}
	for seed := range o.sessions {
		dir := filepath.Join(o.dir, fmt.Sprintf("%d-%d", o.tasks, seed))
		done := filepath.Join(dir, "done")
		if _, err := os.Stat(done); err != nil {
			if err := os.RemoveAll(dir); err != nil {
				return nil, err
			}
			if _, err := sessiongen.Write(dir, sessiongen.Options{Tasks: o.tasks, Seed: uint64(seed)}); err != nil {
				return nil, err
			}
			// One store holds them all: objects are linked into it.
			if out, err := exec.Command("cp", "-al", filepath.Join(dir, "log"),
				filepath.Join(o.dir, "store")+"/").CombinedOutput(); err != nil {
				return nil, fmt.Errorf("link session %d: %w: %s", seed, err, out)
			}
			if err := os.WriteFile(done, nil, 0o644); err != nil {
				return nil, err
			}
		}
		markers, err := filepath.Glob(filepath.Join(dir, "log/metadir/*/*"))
		if err != nil || len(markers) != 1 {
			return nil, fmt.Errorf("%s holds %d sessions, want 1 (%w)", dir, len(markers), err)
		}
		names = append(names, filepath.Base(markers[0]))
	}
	return names, nil
}

type server struct {
	base    string
	process *exec.Cmd
	client  *http.Client
}

func start(o options) (*server, error) {
	address, err := servers.FreeAddress("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{
		base: "http://" + address,
		process: exec.Command(o.binary, "--local-dir", filepath.Join(o.dir, "store"), "--listen", address,
			"--log-level", "error", "--index", o.index, "--session-cache-max-memory", o.memory),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.people}},
	}
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if _, err := s.get("/readyz"); err == nil {
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("%s is not ready after 10 s", o.binary)
}

func (s *server) stop() {
	_ = s.process.Process.Signal(os.Interrupt)
	_ = s.process.Wait()
}

func (s *server) get(path string) (body []byte, err error) {
	response, err := s.client.Get(s.base + path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if body, err = io.ReadAll(response.Body); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %.200s", path, response.Status, body)
	}
	return body, err
}

func prefix(session string) string {
	s := layout.Session{Namespace: sessiongen.Namespace, Cluster: sessiongen.Cluster, Name: session}
	return fmt.Sprintf("/namespaces/%s/clusters/%s/sessions/%s/", s.Namespace, s.Cluster, s.Name)
}

// open asks until the session is loaded.
func (s *server) open(session string) error {
	for range 600 {
		_, err := s.get(prefix(session) + "api/v0/tasks?limit=1")
		if err == nil {
			return nil
		}
		if !strings.Contains(err.Error(), "503") {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("session %s is not loaded after a minute", session)
}

// visit lets everybody look around, and gives how long each answer took.
func (s *server) visit(o options, sessions []string) (took []time.Duration, failed int) {
	var mu sync.Mutex
	var people sync.WaitGroup
	end := time.Now().Add(o.duration)
	for range o.people {
		people.Go(func() {
			session := sessions[rand.IntN(len(sessions))]
			for time.Now().Before(end) {
				time.Sleep(o.pause/2 + rand.N(o.pause))
				began := time.Now()
				_, err := s.get(prefix(session) + pages[rand.IntN(len(pages))])
				mu.Lock()
				if took = append(took, time.Since(began)); err != nil {
					fmt.Fprintln(os.Stderr, err)
					failed++
				}
				mu.Unlock()
				if rand.IntN(10) == 0 {
					session = sessions[rand.IntN(len(sessions))]
				}
			}
		})
	}
	people.Wait()
	return took, failed
}

// metric reads a metric without labels.
func (s *server) metric(name string) (value float64, err error) {
	body, err := s.get("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			_, err = fmt.Sscan(text, &value)
			return value, err
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

// peak is the most memory that the process has had.
func (s *server) peak() (string, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kib int
			_, err := fmt.Sscan(text, &kib)
			return fmt.Sprintf("%d MiB", kib>>10), err
		}
	}
	return "", errors.New("/proc has no VmHWM")
}
