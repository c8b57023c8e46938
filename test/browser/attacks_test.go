package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/test/servers/openid"
)

const session = "session_2026-11-20_23-19-45_581717_22125"

// stage is a history server with two stored sessions, a running cluster whose head is hostile, and another site.
type stage struct {
	server, data string // address without a scheme, folder
	site         string // address of the other site, without a scheme
	head         *head
}

// head is the dashboard of a running cluster, whose owner tries to act on the history server's origin.
type head struct {
	mu   sync.Mutex
	seen []string // method and path
}

func (h *head) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.seen = append(h.seen, r.Method+" "+r.URL.Path)
	h.mu.Unlock()
	header := w.Header()
	header.Set("Service-Worker-Allowed", "/")
	switch r.URL.Path {
	case "/evil.html":
		header.Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusEarlyHints) // which once took the answer's other headers with it
		_, _ = io.WriteString(w, `<title>calm</title><script>document.title = "owned"; document.cookie = "owned=1"</script>`)
	case "/sw.js", "/page.js":
		header.Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, `self.owned = true`)
	case "/api/away":
		http.Redirect(w, r, "http://evil.example/", http.StatusFound)
	case "/api/grafana_health":
		_, _ = io.WriteString(w, `{"result":true,"data":{"grafanaHost":"javascript:void(top.name='owned')//"}}`)
	case "/api/kept":
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = io.WriteString(w, "kept")
	case "/api/clear":
		header.Set("Content-Type", "text/plain")
		header.Set("Clear-Site-Data", `"*"`)
		header.Set("Set-Cookie", "session_name=owned; Path=/")
	case "/api/jobs/x/logs/tail":
		if ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}); err == nil {
			_ = ws.Write(r.Context(), websocket.MessageText, []byte("secret"))
			_ = ws.Close(websocket.StatusNormalClosure, "")
		}
	}
}

// count is how many requests began with what is given.
func (h *head) count(prefix string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.seen {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// frontend stands for the dashboard: a page that frames what is said to be Grafana, as Ray's does, and asks on a click,
// relative to itself and, as one version of Ray's does, from the root. Nobody can click before its script has come.
const frontend = `<html><head></head><body><button id="ask" hidden>ask</button><pre id="said"></pre><script
src="static/js/ask.js"></script></body></html>`

const frontendScript = `
ask.onclick = async () => {
  said.textContent = "";
  const path = "api/v0/logs/file?filename=raylet.out&node_id=%[1]s";
  const texts = await Promise.all([fetch(path), fetch("/" + path)].map(async answer => (await answer).text()));
  said.textContent = texts.map(text => text.trim()).join(" and ");
};
ask.hidden = false;
fetch("api/grafana_health").then(answer => answer.json()).then(({ data }) => {
  if (!data?.grafanaHost) return;
  const frame = document.createElement("iframe"), link = document.createElement("a");
  frame.src = link.href = data.grafanaHost + "/d-solo/default";
  link.textContent = "View in Grafana";
  document.body.append(frame, link);
});`

func prepare(t *testing.T, flags ...string) *stage {
	t.Helper()
	return prepareAt(t, freeport.Address(t), flags...)
}

// prepareAt is prepare with the server's address.
func prepareAt(t *testing.T, address string, flags ...string) *stage {
	t.Helper()
	s := &stage{data: t.TempDir(), head: new(head), server: address}
	dashboards := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(content), 0o600))
	}
	node := rayid.Node{1}
	write(filepath.Join(dashboards, "v2.60.0", "index.html"), frontend)
	write(filepath.Join(dashboards, "v2.60.0", "static", "js", "ask.js"), fmt.Sprintf(frontendScript, node))
	for _, cluster := range []string{"one", "two"} {
		ref := layout.Session{Namespace: "default", Cluster: cluster, Name: session}
		write(filepath.Join(s.data, layout.MarkerKey(layout.DefaultRoot, ref)), "")
		write(filepath.Join(s.data, layout.LogKey(layout.DefaultRoot, ref, node, "raylet.out")), "log of "+cluster+"\n")
	}
	running := httptest.NewServer(s.head)
	t.Cleanup(running.Close)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>another site</title>")
	}))
	t.Cleanup(other.Close)
	s.site = other.Listener.Addr().String()

	modules(t)
	p := exec.Command(build(t), append([]string{"--listen", s.server, "--storage-backend", "local", "--local-dir", s.data,
		"--dashboard-dir", dashboards, "--catalog-interval=1s",
		"--live=proxy", "--live-writes", "--kubeconfigs", kubernetes(t, running.Listener.Addr()),
		"--allowed-hosts=history.test"}, flags...)...)
	p.Stderr = os.Stderr
	must.OK(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGTERM)
		_ = p.Wait()
	})
	waitReady(t, "http://"+s.server)
	return s
}

