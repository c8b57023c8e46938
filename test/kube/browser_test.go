package kube_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	dir := filepath.Join(repository, "test/browser")
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		npm := exec.Command("npm", "ci", "--no-audit", "--no-fund")
		npm.Dir = dir
		if out, err := npm.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	job, err := json.Marshal(map[string]any{"base": base, "pages": pages})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "visit.js")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(job)
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if exit, ok := err.(*exec.ExitError); ok {
			stderr = exit.Stderr
		}
		t.Fatalf("%s: %v\n%s", what, err, stderr)
	}
	var report struct {
		Pages []struct {
			Name, Text string
			Missing    []string
		}
		Requests []struct {
			Page, Method, URL string
			Status            int
		}
		Errors []struct{ Page, Message string }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Pages {
		if len(p.Missing) > 0 {
			t.Errorf("%s: page %s does not show %q: %.2000s", what, p.Name, p.Missing, p.Text)
		}
	}
	for _, e := range report.Errors {
		t.Errorf("%s: page %s: %s", what, e.Page, e.Message)
	}
	for _, r := range report.Requests {
		path, _, _ := strings.Cut(strings.TrimPrefix(r.URL, base), "?")
		if (r.Status == 0 || r.Status >= 400) && !slices.Contains(mayFail, r.Method+" "+path) {
			t.Errorf("%s: page %s: %d %s %s", what, r.Page, r.Status, r.Method, r.URL)
		}
		requests = append(requests, r.Method+" "+r.URL)
	}
	t.Logf("%s: %d pages, %d requests", what, len(report.Pages), len(report.Requests))
	return requests
}
