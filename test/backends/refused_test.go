package backends

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/test/faults"
)

const (
	refusedSession = "session_2026-11-20_23-19-45_581717_22125"
	// longCluster makes keys longer than stores take, of paths that the collector takes.
	longCluster = "a-cluster-with-a-name-that-is-as-long-as-Kubernetes-lets-it-be-x"
	// patience is how long a line may take to the store: the machine may be busy, but a line that waits for those
	// refused never gets there.
	patience = 90 * time.Second
)

// refusal is one way in which a store, or what stands before it, does not take some objects.
type refusal struct {
	name string
	// arm sets the proxy up.
	arm func(*faults.Proxy)
	// bad is the path of a log that is not taken, "" where only its size is in the way.
	bad func(i int) string
	// size of these logs, in bytes.
	size int
	// passes: in the end they are stored all the same.
	passes bool
}

var refusals = []refusal{
	{
		name: "keys too long for the server", arm: func(*faults.Proxy) {},
		bad:  func(i int) string { return strings.Repeat(strings.Repeat("d", 109)+"/", 8) + fmt.Sprintf("bad-%d", i) },
		size: 10,
	},
	{
		name: "no right for some keys",
		arm: func(p *faults.Proxy) {
			p.Deny = func(r *http.Request) bool {
				return (r.Method == http.MethodPut || r.Method == http.MethodPost) &&
					strings.Contains(r.URL.String(), "bad-")
			}
		},
		bad: func(i int) string { return fmt.Sprintf("bad-%d", i) }, size: 10,
	},
	{
		name: "bodies too large for a proxy", arm: func(p *faults.Proxy) { p.MaxBody = 1 << 20 },
		bad: func(i int) string { return fmt.Sprintf("large-%d", i) }, size: 3 << 20, passes: true,
	},
}

// TestRefused: six logs that are not taken keep no other from being stored, neither while the collector runs nor at its
// end, which names those that are left.
func TestRefused(t *testing.T) {
	t.Parallel()
	binary := must.Get(collector())(t)
	for _, kind := range guardedKinds {
		for _, refusal := range refusals {
			t.Run(kind.server+", "+refusal.name, func(t *testing.T) {
				want(t, kind.server)
				t.Parallel() // it mostly waits
				refusal.run(t, binary, kind)
			})
		}
	}
}

func (ref refusal) run(t *testing.T, binary string, kind guardedKind) {
	g := kind.start(t, 0, stall)
	store, bucket := g.open(t, g.url)
	ref.arm(g.proxy)
	c := startRefused(t, binary, append(g.flags(g.proxy.URL, bucket), "--storage-create-bucket=true",
		"--ray-cluster-name="+longCluster))
	c.write("good", "the first line\n")
	c.stored(store, "good")
	for i := range 6 {
		c.write(ref.bad(i), strings.Repeat("0123456789\n", ref.size/11+1))
	}
	time.Sleep(10 * time.Second) // in which they are refused, and nothing else grows
	for range 3 {
		c.write("good", "another line\n")
		c.stored(store, "good")
	}
	if ref.passes {
		for i := range 6 {
			c.stored(store, ref.bad(i))
		}
	}
	c.write("good", "the last line\n")
	c.write("late", "a line\n")
	err := c.end()
	c.stored(store, "good")
	c.stored(store, "late")
	var left []string
	for i := range 6 {
		if got, err := c.joined(store, ref.bad(i)); err != nil || got != c.written[ref.bad(i)].String() {
			left = append(left, ref.bad(i))
		}
	}
	t.Logf("%d of 6 are refused", len(left))
	var exit *exec.ExitError
	switch {
	case ref.passes && len(left) > 0:
		t.Errorf("not stored: %.300v", left)
	case len(left) == 0 && err != nil:
		t.Errorf("all is stored, but the collector ends with %v", err)
	case len(left) > 0 && !errors.As(err, &exit):
		t.Errorf("%d logs are left, but the collector ends with %v", len(left), err)
	}
	last := c.log()
	last = last[strings.LastIndex(strings.TrimSuffix(last, "\n"), "\n")+1:]
	for _, name := range left {
		says.True(t, strings.Contains(last, name), "%.50s… is not named in %.300s", name, last)
	}
}