// waitForHead waits until requests reach the running cluster: a server that is ready may not know it yet.
func (s *stage) waitForHead(t *testing.T) {
	t.Helper()
	const path = "/api/known"
	must.Happen(t, "that the running cluster is known", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+s.server+"/namespaces/default/clusters/lab/sessions/live"+path, nil)
		must.OK(t, err)
		r.Header.Set("Authorization", "Bearer ann")
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
		return s.head.count("GET "+path) > 0
	})
}

func port(address string) string { return address[strings.LastIndex(address, ":"):] }

// attacked is what attacks.js reports: what each attempt came to, by its name.
type attacked struct{ Attempts map[string]string }

// TestAttacks: what pages of other sites and a running cluster's head try in a signed-in person's browser comes to
// nothing, and the same done by the server's own page does, so that the attempts are real. As 127.0.0.1 a browser tells
// where requests come from (Sec-Fetch-Site); by a name over plain HTTP it gives the Origin only.
func TestAttacks(t *testing.T) {
	for mode, flags := range map[string][]string{"off": nil, "kubernetes": {"--auth=kubernetes"}} {
		t.Run(mode, func(t *testing.T) {
			s := prepare(t, flags...)
			s.waitForHead(t)
			for _, host := range []string{"127.0.0.1", "history.test"} {
				t.Run(host, func(t *testing.T) {
					var got attacked
					run(t, "attacks.js", object{
						"do": "attack", "server": "http://" + host + port(s.server),
						"token": map[bool]string{true: "ann"}[mode != "off"],
						"sites": []string{"http://evil.example" + port(s.site),
							"http://sub.history.test" + port(s.site)},
						"rebind": "http://evil.example" + port(s.server),
					}, &got)
					want := map[string]string{
						"own page: POST": "200", "own page: WebSocket": "secret",
						"evil.html": "calm", "Grafana": "not run", "script": "not run",
						"away": "stays", "https: session": "stays",
						"clear": "cookies stay", "still signed in": "yes",
					}
					if mode == "off" {
						want["rebound"] = "403"
					}
					if host == "127.0.0.1" { // there are none elsewhere without HTTPS
						want["service worker"] = "refused"
					}
					for _, site := range []string{"evil.example", "sub.history.test"} {
						for _, attempt := range []string{"fetch", "form", "logout", "logout form"} {
							want[site+": "+attempt] = "sent"
						}
						want[site+": WebSocket to the running cluster"],
							want[site+": WebSocket to a stored session"] = "refused", "refused"
					}
					for name, result := range want {
						says.Equal(t, got.Attempts[name], result, name)
					}
				})
			}
			// One of each server name's own page.
			says.Equal(t, s.head.count("POST"), 2, "the running cluster POSTs, want 2: %q", s.head.seen)
			says.Equal(t, s.head.count("GET /api/jobs/x/logs/tail"), 2, "the running cluster WebSockets")
			n := s.head.count("GET /api/kept")
			says.True(t, n == 4, "of 4 requests %d reached the running cluster: a browser kept its answer", n)
		})
	}
}

// TestTwoTabs: two sessions entered from the list stay apart, whichever tab is used in between.
func TestTwoTabs(t *testing.T) {
	s := prepare(t)
	var got struct {
		URLs map[string]string
		Said []string
		List string
	}
	run(t, "attacks.js", object{"do": "tabs", "server": "http://" + s.server, "clusters": []string{"one", "two"}}, &got)
	for _, cluster := range []string{"one", "two"} {
		if want := "http://" + s.server + "/namespaces/default/clusters/" + cluster + "/sessions/" + session +
			"/"; got.URLs[cluster] != want {
			t.Errorf("entering %s leads to %s, want %s", cluster, got.URLs[cluster], want)
		}
	}
	var want []string
	for range 3 {
		want = append(want, "one: log of one and log of one", "two: log of two and log of two")
	}
	says.Equal(t, strings.Join(got.Said, "\n"), strings.Join(want, "\n"), "the tabs said")
	says.True(t, strings.Contains(got.List, "Enter Cluster Dashboard"), "/ is no list: %.300s", got.List)
}

