package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const (
	session = "session_2026-11-20_23-19-45_581717_22125"
	a       = "11ddada2522c973b78d21316e6e058f54500e29f808a1ee396c6e558"
	b       = "14b1c508611d2008077d0714613cb3f52e6aae4d0f01718a64385287"
	c       = "65976f1a5e43d47c5c38a18d01472badef520e755b01f93df1534b33"
)

func TestNode(t *testing.T) {
	const answer = `{"result":true,"msg":"","data":{"result":{"total":2,"result":[
		{"node_id":"` + a + `","node_ip":"10.0.0.1","state":"ALIVE"},{"node_id":"` + c + `","node_ip":"10.0.0.2","state":"DEAD"},{"node_id":"` + b + `","node_ip":"10.0.0.2","state":"ALIVE"}]}}}`
	dashboard := func(context.Context, string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(answer)), nil
	}
	down := func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("connection refused") }
	for name, test := range map[string]struct {
		files []string // in the order they are written
		hook  string
		head  bool
		get   func(context.Context, string) (io.ReadCloser, error)
		ip    string
		want  string
	}{
		"one node": {files: []string{"metrics_agent_port_" + a, "dashboard_agent_listen_port_" + a},
			want: a},
		"other ports only":       {files: []string{"dashboard_agent_listen_port_" + b}, want: b},
		"restarted raylet":       {files: []string{"metrics_agent_port_" + b, "metrics_agent_port_" + a}, want: a},
		"agent over other ports": {files: []string{"metrics_agent_port_" + a, "runtime_env_agent_port_" + b}, want: a},
		"head of one machine": {files: []string{"gcs_server_port_" + a, "metrics_agent_port_" + a,
			"metrics_agent_port_" + b}, head: true, want: a},
		"worker of one machine": {files: []string{"gcs_server_port_" + a, "metrics_agent_port_" + a,
			"metrics_agent_port_" + b}, want: b},
		"foreign names": {files: []string{"metrics_agent_port_../../x", "x_port_12",
			"metrics_agent_port_" + strings.Repeat("f", 56), "node_ip_address.json"}, want: ""},
		"hook":                    {hook: b + "\n", want: b},
		"damaged hook":            {hook: "nonsense", want: ""},
		"dashboard":               {get: dashboard, ip: "10.0.0.2", want: b},
		"dashboard without it":    {get: dashboard, ip: "10.0.0.3", want: ""},
		"dashboard not reachable": {get: down, ip: "10.0.0.2", want: ""},
		"nothing":                 {want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Finder{Dir: t.TempDir(), Head: test.head, Get: test.get, IP: test.ip}
			must.OK(t, os.MkdirAll(filepath.Join(f.Dir, session, "sockets"), 0o755))
			for i, name := range test.files {
				path := filepath.Join(f.Dir, session, filepath.Base(name))
				must.OK(t, os.WriteFile(path, []byte("1"), 0o644))
				written := time.Unix(1e9+int64(i), 0)
				must.OK(t, os.Chtimes(path, written, written))
			}
			if test.hook != "" {
				must.OK(t, os.WriteFile(filepath.Join(f.Dir, "raylet_node_id"), []byte(test.hook), 0o644))
			}
			got, err := f.Node(t.Context(), session)
			says.True(t, (err != nil) == (test.want == "") && (err != nil || got.String() == test.want),
				"got %s, %v, want %q", got, err, test.want)
			known, ok := f.Cached(session)
			says.True(t, ok == (test.want != "") && (!ok || known == got), "known is %s, %t", known, ok)
		})
	}
}

// TestClockSetBack: a raylet that is restarted after the node's clock was set back is the one that runs, though its
// files seem to be older; also after another look.
func TestClockSetBack(t *testing.T) {
	f := &Finder{Dir: t.TempDir()}
	must.OK(t, os.MkdirAll(filepath.Join(f.Dir, session), 0o755))
	for i, id := range []string{a, c, b} {
		path := filepath.Join(f.Dir, session, "metrics_agent_port_"+id)
		must.OK(t, os.WriteFile(path, []byte("1"), 0o644))
		written := time.Unix(1e9-int64(i)*3600, 0)
		must.OK(t, os.Chtimes(path, written, written))
		for range 2 {
			got, err := f.Here(session)
			says.True(t, err == nil && got.String() == id, "got %s, %v, want %s", got, err, id)
		}
	}
}

