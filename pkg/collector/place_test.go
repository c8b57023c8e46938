package collector

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector/node"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// makeSession makes a session's folder with what tells its node.
func makeSession(t *testing.T, dir, name string, id rayid.Node) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Join(dir, name, "logs"), 0o755))
	appendTo(t, filepath.Join(dir, name, "metrics_agent_port_"+id.String()), "1")
}

func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			old, now, later = "session_2026-11-19_00-00-00_000000_1", "session_2026-11-20_00-00-00_000000_1",
				"session_2026-11-21_00-00-00_000000_1"
			bogus = "session_2030-01-01_00-00-00_000000_1"
		)
		running := "" // the session whose raylet runs
		dir := t.TempDir()
		log, logged := logtest.NewNullLogger()
		p := &places{dir: dir, finder: &node.Finder{Dir: dir}, latest: func() string { return running }, log: log}
		scan := func(names ...string) {
			for _, name := range names {
				says.OK(t, says.Err(p.finder.Node(t.Context(), name)))
			}
		}
		check := func(when, session, want string, id byte) {
			t.Helper()
			at, err := p.destinationOf(session)
			if want == "" && err == nil || want != "" && (err != nil || at.Session != want ||
				at.Node != rayid.Node{id}) {
				t.Errorf("%s: events of %q are stored under %s of node %s, %v, want %q", when, session, at.Session,
					at.Node, err, want)
			}
		}
		check("before Ray has started", "", "", 0)
		check("before Ray has started", now, "", 0)
		makeSession(t, dir, old, rayid.Node{1})
		makeSession(t, dir, now, rayid.Node{2})
		says.Equal(t, len(p.absent), 1, "waiting for the folders of %v", p.absent)
		check("before the first scan", now, now, 2)
		scan(now, old) // an old session last
		check("running", now, now, 2)
		check("an old session's last events", old, old, 1)
		check("no session, no session_latest", "", now, 2)
		must.OK(t, os.Symlink(old, filepath.Join(dir, "session_latest")))
		check("no session, the clock went back", "", old, 1)
		running = now
		check("no session, another than session_latest runs", "", now, 2)
		for _, name := range []string{"session_latest", "session_old", "session_backup_2026-11-20"} {
			check("no name of a session", name, now, 2)
		}
		running = ""
		must.OK(t, os.Remove(filepath.Join(dir, "session_latest")))

		check("no folder yet", later, "", 0)
		time.Sleep(absentWait / 2)
		makeSession(t, dir, later, rayid.Node{3})
		check("a folder that was not scanned", later, later, 3)
		scan(later)
		check("its folder has come", later, later, 3)
		must.OK(t, os.RemoveAll(filepath.Join(dir, later)))
		check("its folder is gone", later, later, 3)

		check("a session of nobody", bogus, "", 0)
		time.Sleep(absentWait)
		check("a session of nobody, when no folder came", bogus, later, 3)
		for i := range 2 * maxAbsent {
			_, _ = p.destinationOf(bogus + strconv.Itoa(100+i))
		}
		says.True(t, len(p.absent) <= maxAbsent && len(logged.AllEntries()) <= maxAbsent,
			"waiting for the folders of %d sessions, %d lines in the log", len(p.absent), len(logged.AllEntries()))
		check("too many sessions of nobody", bogus+"2", later, 3)
		must.OK(t, os.Symlink("/etc", filepath.Join(dir, bogus+"3")))
		check("a link is no session's folder", bogus+"3", later, 3)
	})
}

// TestForbiddenSession: events of a session whose folder the collector has no right to read are refused with what to
// do.
func TestForbiddenSession(t *testing.T) {
	const session = "session_2026-11-20_00-00-00_000000_1"
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, session), 0))
	if os.Geteuid() == 0 { // to whom modes do not apply
		must.OK(t, os.Chmod(filepath.Dir(dir), 0o711)) // testing makes it for one user
		must.OK(t, syscall.Seteuid(65534))
		defer func() { must.OK(t, syscall.Seteuid(0)) }()
	}
	p := &places{dir: dir, finder: &node.Finder{Dir: dir}, latest: func() string { return "" }}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("other users may not enter the folder of temporary files: ", err)
	}
	_, err := p.destinationOf(session)
	says.All(t, fmt.Sprint(err), "node's ID", "permission denied", "runAsUser")
}