// refusedRig is a collector in a process of its own, and the logs it follows.
type refusedRig struct {
	t       *testing.T
	dir     string
	child   *exec.Cmd
	written map[string]*bytes.Buffer
	node    rayid.Node
}

func startRefused(t *testing.T, binary string, flags []string) *refusedRig {
	t.Helper()
	c := &refusedRig{t: t, dir: t.TempDir(), written: map[string]*bytes.Buffer{},
		node: rayid.Node{0x11, 0xdd, 27: 0x58}}
	must.OK(t, os.MkdirAll(filepath.Join(c.dir, "ray", refusedSession, "logs"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(c.dir, "ray", refusedSession, "metrics_agent_port_"+c.node.String()),
		[]byte("1"), 0o644))
	log := must.Get(os.Create(filepath.Join(c.dir, "collector.log")))(t)
	c.child = exec.Command(binary, append(flags, "--ray-tmp-dir="+filepath.Join(c.dir, "ray"),
		"--spool-dir="+filepath.Join(c.dir, "spool"),
		"--events-port=0", "--metrics-address=localhost", "--metrics-port=0", "--ray-dashboard-address=",
		"--push-interval=1s", "--shutdown-timeout=25s", "--log-level=debug")...)
	c.child.Stdout, c.child.Stderr = log, log
	c.child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.OK(t, c.child.Start())
	t.Cleanup(func() {
		_ = c.child.Process.Kill()
		_ = c.child.Wait()
		_ = log.Close()
		if t.Failed() {
			text := c.log()
			t.Logf("the collector's log ends:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return c
}

func (c *refusedRig) log() string {
	data, _ := os.ReadFile(filepath.Join(c.dir, "collector.log"))
	return string(data)
}

func (c *refusedRig) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, "ray", refusedSession, "logs", name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644); err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
	}
	must.OK(c.t, err)
	if c.written[name] == nil {
		c.written[name] = &bytes.Buffer{}
	}
	c.written[name].WriteString(text)
}

// stored waits until all that was written to a log is stored.
func (c *refusedRig) stored(store blob.Store, name string) {
	c.t.Helper()
	began := time.Now()
	for {
		got, err := c.joined(store, name)
		if err == nil && got == c.written[name].String() {
			return
		}
		if time.Since(began) > patience {
			c.t.Fatalf("%.100s: %d of %d bytes are stored after %v, %v", name, len(got), c.written[name].Len(),
				patience, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// joined is what is stored of a log.
func (c *refusedRig) joined(store blob.Store, name string) (string, error) {
	session := layout.Session{Namespace: "default", Cluster: longCluster, Name: refusedSession}
	whole := layout.LogKey("log", session, c.node, name)
	var objects []blob.Object
	for o, err := range store.List(c.t.Context(), whole, blob.ListOptions{}) {
		if err != nil {
			return "", err
		}
		if parsed, err := layout.ParseObject("log", session, o.Key); err == nil && parsed.Stream == whole {
			objects = append(objects, o)
		}
	}
	var all strings.Builder
	for _, o := range objects {
		r, err := store.Get(c.t.Context(), o.Key, 0, -1)
		if err != nil {
			return "", err
		}
		var data bytes.Buffer
		_, err = data.ReadFrom(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return "", err
		}
		all.Write(data.Bytes())
	}
	return all.String(), nil
}

// end ends the collector as Kubernetes does.
func (c *refusedRig) end() error {
	must.OK(c.t, c.child.Process.Signal(syscall.SIGTERM))
	return c.child.Wait()
}
