package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// TestFindingsPage: the page shows what was found, as text, with links that lead out of the page's own folder.
func TestFindingsPage(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) {
		o.Findings = func(_ context.Context, r *moment.Moment) (*findings.Report, error) {
			at := ""
			if r.At != 0 {
				at = time.Unix(0, r.At).UTC().Format(time.RFC3339Nano)
			}
			return &findings.Report{
				At: at, Session: r.Session.Ref.Name, Outcome: catalog.Failed, Summary: "It failed: <b>boom</b>.",
				Missing:    []string{"one <i>log</i>"},
				Unfinished: findings.Counts{Tasks: 12},
				Findings: []*findings.Finding{
					{ID: "aa", Kind: findings.TaskFailed, Severity: findings.Error, Title: "<script>alert(1)</script>",
						Count: 3},
					{
						ID: "bb", Kind: findings.JobFailed, Severity: findings.Error, Title: "the job",
						Because: []string{"aa"},
						Entities: []findings.Entity{{Type: "job", Name: "a-job",
							Link: "/namespaces/default/clusters/lab/sessions/x/#/jobs/01000000"}},
						Evidence: []findings.Evidence{{Source: "log", NodeID: "n1", File: "job-driver.log", Line: 7,
							Link: "/x", Text: "<img src=x>"}},
					},
				},
			}, nil
		}
	})
	got := f.ask(t, http.MethodGet, "/namespaces/default/clusters/lab/sessions/"+name+"/findings", asBrowser)
	must.True(t, got.status == http.StatusOK, "%d %s", got.status, got.body)
	got.has(t, "&lt;b&gt;boom&lt;/b&gt;", "&lt;script&gt;", "&lt;img src=x&gt;", "&lt;i&gt;log", `href="#aa"`,
		"12 tasks", "line 7", "3 times", `href="log?file=job-driver.log&amp;line=7&amp;node_id=n1#L7"`,
		`href="../../../../../../namespaces/default/clusters/lab/sessions/x/#/jobs/01000000"`)
	if slashed := f.ask(t, http.MethodGet, "/namespaces/default/clusters/lab/sessions/"+name+"/findings/",
		asBrowser); slashed.header.Get("Location") != "../findings" {
		t.Errorf("with a slash at the end: %d %v", slashed.status, slashed.header)
	}
	query := "?submission_id=a%2Fb&at=1"
	if slashed := f.ask(t, http.MethodGet, "/namespaces/default/clusters/lab/sessions/"+name+"/findings/"+query,
		asBrowser); slashed.header.Get("Location") != "../findings"+query {
		t.Errorf("with a slash before a query: %d %v", slashed.status, slashed.header)
	}
	for path, want := range map[string][]string{
		"/findings": {"<h1 id=\"findings\">Findings of lab</h1>", "Not ended when the session did"},
		"/at/2026-11-20T23:21:00.5Z/findings": {
			"<title>Findings of lab at 2026-11-20 23:21:00.5 UTC ", "Findings of lab at 2026-11-20 23:21:00.5 UTC</h1>",
			"Not ended at that moment",
			`<a href="../../../../../../../../namespaces/default/clusters/lab/sessions/` + name +
				`/findings">Findings at its end`,
		},
	} {
		got := f.ask(t, http.MethodGet, lab+name+path, asBrowser)
		for _, text := range want {
			got.has(t, text)
		}
	}
	got.lacks(t, "<script>alert", "<img src=x", "<b>boom", "Open the dashboard")
}

// trace is a traceback with a frame of Ray's, two of the user's and one of a package.
const trace = `Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/ray/_private/worker.py", line 2967, in get
    values, debugger_breakpoint = worker.get_objects(
                                  ^^^^^^^^^^^^^^^^^^^

  File "/usr/lib/python3.11/site-packages/ray/_private/worker.py", line 1015, in get_objects
    raise value.as_instanceof_cause()
  File "/home/me/app/train.py", line 7, in step
    load(shard)
  File "/home/me/app/data.py", line 9, in load
    frame = pandas.read_csv(path)
  File "/home/me/venv/lib/python3.11/site-packages/pandas/io.py", line 1, in read_csv
    raise ValueError(path)
ValueError: shard <b>17</b> is cut`

