package findings_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// TestOfJob: each job of a session has its own outcome and its own first finding, under both of Ray's IDs, from events
// and from what is kept.
func TestOfJob(t *testing.T) {
	// outcome, and a part of the first finding's title, by submission
	for archive, want := range map[string]map[string][2]string{
		"three_jobs": {"prices-join": {catalog.Failed, "KeyError: 'unit_price'"},
			"poller": {catalog.Stopped, "was stopped"}, "sum-ok": {catalog.Succeeded, ""}},
		"even-2.60": {
			"typo_resource": {catalog.Failed, "1 gpu_a10"},
			"group_busy":    {catalog.Failed, "placement group first held"},
			"pool":          {catalog.Failed, "weights of group 5"},
			"data_missing":  {catalog.Failed, "/data/2026-11-21/events"},
			"killed_once":   {catalog.Succeeded, "fold died|step died"},
		},
		"jobs-2.60": {"missing": {catalog.Failed, "no_such_train.py"}, "tokenizer": {catalog.Failed, "no-vocab.json"},
			"segv": {catalog.Failed, "SIGSEGV"}},
	} {
		dir, ref := cluster(t, archive)
		s := load(t, dir, ref, nil)
		whole := report(t, s)
		writeIndex(t, dir, ref, false)
		kept := reportKept(t, dir, s, false)
		for submission, want := range want {
			one, err := whole.OfJob(submission)
			must.OK(t, err, "%s of %s", submission, archive)
			first := ""
			if len(one.Findings) > 0 {
				first = one.Findings[0].Title
			}
			if one.Outcome != want[0] || !slices.ContainsFunc(strings.Split(want[1], "|"),
				func(part string) bool { return strings.Contains(first, part) }) {
				t.Errorf("%s of %s: %s, %q; want %s, %q", submission, archive, one.Outcome, first, want[0], want[1])
			}
			says.True(t, want[0] != catalog.Failed || strings.Contains(one.Summary, strings.TrimSuffix(first, ".")),
				"%s of %s: the summary is %q", submission, archive, one.Summary)
			for _, f := range one.Findings {
				says.True(t, f.SubmissionID == "" || f.SubmissionID == submission,
					"%s of %s: it has a finding of %s: %s", submission, archive, f.SubmissionID, f.Title)
				for _, cause := range f.Because {
					if one.Finding(cause) == nil {
						t.Errorf("%s of %s: it lacks the cause %s", submission, archive, whole.Finding(cause).Title)
					}
				}
			}
			others := []string{submission}
			if id := one.Jobs[0].JobID; id != "" {
				others = append(others, id)
			}
			for _, from := range []*findings.Report{whole, kept} {
				for _, id := range others {
					again, err := from.OfJob("", id, submission)
					says.True(t, err == nil && sameJSON(t, again, one), "%s of %s by %s: %v, another report",
						submission, archive, id, err)
				}
			}
		}
		var none *findings.NoJobError
		if _, err := whole.OfJob(whole.Jobs[0].Name(), whole.Jobs[1].Name()); !errors.As(err, &none) ||
			!strings.Contains(none.Advice, whole.Jobs[0].Name()) {
			t.Errorf("two jobs: %v", err)
		}
		says.Equal(t, must.Get(whole.OfJob("", ""))(t), whole, "no job")
	}
}

// TestAnswerOfJob: the parameters narrow the answer, and a job that the session does not have is not found.
func TestAnswerOfJob(t *testing.T) {
	dir, ref := cluster(t, "three_jobs")
	s := load(t, dir, ref, nil)
	var route dashboard.Route
	answers := dashboard.New(dashboard.Options{Log: silent.Logger()})
	for _, r := range answers.Routes() {
		if strings.HasSuffix(r.Path, "/findings") {
			route = r
		}
	}
	for query, want := range map[string]string{
		"submission_id=prices-join": "", "job_id=05000000": "", "job_id=prices-join": "",
		"submission_id=prices-join&job_id=05000000": "",
		"submission_id=prices":                      "no job with the ID prices. It has 3 jobs: prices-join, poller, sum-ok.",
		"job_id=ff000000":                           "no job with the ID ff000000",
		"submission_id=prices-join&job_id=04000000": "04000000 and the ID prices-join",
		"job_id=" + strings.Repeat("x", 500):        "no job",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, nil)
		w := httptest.NewRecorder()
		route.Serve(w, &dashboard.Request{Request: r, Moment: *answers.MomentAt(s, 0)})
		if want != "" {
			says.True(t, w.Code == http.StatusNotFound && strings.Contains(w.Body.String(), want) &&
				w.Body.Len() <= 700, "%.60s: %d %s", query, w.Code, w.Body)
			continue
		}
		var got struct{ Data findings.Report }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Data.Jobs) != 1 ||
			got.Data.Jobs[0].SubmissionID != "prices-join" || len(got.Data.Findings) != 2 {
			values, _ := url.ParseQuery(query)
			t.Errorf("%v: %v %s", values, err, w.Body)
		}
	}
}

// TestFailedAmongMany: a job that failed is found among more jobs than one report examines, with its status, start and
// end.
func TestFailedAmongMany(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_10-00-00_000000_7"}
	const job = `{"type":"SUBMISSION","submission_id":"job-%d","status":%q,"entrypoint":"x","start_time":1,"end_time":2,"message":"oh no"}`
	var all []string
	for i := range 2500 {
		all = append(all, fmt.Sprintf(job, i, "SUCCEEDED"))
	}
	all = append(all, fmt.Sprintf(job, 2500, "FAILED"))
	store := storetest.New()
	jobs := layout.SnapshotKey("log", ref, "/api/jobs/")
	must.OK(t, store.Create(t.Context(), jobs, strings.NewReader("["+strings.Join(all, ",")+"]")))
	s := must.Get(session.Load(t.Context(), store, "log", ref, session.Options{}))(t)
	got := report(t, s)
	first := got.Jobs[0]
	if len(got.Jobs) != 2000 || first.SubmissionID != "job-2500" || first.Outcome != catalog.Failed ||
		first.Status != "FAILED" || first.Start != "1970-01-01T00:00:00.001Z" ||
		first.End != "1970-01-01T00:00:00.002Z" || !strings.Contains(fmt.Sprint(got.Missing), "2000 of 2501 jobs") {
		t.Errorf("%d jobs, the first %+v, missing %q", len(got.Jobs), first, got.Missing)
	}
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	one := must.Get(json.Marshal(a))(t)
	other := must.Get(json.Marshal(b))(t)
	return string(one) == string(other)
}