func TestRecordedTrees(t *testing.T) {
	r := recording.Open(t)
	for name, want := range map[string]string{"head": a, "w1": b, "w2": c} {
		f := &Finder{Dir: r.TmpRay(name), Head: name == "head"}
		got, err := f.Node(t.Context(), session)
		says.True(t, err == nil && got.String() == want, "%s: %s, %v", name, got, err)
	}
}

// TestManySessions: of more sessions than are remembered, the one that was found last is, however old it is.
func TestManySessions(t *testing.T) {
	f := &Finder{}
	for i := 2 * maxSessions; i > 0; i-- {
		name := fmt.Sprintf("session_2026-11-20_00-00-00_%06d_1", i)
		f.rememberNode(name, rayid.Node{1})
		_, ok := f.Cached(name)
		must.True(t, ok, "the node of %s is forgotten", name)
	}
	says.Equal(t, len(f.nodes), maxSessions, "sessions are remembered")
}

func TestDashboardIsNotAskedOften(t *testing.T) {
	asked := 0
	f := &Finder{Dir: t.TempDir(), IP: "10.0.0.1", Get: func(context.Context, string) (io.ReadCloser, error) {
		asked++
		return nil, errors.New("busy")
	}}
	for range 3 {
		says.ErrorIs(t, says.Err(f.Node(t.Context(), session)), errUnknown)
	}
	says.Equal(t, asked, 1, "asked")
}

// TestHostileFiles: whoever may write to Ray's temporary folder can put anything where the node's ID is looked for.
func TestHostileFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(secret, []byte("hunter2"), 0o600))
	id := filepath.Join(t.TempDir(), "id")
	must.OK(t, os.WriteFile(id, []byte(a), 0o600))
	away := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(away, "metrics_agent_port_"+a), nil, 0o600))
	link := func(to, name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			must.OK(t, os.Symlink(to, filepath.Join(dir, name)))
		}
	}
	fifo := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			must.OK(t, syscall.Mkfifo(filepath.Join(dir, name), 0o644))
		}
	}
	for name, put := range map[string]func(*testing.T, string){
		"endless":          link("/dev/zero", "raylet_node_id"),
		"another's secret": link(secret, "raylet_node_id"),
		"an ID elsewhere":  link(id, "raylet_node_id"),
		"a FIFO":           fifo("raylet_node_id"),
		"a folder": func(t *testing.T, dir string) {
			_ = os.Mkdir(filepath.Join(dir, "raylet_node_id"),
				0o755)
		},
		"too long": func(t *testing.T, dir string) {
			must.OK(t, os.WriteFile(filepath.Join(dir, "raylet_node_id"), []byte(a+strings.Repeat("\n", 1<<20)), 0o644))
		},
		"its content": func(t *testing.T, dir string) {
			must.OK(t, os.WriteFile(filepath.Join(dir, "raylet_node_id"), []byte("hunter2"), 0o644))
		},
		"a session that is a FIFO":         fifo(session),
		"a session that is a link":         link(away, session),
		"a session that is a link to root": link("/", session),
	} {
		t.Run(name, func(t *testing.T) {
			f := &Finder{Dir: t.TempDir()}
			put(t, f.Dir)
			done := make(chan error, 1)
			go func() {
				node, err := f.Node(context.Background(), session)
				if err == nil {
					err = fmt.Errorf("found %s", node)
				} else if !strings.Contains(err.Error(), "hunter2") {
					err = nil
				}
				done <- err
			}()
			select {
			case err := <-done:
				says.OK(t, err)
			case <-time.After(5 * time.Minute):
				t.Error("it waits for ever")
			}
		})
	}
}

// TestManyNodesOfTheDashboard: its answer is read as far as it can be one.
func TestManyNodesOfTheDashboard(t *testing.T) {
	for name, answer := range map[string]string{
		"many nodes": `{"data":{"result":{"result":[` + strings.Repeat(`{},`, answer.MaxNodes) + `{"node_id":"` + a +
			`","node_ip":"10.0.0.1","state":"ALIVE"}]}}}`,
		"deep":       strings.Repeat(`[`, 1<<20),
		"deep below": `{"data":{"x":` + strings.Repeat(`[`, 1<<20),
		"no list":    `{"data":7}`,
	} {
		f := &Finder{Dir: t.TempDir(), IP: "10.0.0.1", Get: func(context.Context, string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(answer)), nil
		}}
		got, err := f.Node(t.Context(), session)
		says.True(t, errors.Is(err, errUnknown), "%s: %s, %v", name, got, err)
	}
}

