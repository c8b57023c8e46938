// Package browser has the Ray Dashboard's own builds show recorded sessions in Chromium.
// It opens the server's own pages, and asks axe-core whether they can be used with assistive technology.
// It has other sites and the heads of running clusters attack the history server, too, in a browser that is signed in.
//
// It needs Chromium and Node; it gets the builds out of Ray's wheels by scripts/dashboard.sh, once, into
// build/dashboard.
package browser

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// builds are the dashboards' Ray versions, by the recording of that version.
var builds = map[string]string{"ray-2.55": "2.55.1", "ray-2.57": "2.57.0", "ray-2.60": "2.60.0",
	"ray-2.60-wide": "2.60.0"}

// repository is the root of the source tree.
const repository = "../.."

// shown is a history server over all recordings, whose tests share it.
type shown struct {
	URL      string
	Sessions map[string]layout.Session // by the recording's name
}

var (
	sharedOnce sync.Once
	shared     *shown
	process    *exec.Cmd
	scratch    string
)

func TestMain(m *testing.M) {
	code := m.Run()
	if process != nil {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
	}
	if scratch != "" {
		_ = os.RemoveAll(scratch)
	}
	os.Exit(code)
}

// server starts the history server on the first call.
func server(t *testing.T) *shown {
	t.Helper()
	sharedOnce.Do(func() { shared = serve(t) })
	must.True(t, shared != nil, "the history server did not start: see the first test")
	return shared
}

func serve(t *testing.T) *shown {
	t.Helper()
	scratch = must.Get(os.MkdirTemp("", "rayhistory-browser-"))(t)
	s := &shown{Sessions: map[string]layout.Session{}}
	for name, version := range builds {
		command(t, filepath.Join(repository, "scripts", "dashboard.sh"), version,
			filepath.Join(repository, "build", "dashboard"))
		a := must.Get(recording.Find(name))(t)
		s.Sessions[name] = must.Get(a.Session())(t)
		must.OK(t, a.WriteStore(filepath.Join(scratch, "data")))
		if name == withMetrics {
			writeMetrics(t, a, s.Sessions[name], filepath.Join(scratch, "data"))
		}
	}
	modules(t)
	binary := build(t)
	listen := freeport.Address(t)
	process = exec.Command(binary, "--listen", listen, "--storage-backend", "local", "--local-dir",
		filepath.Join(scratch, "data"),
		"--dashboard-dir", filepath.Join(repository, "build", "dashboard"))
	process.Stderr = os.Stderr
	must.OK(t, process.Start())
	waitReady(t, "http://"+listen)
	s.URL = "http://" + listen
	return s
}

// modules installs what drives Chromium, if it is not there.
func modules(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("node_modules", "axe-core")); err != nil {
		command(t, "npm", "ci", "--no-audit", "--no-fund")
	}
}

// waitReady waits until a history server that was started is ready.
func waitReady(t *testing.T, url string) {
	t.Helper()
	must.Happen(t, "that the history server is ready", func() bool { return answers(url + "/readyz") })
}

// build makes the history server's binary and gives its path, which is always the same: so it is linked once.
func build(t *testing.T) (binary string) {
	t.Helper()
	binary = must.Get(filepath.Abs(filepath.Join(repository, "build", "browser", "historyserver")))(t)
	build := exec.Command("go", "build", "-o", binary, "./cmd/historyserver")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	return binary
}

func command(t *testing.T, name string, arguments ...string) {
	t.Helper()
	if out, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %s\n%s", name, arguments, err, out)
	}
}

func answers(url string) bool {
	response, err := http.Get(url)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Base is the address of a recorded session.
func (s *shown) Base(name string) string {
	ref := s.Sessions[name]
	return s.URL + "/namespaces/" + ref.Namespace + "/clusters/" + ref.Cluster + "/sessions/" + ref.Name
}

// page is one page that visit.js opens, see there.
type page struct {
	Name  string   `json:"name"`
	Path  string   `json:"path"`
	Click []string `json:"click,omitempty"`
	Press []string `json:"press,omitempty"`
	Keys  []string `json:"keys,omitempty"`
	Wait  string   `json:"wait,omitempty"`
}

// job is what visit.js is given.
type job struct {
	Base  string `json:"base"`
	Out   string `json:"out,omitempty"`
	All   bool   `json:"all,omitempty"`
	Ahead int64  `json:"ahead,omitempty"` // ms
	Width int    `json:"width,omitempty"`
	Pages []page `json:"pages"`
}

// visited is what visit.js reports.
type visited struct {
	Pages []struct {
		Name, Text, URL string
		Missing         []string
	}
	Errors []struct{ Page, Message string }
}

// visit opens pages in Chromium. BROWSER_SCREENSHOTS is a folder to keep a picture of each in.
func visit(t *testing.T, j job) (seen visited) {
	t.Helper()
	if dir := os.Getenv("BROWSER_SCREENSHOTS"); dir != "" {
		j.Out, j.All = filepath.Join(dir, t.Name()), true
	}
	run(t, "visit.js", j, &seen)
	must.True(t, len(seen.Pages) == len(j.Pages), "%d pages of %d were opened", len(seen.Pages), len(j.Pages))
	return seen
}

func run(t *testing.T, script string, job, report any) {
	t.Helper()
	in, err := json.Marshal(job)
	must.OK(t, err)
	cmd := exec.CommandContext(t.Context(), "node", script)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must.OK(t, err, script)
	must.OK(t, json.Unmarshal(out, report), script)
}

// get asks the history server for JSON.
func get(t *testing.T, url string, answer any) {
	t.Helper()
	response := must.Get(http.Get(url))(t)
	defer response.Body.Close()
	must.True(t, response.StatusCode == http.StatusOK, "%s: %s", url, response.Status)
	must.OK(t, json.NewDecoder(response.Body).Decode(answer), url)
}
