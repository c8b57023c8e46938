package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestWhyAJobFailed: the list says why a session failed in one line, without a click; from a job's page in Ray's
// dashboard one click leads to why this job failed, which is said at the top of the page, in windows of 400 to 1,400
// pixels.
func TestWhyAJobFailed(t *testing.T) {
	dir := t.TempDir()
	data, builds := filepath.Join(dir, "data"), filepath.Join(repository, "build", "dashboard")
	command(t, filepath.Join(repository, "scripts", "dashboard.sh"), "2.60.0", builds)
	modules(t)
	must.OK(t, os.Mkdir(data, 0o755))
	must.OK(t, recording.Unpack(filepath.Join(repository, "pkg", "findings", "testdata", "jobs-2.60.tar.gz"), data))
	found, err := filepath.Glob(filepath.Join(data, "log", failedCluster+"_cases", "session_*"))
	must.True(t, err == nil && len(found) == 1, "%d sessions, %v", len(found), err)
	session := pathOf(layout.Session{Namespace: "cases", Cluster: failedCluster, Name: filepath.Base(found[0])})
	binary := build(t)
	command(t, binary, "index", "--all", "--quiet=1ns", "--storage-backend=local", "--local-dir="+data)
	url, _ := launch(t, binary, data, builds)
	o := own{URL: url, Failed: session}
	waitForOutcomes(t, o, map[string]string{failedCluster: "failed"})
	var seen struct {
		List    []struct{ Width, Lines, Top, Bottom, Right float64 }
		Bar     []string
		Clicked string
		Pages   []struct {
			Width, Wide, Height, Top, Bottom float64
			Dark, Shown                      bool
		}
		Errors []string
	}
	run(t, "why.js", map[string]string{
		"base": o.URL, "list": "/homepage", "session": session, "job": "08000000", "cause": " failed",
		"text": "no-vocab.json",
	}, &seen)
	for _, e := range seen.Errors {
		t.Error(e)
	}
	for _, l := range seen.List {
		says.True(t, l.Right <= l.Width && l.Top >= 0 && l.Bottom <= 900 && (l.Width <= 700 || l.Lines <= 1.5),
			"the cause in the list: %+v", l)
	}
	if want := []string{"Why it failed", "Why tokenizer failed", "Why it failed",
		"Why tokenizer failed"}; strings.Join(seen.Bar, "|") != strings.Join(want, "|") {
		t.Errorf("the bar says %q, want %q", seen.Bar, want)
	}
	says.True(t, strings.HasSuffix(seen.Clicked, session+"/findings?job_id=tokenizer"), "one click leads to %s",
		seen.Clicked)
	must.True(t, len(seen.List) == 3 && len(seen.Pages) == 6, "%d lists and %d pages were looked at", len(seen.List),
		len(seen.Pages))
	for _, p := range seen.Pages {
		says.True(t, p.Shown && p.Bottom <= 600 && p.Wide <= 0 && p.Height <= 2000, "why tokenizer failed: %+v", p)
	}
	audit(t, o.URL, []audited{
		{"findings of a job", session + "/findings?job_id=tokenizer", ".evidence pre"},
		{"findings of a severity", session + "/findings?severity=info", ".nothing"},
	})
}
