package server

import (
	"context"
	"net/http"
	"testing"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// TestOverview: the page says how the session ended and why, with links to the pages that show the time of it, and
// lists its jobs, each with its own cause; as text.
func TestOverview(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) {
		o.Findings = func(_ context.Context, r *moment.Moment) (*findings.Report, error) {
			return &findings.Report{
				Session: r.Session.Ref.Name, Outcome: catalog.Failed, Summary: "It failed.",
				Findings: []*findings.Finding{
					{ID: "aa", Severity: findings.Warning, Title: "one task failed"},
					{ID: "bb", Severity: findings.Error, Title: "<b>boom</b>", First: "2026-11-20T23:22:00Z"},
				},
				Jobs: []findings.Job{
					{JobID: "01000000", SubmissionID: "a b", Outcome: catalog.Failed, Entrypoint: "python <x>.py",
						Findings: []string{"bb"}},
					{JobID: "02000000", Outcome: catalog.Succeeded},
				},
			}, nil
		}
	})
	f.waitDescribed(t)
	got := f.ask(t, http.MethodGet, lab+name+"/overview", asBrowser)
	got.wants(t, http.StatusOK, `<a href="findings#bb">&lt;b&gt;boom&lt;/b&gt;</a>`, "python &lt;x&gt;.py",
		`findings?job_id=a&#43;b`, "2 findings", `sessions/`+name+`/at/1795216852500/">The cluster before it`,
		`overview" aria-current="page"`, `timeline?from=`, `default-dashboard?from=`, `datetime="2026-11-20T23:19:45Z"`)
	f.ask(t, http.MethodGet, lab+name+"/at/2026-11-20T23:21:00Z/overview", asBrowser).wants(t, 200,
		"at/2026-11-20T23:21:00Z/overview")
}