// TestListeners: events are taken in the pod itself only, probes and metrics are answered to all, and neither port
// takes the other's place.
func TestListeners(t *testing.T) {
	o, _ := options(t, t.TempDir())
	c := start(t, o)
	defer stop(t, c)
	for _, l := range append(c.opts.Servers.events.listeners, c.opts.Servers.metrics.listeners...) {
		tcp, ok := l.Addr().(*net.TCPAddr)
		says.True(t, ok && tcp.IP.IsLoopback(), "%v is no loopback address", l.Addr())
	}
	events, metrics := portOf(c.opts.Servers.events.listeners[0]), portOf(c.opts.Servers.metrics.listeners[0])
	says.True(t, events != metrics, "both are at port %d", events)
	for _, l := range c.opts.Servers.events.listeners {
		url := "http://" + l.Addr().String() + "/v1/events"
		status, _ := get(t, url)
		says.True(t, status == http.StatusMethodNotAllowed, "%v: %d", l.Addr(), status)
		if status, text := try(t, url+"/", []byte("[]")); status != http.StatusOK {
			t.Errorf("%v, with a slash: %d, %s", l.Addr(), status, text)
		}
	}
	if status, _ := try(t, "http://"+c.opts.Servers.MetricsAddr().String()+"/v1/events", []byte("[]")); status !=
		http.StatusNotFound {
		t.Errorf("the port for metrics answers %d to events", status)
	}
}

// TestConnectionsAreBounded: whoever holds more connections than there may be shuts nobody else out, and does not end a
// request whose body is arriving.
func TestConnectionsAreBounded(t *testing.T) {
	o, _ := options(t, t.TempDir())
	c := start(t, o)
	defer stop(t, c)
	for _, s := range []*server{c.opts.Servers.events, c.opts.Servers.metrics} {
		l := s.listeners[0].(*limitedListener)
		posting := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		defer posting.Close()
		must.Get(io.WriteString(posting, "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n"))(t)
		for range maxConnections + 20 {
			must.Get(io.WriteString(posting, "["))(t)
			held := must.Get(net.Dial("tcp", l.Addr().String()))(t)
			defer held.Close()
			must.Get(io.WriteString(held, "GET /healthz HTTP/1.1\r\n"))(t)
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer := must.Get(client.Get("http://" + l.Addr().String() + "/healthz"))(t)
		must.OK(t, answer.Body.Close())
		l.mu.Lock()
		says.True(t, answer.StatusCode == http.StatusOK && l.open.Len() <= maxConnections, "%s: %s, %d connections",
			s.what, answer.Status, l.open.Len())
		l.mu.Unlock()
	}
}

// TestLoopbackHasBothFamilies: localhost is 127.0.0.1 to some and ::1 to others.
func TestLoopbackHasBothFamilies(t *testing.T) {
	var listeners []net.Listener
	must.Happen(t, "that a port is free for both", func() bool {
		var err error
		listeners, err = listen(Loopback, 0)
		return err == nil
	})
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	want := 0
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		if l, err := net.Listen("tcp", address); err == nil {
			want++
			_ = l.Close()
		}
	}
	says.Equal(t, len(listeners), want, "%d listeners, the machine has %d families", len(listeners), want)
	for _, l := range listeners {
		if portOf(l) != portOf(listeners[0]) {
			t.Errorf("%v has another port than %v", l.Addr(), listeners[0].Addr())
		}
	}
}

// TestDashboardMakesNoSessions: what answers on the head's port for the dashboard cannot make up sessions.
func TestDashboardMakesNoSessions(t *testing.T) {
	answers := map[string]string{"/api/version": `{"ray_version":"2.60.0","session_name":"session_bogus"}`,
		"/timezone": `"UTC"`}
	dashboard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := answers[r.URL.String()]; ok {
			_, _ = io.WriteString(w, answer)
			return
		}
		http.NotFound(w, r)
	}))
	defer dashboard.Close()
	o, store := options(t, t.TempDir())
	o.Head, o.Dashboard = true, dashboard.URL
	makeSession(t, o.RayTmpDir, session().Name, rayid.Node{1})
	c := start(t, o)
	stop(t, c)
	for _, key := range store.Keys() {
		says.True(t, !strings.Contains(key, "bogus"), "stored %s", key)
	}
	known, err := os.ReadFile(filepath.Join(o.SpoolDir, "sessions.json"))
	says.True(t, err != nil || !strings.Contains(string(known), "bogus"), "remembered %s", known)
}
