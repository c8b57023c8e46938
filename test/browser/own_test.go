package browser

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// own is a history server whose own pages are looked at, with a stand-in for a dashboard: of a cluster whose jobs
// failed, one whose jobs succeeded and one with metrics.
type own struct {
	URL             string
	Failed, Metrics string // paths of sessions
	Node            string // of the failed cluster
	Other           string // namespace/cluster/session of the one with metrics
	Named           string // path of a session whose job has a name
}

// The recorded clusters of jobs-2.60 and fine-2.60.
const failedCluster, fineCluster = "jobs260", "fine260"

func serveOwn(t *testing.T) own {
	t.Helper()
	modules(t)
	dir := t.TempDir()
	data, builds := filepath.Join(dir, "data"), filepath.Join(dir, "builds")
	must.OK(t, os.Mkdir(data, 0o755))
	var o own
	for _, name := range []string{"jobs-2.60", "fine-2.60"} {
		must.OK(t, recording.Unpack(filepath.Join(repository, "pkg", "findings", "testdata", name+".tar.gz"), data))
	}
	logs, err := filepath.Glob(filepath.Join(data, "log", failedCluster+"_cases", "session_*", "logs", "*"))
	must.True(t, err == nil && len(logs) != 0, "there are no logs: %v", err)
	ref := layout.Session{Namespace: "cases", Cluster: failedCluster,
		Name: filepath.Base(filepath.Dir(filepath.Dir(logs[0])))}
	o.Node, o.Failed = filepath.Base(logs[0]), pathOf(ref)
	writeLong(t, logs[0])
	a, err := recording.Find(withMetrics)
	must.OK(t, err)
	must.OK(t, a.WriteStore(data))
	ref = must.Get(a.Session())(t)
	writeMetrics(t, a, ref, data)
	o.Named = writeNamed(t, data)
	o.Metrics, o.Other = pathOf(ref), ref.String()
	index := filepath.Join(builds, "v2.60.0", "index.html")
	must.OK(t, os.MkdirAll(filepath.Dir(index), 0o755))
	const page = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Ray Dashboard</title></head><body><main><h1>Ray Dashboard</h1></main></body></html>`
	must.OK(t, os.WriteFile(index, []byte(page), 0o600))
	binary := build(t)
	command(t, binary, "index", "--all", "--quiet=1ns", "--storage-backend=local", "--local-dir="+data)
	o.URL, _ = launch(t, binary, data, builds)
	return o
}

// The job of the session that writeNamed stores.
const namedJob, namedSubmission = "quarterly-report", "raysubmit_Browser1"

// writeNamed stores a small session that has ended, and whose only job has a name.
func writeNamed(t *testing.T, data string) string {
	t.Helper()
	ref := layout.Session{Namespace: "cases", Cluster: "named", Name: "session_2026-11-20_08-00-00_000000_1"}
	job := fmt.Sprintf(`[{"job_id": "01000000", "submission_id": %q, "status": "SUCCEEDED", "entrypoint": "python report.py", "metadata": {"job_name": %q}}]`, namedSubmission, namedJob)
	for key, body := range map[string]string{
		layout.MarkerKey(layout.DefaultRoot, ref):                 "",
		layout.MetadataKey(layout.DefaultRoot, ref, layout.End):   `{"end": "2026-11-20T09:00:00Z"}`,
		layout.SnapshotKey(layout.DefaultRoot, ref, "/api/jobs/"): job,
	} {
		path := filepath.Join(data, key)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(body), 0o600))
	}
	return pathOf(ref)
}

func pathOf(ref layout.Session) string {
	return "/namespaces/" + ref.Namespace + "/clusters/" + ref.Cluster + "/sessions/" + ref.Name
}

// launch starts a history server and waits until it is ready. It ends with the test.
func launch(t *testing.T, binary, data, builds string) (url string, pid int) {
	t.Helper()
	listen := freeport.Address(t)
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	must.OK(t, os.WriteFile(prices,
		[]byte("{currency: USD, cpu: 0.04, memory: 0.005, budgets: [{namespace: '*', month: 5}]}"), 0o600))
	server := exec.Command(binary, "--listen", listen, "--storage-backend", "local", "--local-dir", data,
		"--dashboard-dir", builds, "--prices", prices)
	server.Stderr = os.Stderr
	must.OK(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	})
	base := "http://" + listen
	waitReady(t, base)
	return base, server.Process.Pid
}

// TestOwnPages opens pages of the history server's own.
func TestOwnPages(t *testing.T) {
	o := serveOwn(t)
	waitForOutcomes(t, o, map[string]string{failedCluster: "failed", fineCluster: "succeeded"})
	t.Run("from the list to the cause", func(t *testing.T) { fromListToCause(t, o) })
	t.Run("the way", func(t *testing.T) { theWay(t, o) })
	t.Run("found in one search", func(t *testing.T) { foundInOneSearch(t, o) })
	t.Run("narrow", func(t *testing.T) { narrow(t, o) })
	t.Run("reading logs", func(t *testing.T) { readLogs(t, o) })
	t.Run("searching logs", func(t *testing.T) { searchLogs(t, o) })
	t.Run("zooming metrics", func(t *testing.T) { zoomMetrics(t, o) })
	t.Run("timeline", func(t *testing.T) { readTimeline(t, o) })
	t.Run("framed", func(t *testing.T) { framed(t, o) })
	t.Run("other answers", func(t *testing.T) { otherAnswers(t, o) })
	t.Run("every link", func(t *testing.T) { everyLink(t, o) })
	t.Run("accessible", func(t *testing.T) { accessible(t, o) })
}

// fromListToCause: one click on what the list says of a failed session leads to the cause and its evidence, also where
// only the job's entrypoint is known.
func fromListToCause(t *testing.T, o own) {
	outcome := []string{"a.why:has(.failed)"}
	seen := visit(t, job{Base: o.URL, Pages: []page{
		{Name: "list", Path: "/homepage?q=" + failedCluster, Press: outcome, Wait: "no_such_train.py"},
		{Name: "sorted list", Path: "/homepage?sort=cluster", Press: outcome, Wait: "Findings of " + failedCluster},
		{Name: "list searched for an entrypoint", Path: "/homepage?q=no_such_train.py", Press: outcome,
			Wait: "Findings of " + failedCluster},
		{Name: "overview", Path: o.Failed + "/overview", Press: []string{".overview .line-of a"},
			Wait: "Findings of " + failedCluster},
	}})
	for _, e := range seen.Errors {
		t.Errorf("%s: %s", e.Page, e.Message)
	}
	for _, p := range seen.Pages {
		says.True(t, len(p.Missing) == 0 && strings.Contains(p.URL, o.Failed+"/findings"),
			"%s: the click leads to %s, without %q", p.Name, p.URL, p.Missing)
	}
}

// foundInOneSearch: a job's name, a submission's ID and an error's text lead to their session, by the keyboard alone.
func foundInOneSearch(t *testing.T, o own) {
	must.Happen(t, "that "+namedJob+" is known", func() bool {
		var rows []struct{ Name string }
		get(t, o.URL+"/clusters?q="+namedJob, &rows)
		return len(rows) == 1
	})
	want := map[string]string{namedJob: o.Named, namedSubmission: o.Named, "driver_error": o.Failed,
		"no_such_train.py": o.Failed}
	var pages []page
	for text := range want {
		pages = append(pages, page{Name: text, Path: "/homepage",
			Keys: []string{"/", "=" + text, "Enter", "/", "ArrowDown", "Enter"}, Wait: "Ray Dashboard"})
	}
	seen := visit(t, job{Base: o.URL, Pages: pages})
	for _, e := range seen.Errors {
		t.Errorf("%s: %s", e.Page, e.Message)
	}
	for _, p := range seen.Pages {
		if at, err := url.Parse(p.URL); err != nil || strings.TrimSuffix(at.Path, "/") != want[p.Name] ||
			len(p.Missing) > 0 {
			t.Errorf("a search for %s leads to %s, want %s; without %q", p.Name, p.URL, want[p.Name], p.Missing)
		}
	}
}

// narrow: in a window of 800 pixels the list can be searched, grouped and opened.
func narrow(t *testing.T, o own) {
	seen := visit(t, job{Base: o.URL, Width: 800, Pages: []page{
		{Name: "list", Path: "/homepage?q=" + failedCluster, Keys: []string{"/", "ArrowDown", "Enter"},
			Wait: "Ray Dashboard"},
		{Name: "groups", Path: "/homepage?group=cluster&q=" + failedCluster, Keys: []string{"/", "ArrowDown", "Enter"},
			Wait: "Of cluster " + failedCluster},
	}})
	for _, e := range seen.Errors {
		t.Errorf("%s: %s", e.Page, e.Message)
	}
	for _, p := range seen.Pages {
		says.True(t, len(p.Missing) == 0, "%s: %s lacks %q", p.Name, p.URL, p.Missing)
	}
}

// waitForOutcomes waits until the list knows how clusters ended.
func waitForOutcomes(t *testing.T, o own, want map[string]string) {
	t.Helper()
	must.Happen(t, "that the list knows how clusters ended", func() bool {
		var rows []struct{ Name, Outcome string }
		get(t, o.URL+"/clusters", &rows)
		left := len(want)
		for _, r := range rows {
			if want[r.Name] != "" && want[r.Name] == r.Outcome {
				left--
			}
		}
		return left == 0
	})
}

// accessible: nothing is wrong with any page of the history server's own, nor with the bar in the dashboard.
func accessible(t *testing.T, o own) {
	log := o.Failed + "/log?" + url.Values{"node_id": {o.Node}, "file": {"raylet.out"}}.Encode()
	audit(t, o.URL, []audited{
		{"list", "/homepage", "body:has(.chip.failed) .because a"},
		{"list, searched", "/homepage?q=" + failedCluster, ".chip.failed"},
		{"search form with all filters", "/homepage?q=" + failedCluster + "&from=2026-01-01&longer=1s&version=2.60",
			"form.filters"},
		{"list by cluster", "/homepage?group=cluster", ".list .name"},
		{"list by owner", "/homepage?group=owner", ".list:has(.name) .run.failed"},
		{"list of a cluster", "/homepage?namespace=cases&cluster=" + failedCluster, "body:has(.chip.failed) .run.failed"},
		{"list without a match", "/homepage?q=nothing-like-it", ".nothing"},
		{"fleet", "/fleet?from=2020-01-01", ".daily"},
		{"fleet without sessions", "/fleet?from=2020-01-01&to=2020-01-02", ".nothing"},
		{"overview", o.Failed + "/overview", ".tiles"},
		{"findings", o.Failed + "/findings", ".finding"},
		{"logs to read side by side", o.Failed + "/logs", "h1"},
		{"pin and note", o.Failed + "/note", "form.note"},
		{"search", o.Failed + "/search", "form"},
		{"search with open and folded results", o.Failed + "/search?q=Error", ".hit:nth-child(4)"},
		{"log", log, "#main"},
		{"comparison", o.Failed + "/compare?with=" + o.Other, "table"},
		{"panels", o.Metrics + "/grafana/d/rayDefaultDashboard/default-dashboard", ".panel svg"},
		{"panel", o.Metrics + "/grafana/d-solo/rayDefaultDashboard/default-dashboard?panelId=41", ".panel svg"},
		{"no such page", "/nothing/here", "h1"},
		{"no such session", "/namespaces/cases/clusters/" + failedCluster +
			"/sessions/session_2020-01-01_00-00-00_000000_1/", "h1"},
		{"no such log", o.Failed + "/log?node_id=" + o.Node + "&file=nothing.log", "h1"},
		{"panels of what there is none", o.Failed + "/grafana/d/nothing", "p"},
		{"dashboard with the bar", o.Failed + "/", "h1"},
	})
}

// audited is a page that axe-core looks at when an element is there.
type audited struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Wait string `json:"wait,omitempty"` // a CSS selector
}

// maxScripts bounds the scripts of a page of the history server's own, in bytes as they are sent.
const maxScripts = 150 << 10

// audit: in light and dark colours and in windows of each width, and of a large screen, axe-core finds nothing wrong
// with pages, none is wider than its window, has errors or large scripts, or asks another host.
func audit(t *testing.T, base string, pages []audited) {
	t.Helper()
	var seen struct {
		Pages []struct {
			Name, Missing string
			Dark          bool
			Scripts       int
			Windows       []struct {
				Width, Wide int
				Violations  []struct {
					Rule, Help string
					Nodes      []struct{ Target, Why string }
				}
			}
		}
		Errors, Others []string
	}
	run(t, "axe.js", map[string]any{"base": base, "pages": pages, "widths": append(slices.Clone(widths), 2560)}, &seen)
	must.True(t, len(seen.Pages) == 2*len(pages), "%d pages were looked at", len(seen.Pages))
	for _, problem := range append(seen.Errors, seen.Others...) {
		t.Error(problem)
	}
	for _, p := range seen.Pages {
		says.True(t, p.Missing == "" && p.Scripts <= maxScripts && len(p.Windows) == len(widths)+1,
			"%s, dark %v: no %q, %d bytes of scripts, %d windows", p.Name, p.Dark, p.Missing, p.Scripts, len(p.Windows))
		for _, w := range p.Windows {
			says.True(t, w.Wide <= 0, "%s, dark %v, is %d pixels wider than a window of %d", p.Name, p.Dark, w.Wide,
				w.Width)
			for _, v := range w.Violations {
				t.Errorf("%s, dark %v, %d pixels: %s: %s", p.Name, p.Dark, w.Width, v.Rule, v.Help)
				for _, n := range v.Nodes {
					t.Logf("  %s: %s", n.Target, n.Why)
				}
			}
		}
	}
}