// TestOldSessions: a scan asks for the nodes of all sessions, also of those that are over, whose events come no more.
func TestOldSessions(t *testing.T) {
	const old = "session_2026-11-19_00-00-00_000000_1"
	f := &Finder{Dir: t.TempDir()}
	for name, id := range map[string]string{old: a, session: b} {
		must.OK(t, os.Mkdir(filepath.Join(f.Dir, name), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(f.Dir, name, "metrics_agent_port_"+id), nil, 0o644))
	}
	for _, scanned := range []string{old, session, old} {
		must.Get(f.Node(t.Context(), scanned))(t)
		node, ok := f.Cached(session)
		says.True(t, scanned == old || ok && node.String() == b, "events of %s are of node %s, %t", session, node, ok)
	}
	if node, ok := f.Cached(session); !ok || node.String() != b {
		t.Errorf("after the scan of an old session: %s, %t", node, ok)
	}
	for i := range 2 * maxSessions {
		name := fmt.Sprintf("session_2026-11-18_%06d", i)
		must.OK(t, os.Mkdir(filepath.Join(f.Dir, name), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(f.Dir, name, "metrics_agent_port_"+a), nil, 0o644))
		must.Get(f.Node(t.Context(), name))(t)
	}
	if _, ok := f.Cached(session); !ok || len(f.nodes) > maxSessions {
		t.Errorf("%d sessions are remembered, the newest: %t", len(f.nodes), ok)
	}
}

func TestRaylets(t *testing.T) {
	// other packages' tests have raylets in the kernel's list, too
	session := fmt.Sprintf("session_2026-11-20_23-19-45_581717_%d", os.Getpid())
	// t.TempDir is too long a path for a socket
	tmp := must.Get(os.MkdirTemp("", "a ray"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	sockets := filepath.Join(tmp, session, "sockets")
	must.OK(t, os.MkdirAll(sockets, 0o755))
	check := func(when string, want bool) {
		t.Helper()
		if running, err := Raylets(); err != nil || (running[session] == tmp) != want {
			t.Errorf("%s: %v, %v", when, running, err)
		}
	}
	check("before it is started", false)
	// a raylet that comes after a killed one has a name of its own
	for _, name := range []string{"raylet", "raylet.1"} {
		listener := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(sockets, name), Net: "unix"}))(t)
		listener.SetUnlinkOnClose(false) // a killed process leaves its socket's file
		check(name+" runs", true)
		must.OK(t, listener.Close())
		check(name+" has ended", false)
	}
}

func TestListening(t *testing.T) {
	const run = "session_2026-11-20_23-19-45_581717_1"
	line := func(flags, path string) string {
		return "0000000000000000: 00000002 00000000 " + flags + " 0001 01 35051 " + path
	}
	list := strings.Join([]string{
		"Num       RefCount Protocol Flags    Type St Inode Path",
		line("00010000", "/tmp/ray/"+run+"/sockets/raylet"),
		line("00010000", "/my files/ray/"+run+"2/sockets/raylet.12"),
		line("00000000", "/tmp/ray/"+run+"3/sockets/raylet"), // a connection, not a listener
		line("00010000", "/tmp/ray/"+run+"4/sockets/plasma_store"),
		line("00010000", "/tmp/ray/"+run+"5/raylet"),
		line("00010000", "/tmp/ray/session_latest/sockets/raylet"),
		line("00010000", "@/tmp/"+run+"6"),
		line("00010000", ""),
		line("00010000", "raylet"),
	}, "\n")
	got, err := rayletSockets(strings.NewReader(list))
	want := map[string]string{run: "/tmp/ray", run + "2": "/my files/ray"}
	says.True(t, err == nil && maps.Equal(got, want), "%q, %v", got, err)
}

func TestIsSession(t *testing.T) {
	const session = "session_2026-11-20_23-19-45_581717_22125"
	for name, want := range map[string]bool{
		session: true, "session_2026-11-20_23-19-45_000000_1": true, "session_2026-11-20_23-19-45_581717_4194304": true,
		session + ".bak": false, session + " (copy)": false, session + ".tar": false, session + "_old": false,
		session + "-2": false, "old_" + session: false, session + "\n": false, "session_latest": false,
		"session_2026-11-20_23-19-45_581717_": false, "session_2026-11-20_23-19-45_581717": false,
		"session_2026-11-20_23-19-45_58171_22125": false, "session_2026-02-30_23-19-45_581717_22125": false,
	} {
		says.Equal(t, IsSession(name), want, "%q: %t", name, !want)
	}
}
