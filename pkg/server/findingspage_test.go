package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// TestFindingsPage: the page shows what was found, as text, with links that lead out of the page's own folder.
func TestFindingsPage(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) {
		o.Findings = func(r *dashboard.Request) (*findings.Report, error) {
			at := ""
			if r.At != 0 {
				at = time.Unix(0, r.At).UTC().Format(time.RFC3339Nano)
			}
			return &findings.Report{
				At: at, Session: r.Session.Ref.Name, Outcome: findings.Failed, Summary: "It failed: <b>boom</b>.", Missing: []string{"one <i>log</i>"},
				Unfinished: findings.Counts{Tasks: 12},
				Findings: []*findings.Finding{
					{ID: "aa", Kind: findings.TaskFailed, Severity: findings.Error, Title: "<script>alert(1)</script>", Count: 3},
					{
						ID: "bb", Kind: findings.JobFailed, Severity: findings.Error, Title: "the job", Because: []string{"aa"},
						Entities: []findings.Entity{{Type: "job", Name: "a-job", Link: "/namespaces/default/clusters/lab/sessions/x/#/jobs/01000000"}},
						Evidence: []findings.Evidence{{Source: "log", File: "job-driver.log", Line: 7, Text: "<img src=x>"}},
					},
				},
			}, nil
		}
	})
	got := f.ask(t, http.MethodGet, "/namespaces/default/clusters/lab/sessions/"+name+"/findings", asBrowser)
	if got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for _, want := range []string{
		"&lt;b&gt;boom&lt;/b&gt;", "&lt;script&gt;", "&lt;img src=x&gt;", "&lt;i&gt;log", `href="#aa"`, "12 tasks", "line 7", "3 times",
		`href="../../../../../../namespaces/default/clusters/lab/sessions/x/#/jobs/01000000"`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page lacks %q: %s", want, got.body)
		}
	}
	if slashed := f.ask(t, http.MethodGet, "/namespaces/default/clusters/lab/sessions/"+name+"/findings/", asBrowser); slashed.header.Get("Location") != "../findings" {
		t.Errorf("with a slash at the end: %d %v", slashed.status, slashed.header)
	}
	for path, want := range map[string][]string{
		"/findings": {"<h1 id=\"findings\">Findings of lab</h1>", "Not ended when the session did", `href="./"`},
		"/at/2026-11-20T23:21:00.5Z/findings": {
			"<title>Findings of lab at 2026-11-20 23:21:00.5 UTC ", "Findings of lab at 2026-11-20 23:21:00.5 UTC</h1>", "Not ended at that moment",
			`<a href="../../../../../../../../namespaces/default/clusters/lab/sessions/` + name + `/findings">Findings at its end`,
		},
	} {
		got := f.ask(t, http.MethodGet, lab+name+path, asBrowser)
		for _, text := range want {
			if !strings.Contains(got.body, text) {
				t.Errorf("%s: %d lacks %q: %s", path, got.status, text, main(got.body))
			}
		}
	}
	for _, bad := range []string{"<script>alert", "<img src=x", "<b>boom"} {
		if strings.Contains(got.body, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}
