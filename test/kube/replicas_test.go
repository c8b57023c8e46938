package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// Two replicas behind a Service without sticky sessions, under load: one is killed, one is rolled out. A killed replica
// takes its connections with it and nothing else; a rollout takes nothing.
func TestReplicas(t *testing.T) {
	rec := recording.Open(t)
	dir := rec.Store()
	ref := rec.Session
	const size = 64 << 20
	const delay = 10 * time.Second // in which a busy balancer learns that a replica goes
	long := filepath.Join(dir, layout.LogKey(layout.DefaultRoot, ref, rec.NodeID("head"), "long.log"))
	must.OK(t, os.WriteFile(long, []byte(strings.Repeat("a line of a log that is read slowly\n", size/36)), 0o600))
	replica := func() (*process, string) {
		address := freeport.Address(t)
		return run(t, nil, "historyserver", "--listen="+address, "--storage-backend=local", "--local-dir="+dir,
			"--live=off", fmt.Sprintf("--shutdown-delay=%v", delay)), address
	}
	one, first := replica()
	two, second := replica()
	service := newBalancer(t, first, second)
	ready := func(n int) {
		t.Helper()
		lab.Eventually(t, fmt.Sprintf("%d replicas are ready", n), func() bool { return service.ready() == n })
	}
	ready(2)

	load := newLoad(t, "http://"+service.Addr().String(), ref)
	load.during(t, "both", 50, func() {})

	load.during(t, "one is killed", 200, func() { one.kill() })
	t.Logf("one of two was killed: %d requests, %d wrong answers, %d connections broke and each request was answered when repeated", load.asked.Load(), load.wrong.Load(), load.broken.Load())
	ready(1)

	three, third := replica()
	service.add(third)
	ready(2)
	load.reset()
	slow, err := http.Get("http://" + second + "/namespaces/" + ref.Namespace + "/clusters/" + ref.Cluster +
		"/sessions/" + ref.Name + "/api/v0/logs/file?lines=-1&filename=long.log&node_id=" + rec.NodeID("head").String())
	must.OK(t, err)
	defer func() { _ = slow.Body.Close() }()
	load.during(t, "a rollout", 200, func() {
		var read sync.WaitGroup
		read.Go(func() {
			time.Sleep(delay + time.Second)
			if n, err := io.Copy(io.Discard, slow.Body); err != nil || n < size/36*36 {
				t.Errorf("a running answer ended after %d bytes: %v", n, err)
			}
		})
		if code := two.stop(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
		read.Wait()
	})
	if load.wrong.Load() > 0 || load.broken.Load() > 0 {
		t.Errorf("a rollout: %d wrong answers, %d connections broke", load.wrong.Load(), load.broken.Load())
	}
	t.Logf("one of two was rolled out: %d requests, %d wrong answers, %d connections broke", load.asked.Load(),
		load.wrong.Load(), load.broken.Load())
	if code := three.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// load is several clients, each with connections of its own, that ask for pages of one session and know the right
// answers.
type load struct {
	base    string
	cookies string
	want    map[string]string

	asked, wrong, broken atomic.Int64
}

func newLoad(t *testing.T, base string, ref layout.Session) *load {
	t.Helper()
	l := &load{base: base, want: map[string]string{}}
	l.cookies = fmt.Sprintf("cluster_namespace=%s; cluster_name=%s; session_name=%s", ref.Namespace, ref.Cluster,
		ref.Name)
	prefix := "/namespaces/" + ref.Namespace + "/clusters/" + ref.Cluster + "/sessions/" + ref.Name
	client := &http.Client{Transport: &http.Transport{}}
	for _, path := range []string{"/api/jobs/", "/nodes?view=summary", "/api/v0/tasks?limit=100",
		prefix + "/api/v0/actors", prefix + "/api/v0/tasks/summarize"} {
		lab.Eventually(t, "the session is loaded", func() bool {
			body, err := l.ask(client, path)
			l.want[path] = body
			return err == nil
		})
	}
	return l
}

var errStatus = errors.New("status")

func (l *load) ask(client *http.Client, path string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, l.base+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Cookie", l.cookies)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w %d: %.200s", errStatus, resp.StatusCode, body)
	}
	return string(body), err
}

func (l *load) reset() { l.asked.Store(0); l.wrong.Store(0); l.broken.Store(0) }

// during has clients ask while something happens, and until each has been answered often enough since then.
func (l *load) during(t *testing.T, what string, often int, happens func()) {
	t.Helper()
	var clients sync.WaitGroup
	happened := make(chan struct{})
	for range 6 {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for left := often; left > 0; {
				for path, want := range l.want {
					l.once(t, what, client, path, want)
					select {
					case <-happened:
						left--
					default:
					}
				}
			}
		})
	}
	happens()
	close(happened)
	clients.Wait()
}

// once asks until there is an answer: whose connection breaks asks again.
func (l *load) once(t *testing.T, what string, client *http.Client, path, want string) {
	l.asked.Add(1)
	for range 100 {
		got, err := l.ask(client, path)
		var broken *net.OpError
		switch {
		case err == nil && got == want:
			return
		case errors.As(err, &broken), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			l.broken.Add(1)
			time.Sleep(20 * time.Millisecond)
		default:
			l.wrong.Add(1)
			t.Errorf("%s: %s: %v %.200s", what, path, err, got)
			return
		}
	}
	l.wrong.Add(1)
	t.Errorf("%s: %s: no answer in 100 attempts", what, path)
}