// TestSigningInKeepsTheWay: a link to a page of the dashboard survives signing in, a wrong token and signing out.
func TestSigningInKeepsTheWay(t *testing.T) {
	s := prepare(t, "--auth=kubernetes")
	var got struct {
		Asked, Wrong, In, Out, Again string
		Refused                      []string // by the pages' policies
	}
	audit(t, "http://"+s.server, []audited{{"sign in", "/login", "form"}, {"sign in again", "/login?failed=1", "form"}})
	link := "http://" + s.server + "/namespaces/default/clusters/one/sessions/" + session +
		"/?dashboard=2.60.0#/jobs/02000000?tab=a"
	run(t, "attacks.js", object{"do": "login", "server": "http://" + s.server, "link": link, "token": "ann"}, &got)
	says.Equal(t, got.In, link, "signed in at")
	for what, url := range map[string]string{"asked": got.Asked, "with a wrong token": got.Wrong, "signed out": got.Out,
		"after that": got.Again} {
		says.True(t, strings.HasPrefix(url, "http://"+s.server+"/login"), "%s: %s", what, url)
	}
	says.True(t, len(got.Refused) == 0, "%q", got.Refused)
}

// TestSigningInWithOpenID: a link to a page of the dashboard survives signing in with an OpenID provider, which is
// another site.
func TestSigningInWithOpenID(t *testing.T) {
	address, rules := freeport.Address(t), filepath.Join(t.TempDir(), "namespaces.yaml")
	server := "http://history.test" + port(address)
	issuer := openid.Start(t, map[string][]string{"ann": {"team-a"}},
		map[string]string{"history": server + "/oidc/callback"})
	must.OK(t, os.WriteFile(rules, []byte("- group: team-a\n  namespaces: [default]\n"), 0o600))
	t.Setenv("RAYHISTORY_OIDC_CLIENT_SECRET", openid.Secret)
	prepareAt(t, address, "--auth=oidc", "--oidc-issuer-url="+issuer, "--oidc-client-id=history",
		"--oidc-redirect-url="+server+"/oidc/callback", "--oidc-namespaces-file="+rules)
	var got struct {
		Asked, Provider, In, Said, Out, Again string
		Cookies, Refused                      []string
	}
	link := server + "/namespaces/default/clusters/one/sessions/" + session + "/?dashboard=2.60.0#/jobs/02000000?tab=a"
	run(t, "attacks.js", object{"do": "openid", "server": server, "link": link, "user": "ann",
		"password": openid.Password}, &got)
	says.True(t, got.In == link && got.Said == "log of one and log of one", "signed in at %s, want %s; it says %q",
		got.In, link, got.Said)
	says.True(t, strings.HasPrefix(got.Provider, issuer), "sent to %s to sign in", got.Provider)
	for what, url := range map[string]string{"asked": got.Asked, "signed out": got.Out, "after that": got.Again} {
		says.True(t, strings.HasPrefix(url, server+"/login"), "%s: %s", what, url)
	}
	want := []string{"history_session true Lax", "history_signin true Lax"}
	says.True(t, slices.Equal(got.Cookies, want), "cookies %q, want %q", got.Cookies, want)
	says.True(t, len(got.Refused) == 0, "%q", got.Refused)
}

// TestRemovedSession: a page that is open while its session is removed says so.
func TestRemovedSession(t *testing.T) {
	s := prepare(t)
	var got struct{ Before, After string }
	run(t, "attacks.js", object{
		"do": "removed", "page": "http://" + s.server + "/namespaces/default/clusters/one/sessions/" + session + "/",
		"remove": filepath.Dir(filepath.Join(s.data, layout.MarkerKey(layout.DefaultRoot,
			layout.Session{Namespace: "default", Cluster: "one", Name: session}))),
	}, &got)
	says.True(t, got.Before == "" && strings.Contains(got.After, "no longer stored"), "the bar says %q, then %q",
		got.Before, got.After)
}
