package fidelity

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestRecordingAgainstItself: a dashboard that answers as recorded is wholly faithful.
func TestRecordingAgainstItself(t *testing.T) {
	answers := recording.Open(t).Golden()
	// The recording has the same half megabyte for each task it asked the timeline of.
	answers = slices.DeleteFunc(answers,
		func(a recording.Answer) bool { return strings.Contains(a.URL, "timeline?task_id=") })
	dashboard := recording.Dashboard(answers)
	report, err := Compare(answers, func(url string) (int, []byte, error) {
		w := httptest.NewRecorder()
		dashboard.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
		return w.Code, w.Body.Bytes(), nil
	})
	must.OK(t, err)
	says.True(t, report.MeanShare() == 1 && report.RightStatusShare() == 1,
		"mean share %v, right status %v, want 1 and 1", report.MeanShare(), report.RightStatusShare())
	says.True(t, len(report.Families) >= 40, "%d families", len(report.Families))
}

func TestBodies(t *testing.T) {
	for _, tt := range []struct {
		name, want, got string
		leaves, equal   int
	}{
		{"equal", `{"a": 1, "b": [1, 2]}`, `{"b": [2, 1], "a": 1}`, 3, 3},
		{"missing field", `{"a": {"b": 1, "c": null}}`, `{"a": {"c": null}}`, 2, 1},
		{"null is not missing", `{"a": null}`, `{}`, 1, 0},
		{"empty object", `{"a": {}}`, `{"a": {"b": 1}}`, 1, 0},
		{"rows in another order", `[{"task_id": "x", "attempt_number": 0, "n": 5}, {"task_id": "x", "attempt_number": 1, "n": 9}]`,
			`[{"task_id": "x", "attempt_number": 1, "n": 9}, {"task_id": "x", "attempt_number": 0, "n": 5}]`, 6, 6},
		{"a row less", `[{"id": "a"}, {"id": "b"}]`, `[{"id": "b"}]`, 2, 1},
		{"numbers nearly equal", `{"at": 1795225480495, "n": 10}`, `{"at": 1795225480497, "n": 11}`, 2, 1},
		{"clocks", `{"a": 1795225480495, "b": 1795225480495, "c": 1795225480.5, "d": 1795225480.5}`,
			`{"a": 1795225480405, "b": 1795225480605, "c": 1795225480.45, "d": 1795225480.65}`, 4, 2},
		{"floating point", `{"a": 0.3, "b": 0.3}`, `{"a": 0.30000000000000004, "b": 0.300001}`, 2, 1},
		{"another kind of number", `{"a": 1, "b": 1.0, "cpu": 1.0}`, `{"a": 1.0, "b": 1, "cpu": 2}`, 3, 1},
		{"live figure", `{"cpu": 4.1, "mem": [1, 2]}`, `{"cpu": 9.7, "mem": [3]}`, 3, 3},
		{"live figure, zero", `{"cpu": 4.1, "mem": [1, 2]}`, `{"cpu": 0, "mem": []}`, 3, 0},
		{"text", "a\nb\n", "b\n", 2, 1},
		{"no JSON", `{"a": 1}`, "oops", 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Family{Differences: map[string][]Difference{}}
			f.compareBodies([]byte(tt.want), []byte(tt.got), http.StatusOK)
			says.True(t, f.Leaves == tt.leaves && f.Equal == tt.equal, "%d of %d equal, want %d of %d", f.Equal,
				f.Leaves, tt.equal, tt.leaves)
		})
	}
}

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		want, got int
		body      string
		right     bool
	}{
		{200, 200, "", true}, {200, 404, "", false}, {500, 404, "no such node", true}, {500, 200, "", false},
		{500, 404, "404: Page Not Found", false}, {404, 404, "404: Page Not Found", true}, {500, 501, "", false},
	} {
		says.Equal(t, rightStatus(tt.want, tt.got, []byte(tt.body)), tt.right, "%d for %d %q", tt.got, tt.want, tt.body)
	}
}

func TestFamilyOf(t *testing.T) {
	for url, want := range map[string]string{
		"/nodes?view=summary": "nodes?view=summary",
		"/nodes/11ddada2522c973b78d21316e6e058f54500e29f808a1ee396c6e558": "nodes/{id}",
		"/api/jobs/":               "api/jobs",
		"/api/jobs/data-job/logs":  "api/jobs/{id}/logs",
		"/events?job_id=02000000":  "events?job_id",
		"/api/data/datasets/04000": "api/data/datasets/{id}",
		"/api/v0/tasks/summarize?filter_keys=job_id&summary_by=lineage": "api/v0/tasks/summarize lineage",
		"/api/v0/logs/file?task_id=ff&suffix=out":                       "api/v0/logs/file task",
		"/api/v0/logs/file?node_id=ff&pid=4":                            "api/v0/logs/file pid",
	} {
		says.Equal(t, FamilyOf(url), want, "%s", url)
	}
}

func TestCompareTables(t *testing.T) {
	report := func(equal int) Source {
		return Source{Name: "s", Report: &Report{Families: []*Family{{Name: "a", Requests: 1, RightStatus: 1,
			Leaves: 100, Equal: equal}}}}
	}
	written := table([]Source{report(90)})
	for _, tt := range []struct {
		name       string
		measured   []Source
		complaints int
	}{
		{"as written", []Source{report(90)}, 0},
		{"better", []Source{report(95)}, 0},
		{"worse", []Source{report(89)}, 3}, // the route and both means
		{"another column", []Source{report(90), report(90)}, 7},
	} {
		got := compareTables(written, table(tt.measured))
		says.True(t, len(got) == tt.complaints, "%s: %q", tt.name, got)
	}
}

func TestExceptions(t *testing.T) {
	e := Exceptions{
		Families: map[string]string{"b": "never stored"},
		Statuses: []StatusException{{Want: 500, Got: 200, URL: regexp.MustCompile(`^/logs`),
			Reason: "the node is dead"}},
	}
	wrong := func(want, got int, url string) WrongStatus { return WrongStatus{Want: want, Got: got, URL: url} }
	report := &Report{Families: []*Family{
		{Name: "a", Requests: 3, RightStatus: 1, Leaves: 10, Equal: 9,
			WrongStatus: []WrongStatus{wrong(500, 200, "/logs?x"), wrong(404, 200, "/logs")}},
		{Name: "b", Requests: 1, RightStatus: 1, Leaves: 10, Equal: 0},
		{Name: "c", Requests: 1, WrongStatus: []WrongStatus{wrong(500, 200, "/logs/file")}},
	}}
	says.Equal(t, report.MeanShareBeside(e), 0.9, "mean share without the exceptions")
	says.Equal(t, report.RightStatusShareBeside(e), 2.0/3, "right status without the exceptions")
	mean, status := report.MeanShare(), report.RightStatusShare()
	says.True(t, mean == 0.3 && status == 0.4, "with the exceptions %v and %v, want 0.3 and 0.4", mean, status)
}