// startFindings is a server whose sessions have the findings of two jobs.
func startFindings(t *testing.T) *fixture {
	t.Helper()
	finding := func(id, severity, title, job string, evidence ...string) *findings.Finding {
		f := &findings.Finding{ID: id, Kind: findings.TaskFailed, Severity: severity, Title: title, Count: 1,
			SubmissionID: job, First: "2026-11-20T23:21:00Z", Advice: "Do it."}
		for _, text := range evidence {
			f.Evidence = append(f.Evidence, findings.Evidence{Source: "log", File: "job.log", Text: text})
		}
		return f
	}
	return start(t, func(o *Options, _ *gatedStore) {
		o.Findings = func(context.Context, *moment.Moment) (*findings.Report, error) {
			return &findings.Report{
				Session: name, Outcome: catalog.Failed, Summary: "2 of 3 jobs failed: load failed.",
				Findings: []*findings.Finding{
					finding("aa", findings.Error, "load failed", "job-a", trace,
						"x\u202egpj.exe\x1b[31m "+strings.Repeat("y", 4<<20)+" the end"),
					finding("bb", findings.Error, "Job a failed", "job-a", trace,
						"and more:\n"+trace+"\n```\n# no heading"),
					finding("cc", findings.Warning, "retried", "job-b"),
					finding("dd", findings.Error, "a node died", ""),
				},
				Jobs: []findings.Job{
					{SubmissionID: "job-a", JobID: "01000000", Outcome: catalog.Failed,
						Summary: "Job job-a failed: load failed.", Findings: []string{"aa", "bb"}},
					{SubmissionID: "job-b", Outcome: catalog.Failed, Summary: "Job job-b failed.",
						Findings: []string{"dd", "cc", "aa"}},
					{SubmissionID: "job-c", Outcome: catalog.Succeeded, Findings: []string{}},
				},
			}, nil
		}
	})
}

// TestFindingsByJob: the page lists the findings of each job, and an address narrows them to a job and to a severity.
func TestFindingsByJob(t *testing.T) {
	f := startFindings(t)
	for query, want := range map[string]struct{ has, not []string }{
		"": {[]string{">job-a</a>", ">job-b</a>", `href="#aa"`,
			"2 of 3 jobs failed.", "1 job had no findings", `<option value="job-c"`}, []string{"failed: load"}},
		"?job_id=01000000": {[]string{"Why job-a failed", "load failed", "Job a failed",
			`href="./#/jobs/01000000"`, `value="job-a" selected`}, []string{"a node died", "retried"}},
		"?submission_id=job-b": {[]string{"Why job-b failed", "a node died", "retried", "load failed"},
			[]string{"Job a failed"}},
		"?submission_id=job-b&severity=warning": {[]string{"retried"}, []string{`id="aa"`, `id="dd"`}},
		"?job_id=job-c":                         {[]string{"Findings of job job-c", "Nothing failed"}, nil},
		"?severity=info":                        {[]string{"No finding is of this severity"}, nil},
	} {
		got := f.ask(t, http.MethodGet, lab+name+"/findings"+query, asBrowser)
		for _, text := range want.has {
			got.wants(t, http.StatusOK, text)
		}
		for _, text := range want.not {
			got.lacks(t, text)
		}
		n := strings.Count(got.body, `id="aa"`)
		says.True(t, n <= 1, "%q shows one finding %d times", query, n)
	}
	for query, want := range map[string]int{"?job_id=none": 404, "?submission_id=job": 404, "?severity=loud": 400, "?severity=%20error": 400,
		"?format=pdf": 400, "?job=job-a": 400} {
		f.ask(t, http.MethodGet, lab+name+"/findings"+query, asBrowser).wants(t, want)
	}
}

// TestFindingsEvidence: of a traceback the user's frames and the exception are shown and the others folded, no text is
// shown twice, and hostile texts stay texts of a bounded size on the screen.
func TestFindingsEvidence(t *testing.T) {
	f := startFindings(t)
	got := f.ask(t, http.MethodGet, lab+name+"/findings?job_id=job-a", asBrowser)
	got.has(t, "<details><summary>2 frames of Ray and libraries</summary>",
		"<details><summary>1 frame of Ray and libraries</summary>",
		"<pre class=\"mine\">  File &#34;/home/me/app/train.py&#34;, line 7, in step\n    load(shard)\n  File &#34;/home/me/app/data.py&#34;, line 9, in load\n    frame = pandas.read_csv(path)\n</pre>", "<pre>ValueError: shard &lt;b&gt;17&lt;/b&gt; is cut</pre>", "the same text as above", "lines as above", "and more:", "characters of this line</summary>", " the end</pre>")
	for text, most := range map[string]int{"in get_objects": 1, "in read_csv": 1, "<b>17": 0, "\u202e": 0, "\x1b": 0} {
		n := strings.Count(got.body, text)
		says.True(t, n <= most, "%q is there %d times", text, n)
	}
}

// TestFindingsMarkdown: the text for a ticket has everything, or one finding, and nothing in it is Markdown but what
// the server writes.
func TestFindingsMarkdown(t *testing.T) {
	f := startFindings(t)
	got := f.ask(t, http.MethodGet, lab+name+"/findings?job_id=job-a&format=markdown", asBrowser)
	if !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") ||
		!strings.Contains(got.body, "## error: `load failed`") ||
		!strings.Contains(got.body, "\n```text\n"+trace+"\n```\n") ||
		!strings.Contains(got.body, "\n````text\nand more:") || strings.Contains(got.body, "a node died") ||
		strings.Contains(got.body, "\u202e") {
		t.Errorf("%d %v %.3000s", got.status, got.header, got.body)
	}
	one := f.ask(t, http.MethodGet, lab+name+"/findings?format=markdown&finding=dd", asBrowser)
	one.has(t, "a node died").lacks(t, "load failed\n", "## error: `load")
}
