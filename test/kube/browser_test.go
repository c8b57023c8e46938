package kube_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// page is one for test/browser/visit.js: a path, texts to click and a text to wait for.
type page struct {
	Name  string   `json:"name"`
	Path  string   `json:"path"`
	Wait  string   `json:"wait"`
	Click []string `json:"click,omitempty"`
}

// mayFail are requests that a dashboard without Kubernetes events, Grafana and Prometheus fails too.
var mayFail = []string{"HEAD /api/v0/platform_events", "GET /api/grafana_health", "GET /api/prometheus_health"}

// visit opens pages below an address in Chromium. Each must show its text, no request may fail and no script.
func visit(t *testing.T, what, base string, pages []page) (requests []string) {
	t.Helper()
	requests, failed := look(t, base, pages)
	for _, f := range failed {
		t.Errorf("%s: %s", what, f)
	}
	t.Logf("%s: %d pages, %d requests", what, len(pages), len(requests))
	return requests
}

// visitRunning is visit of a cluster that runs. What fails is Ray's own dashboard perhaps, which has a bad moment now
// and then: as people would, it is looked at once more.
func visitRunning(t *testing.T, what, base string, pages []page) {
	t.Helper()
	if _, failed := look(t, base, pages); len(failed) > 0 {
		t.Logf("%s: is visited again, because %s", what, strings.Join(failed, "; "))
		visit(t, what, base, pages)
	}
}

// look opens pages and tells what failed.
func look(t *testing.T, base string, pages []page) (requests, failed []string) {
	t.Helper()
	dir := filepath.Join(repository, "test/browser")
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		npm := exec.Command("npm", "ci", "--no-audit", "--no-fund")
		npm.Dir = dir
		if out, err := npm.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	job, err := json.Marshal(map[string]any{"base": base, "pages": pages})
	must.OK(t, err)
	var stderr strings.Builder
	cmd := exec.Command("node", "visit.js")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(job), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, []string{fmt.Sprintf("the browser: %v: %s", err, stderr.String())}
	}
	var report struct {
		Pages []struct {
			Name, Text string
			Missing    []string
		}
		Requests []struct {
			Page, Method, URL, Error string
			Status                   int
		}
		Errors []struct{ Page, Message string }
	}
	must.OK(t, json.Unmarshal(out, &report))
	for _, p := range report.Pages {
		if len(p.Missing) > 0 {
			failed = append(failed, fmt.Sprintf("page %s does not show %q: %.2000s", p.Name, p.Missing, p.Text))
		}
	}
	for _, e := range report.Errors {
		failed = append(failed, fmt.Sprintf("page %s: %s", e.Page, e.Message))
	}
	for _, r := range report.Requests {
		path, _, _ := strings.Cut(strings.TrimPrefix(r.URL, base), "?")
		if (r.Status == 0 || r.Status >= 400) && !slices.Contains(mayFail, r.Method+" "+path) {
			failed = append(failed, fmt.Sprintf("page %s: %d %s %s: %s", r.Page, r.Status, r.Method, r.URL, r.Error))
		}
		requests = append(requests, r.Method+" "+r.URL)
	}
	return requests, failed
}
