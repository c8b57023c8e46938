package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// savedAt is an answer that was saved at a time of rayevents' day; at "" its key does not tell when.
type savedAt struct{ url, at, answer string }

func savedSession(t *testing.T, saved ...savedAt) *asker {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, rayevents.Key(), strings.Join(rayevents.Lines(), "\n")+"\n")
	for _, s := range saved {
		key := layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, s.url)
		if s.at != "" {
			key = layout.SnapshotVersionKey(key, time.Unix(0, rayevents.At(s.at)))
		}
		put(t, dir, key, s.answer)
	}
	return newAsker(t, load(t, dir, rayevents.Session), Options{})
}

// sec is a time of rayevents' day in Unix seconds.
func sec(at string) int64 { return rayevents.At(at) / int64(time.Second) }

// TestLibrariesOfAMoment: what Serve, Data and Train show at a moment holds nothing later: an answer that was saved
// later counts only for what had begun, and its ends only if they were before.
func TestLibrariesOfAMoment(t *testing.T) {
	serve := func(app string, deployed int64, state string) string {
		return fmt.Sprintf(`{"applications": {%q: {"name": %q, "status": %q, "last_deployed_time_s": %d.5, "deployments": {}}}, "proxies": {}}`, app, app, state, deployed)
	}
	const datasets = "/api/data/datasets/01000000"
	data := fmt.Sprintf(`{"datasets": [{"dataset": "done", "state": "FINISHED", "progress": 8, "total": 8, "start_time": %d.25, "end_time": %d.5, "operators": [{"operator": "Map"}]},
		{"dataset": "runs", "state": "FAILED", "progress": 7, "total": 8, "start_time": %d.25, "end_time": %d.5, "operators": [{"operator": "Map"}], "ray_data_output_rows": {"max": 99}},
		{"dataset": "later", "state": "FINISHED", "progress": 8, "total": 8, "start_time": %d, "end_time": null, "operators": []}]}`,
		sec("10:00:10"), sec("10:00:20"), sec("10:00:20"), sec("10:03:00"), sec("10:02:00"))
	train := fmt.Sprintf(`{"train_runs": [{"id": "r", "status": "ERRORED", "status_detail": "boom", "start_time_ns": %d, "end_time_ns": %d, "job_details": {"status": "FAILED", "end_time": %d, "message": "late words"}, "attempts": [
		{"attempt_id": "first", "status": "ERRORED", "start_time_ns": %d, "end_time_ns": %d, "workers": [{"status": "DEAD"}]},
		{"attempt_id": "second", "status": "ERRORED", "start_time_ns": %d, "end_time_ns": %d, "workers": [{"status": "DEAD", "gpus": [1], "processStats": {"cpuPercent": 9}}]},
		{"attempt_id": "third", "status": "ERRORED", "start_time_ns": %d, "end_time_ns": %d, "workers": []}]},
		{"id": "later", "status": "RUNNING", "start_time_ns": %d, "end_time_ns": null, "attempts": []}]}`,
		rayevents.At("10:00:10"), rayevents.At("10:03:00"), rayevents.At("10:03:20")/1e6, rayevents.At("10:00:10"),
		rayevents.At("10:00:30"), rayevents.At("10:00:40"), rayevents.At("10:02:00"),
		rayevents.At("10:02:01"), rayevents.At("10:03:00"), rayevents.At("10:02:30"))
	firstTrain := fmt.Sprintf(`{"train_runs": [{"id": "f", "run_status": "ERRORED", "status_detail": "boom", "start_time_ms": %d, "end_time_ms": %d, "workers": [{"status": "DEAD", "gpus": [1], "processStats": null}]}]}`,
		rayevents.At("10:00:10")/1e6, rayevents.At("10:03:00")/1e6)
	a := savedSession(t,
		savedAt{"/api/serve/applications/", "10:00:30", serve("early", sec("10:00:29"), "DEPLOYING")},
		savedAt{"/api/serve/applications/", "10:02:00", serve("late", sec("10:01:30"), "RUNNING")},
		savedAt{datasets, "", data},
		savedAt{"/api/train/v2/runs/v1", "10:04:00", train},
		savedAt{"/api/train/v2/runs", "10:04:00", firstTrain},
		savedAt{"/api/v0/objects", "10:04:00",
			`{"result": true, "msg": "", "data": {"result": {"total": 1, "result": [{"object_id": "later"}]}}}`},
		savedAt{"/api/prometheus/sd", "10:04:00", `[{"labels": {"job": "ray"}, "targets": ["later:1"]}]`},
		savedAt{"/nodes?view=summary", "10:04:00",
			`{"result": true, "msg": "", "data": {"summary": [], "nodeLogicalResources": {"x": "later"}}}`},
	)
	for _, want := range []struct{ at, url, holds, lacks string }{
		{"10:00:20", "/api/serve/applications/", `"applications": {}`, "early,late,RUNNING"},
		{"10:01:00", "/api/serve/applications/", `"status": "DEPLOYING"`, "late,RUNNING"},
		{"10:02:10", "/api/serve/applications/", `"late"`, "early"},
		{"10:00:05", datasets, `"datasets": []`, "done,runs,later"},
		{"10:01:00", datasets, `"done"`, "later,FAILED,99"},
		{"10:01:00", datasets, `"state": "RUNNING", "progress": 0`, ""},
		{"10:03:30", datasets, `"state": "FAILED", "progress": 7`, ""},
		{"10:00:05", "/api/train/v2/runs/v1", "Train state data is not available", "train_runs"},
		{"10:01:00", "/api/train/v2/runs/v1", `"id": "r", "status": "RUNNING", "status_detail": null`,
			"later,late words,boom,third,cpu,gpus\": [1"},
		{"10:01:00", "/api/train/v2/runs/v1", `"workers": [{"status": "ALIVE", "gpus": [], "processStats": null}]`, ""},
		{"10:01:00", "/api/train/v2/runs/v1", `"workers": [{"status": "DEAD"}]`, ""}, // of the first attempt
		{"10:01:00", "/api/train/v2/runs", `"run_status": "RUNNING", "status_detail": "", "start_time_ms"`, "boom"},
		{"10:01:00", "/api/train/v2/runs", `"workers": [{"status": "ALIVE", "gpus": [], "processStats": null}]`, ""},
		{"10:03:10", "/api/train/v2/runs/v1", `"job_details": {"status": "RUNNING", "end_time": null, "message": null}`,
			"late words"},

		{"10:01:00", "/api/train/v2/runs/v1", `"attempt_id": "first", "status": "ERRORED"`, ""},
		{"10:01:00", "/api/train/v2/runs/v1", `"attempt_id": "second", "status": "RUNNING"`, ""},
		{"10:03:30", "/api/train/v2/runs/v1", "boom", ""},
		{"10:01:00", "/api/v0/objects", `"result": []`, "later"},
		{"10:01:00", "/api/prometheus/sd", "[]", "later"},
		{"10:01:00", "/nodes?view=summary", "summary", "later"},
		{"10:01:00", "/api/history/findings", `"findings"`, "boom"},
	} {
		a.at = rayevents.At(want.at)
		got := a.get(want.url).Body.String()
		says.True(t, strings.Contains(got, want.holds), "%s at %s lacks %s: %s", want.url, want.at, want.holds, got)
		for text := range strings.SplitSeq(want.lacks, ",") {
			says.True(t, text == "" || !strings.Contains(got, text), "%s at %s holds %s: %s", want.url, want.at, text,
				got)
		}
	}
}

// TestFiniteForBrowsers: answers that hold what JSON does not know are valid JSON for browsers, and Ray's bytes for
// tools.
func TestFiniteForBrowsers(t *testing.T) {
	const train, datasets = "/api/train/v2/runs/v1", "/api/data/datasets/01000000"
	saved := map[string]string{
		train:                      `{"train_runs": [{"id": "r", "run_settings": {"clip": Infinity, "low": -Infinity, "seed": NaN, "note": "NaN"}}]}`,
		"/api/serve/applications/": `{"applications": {"a": {"name": "a", "deployments": {"D": {"deployment_config": {"graceful_shutdown_timeout_s": Infinity}}}}}}`,
		datasets:                   `{"datasets": [{"dataset": "d", "state": "RUNNING", "total": Infinity, "start_time": 1, "ray_data_output_rows": {"max": NaN}}]}`,
		"/api/v0/objects":          `{"result": true, "msg": "", "data": {"result": {"total": 1, "result": [{"object_id": "o", "object_size": NaN}]}}}`,
		"/api/prometheus/sd":       `[{"labels": {"x": NaN}, "targets": []}]`,
		"/api/cluster_status":      `{"result": true, "msg": "", "data": {"clusterStatus": {"load": Infinity}}}`,
	}
	var all []savedAt
	for url, answer := range saved {
		all = append(all, savedAt{url, "", answer})
	}
	a := savedSession(t, all...)
	for url := range saved {
		tool, browser := a.get(url), a.with("Sec-Fetch-Mode", "cors", url)
		says.True(t, tool.Code == http.StatusOK &&
			(strings.Contains(tool.Body.String(), "NaN") || strings.Contains(tool.Body.String(), "Infinity")),
			"%s for a tool: %d %s", url, tool.Code, tool.Body)
		if !json.Valid([]byte(browser)) || url == train && !strings.Contains(browser, `"seed": null, "note": "NaN"`) {
			t.Errorf("%s for a browser: %s", url, browser)
		}
	}
}

// TestFindingsOfAMoment: findings of a moment say which, and that the session went on.
func TestFindingsOfAMoment(t *testing.T) {
	a := recorded(t)
	for _, at := range []int64{a.session.Start + (a.session.End-a.session.Start)/3,
		a.session.Start + (a.session.End-a.session.Start)*9/10} {
		a.at = at
		got := a.data("/api/history/findings")
		outcome := got.String("outcome")
		says.True(t, (outcome == "running" || outcome == "failed") && !strings.Contains(got.String("summary"), "ended"),
			"%s: %s", outcome, got.String("summary"))
		says.Equal(t, got.String("at"), time.Unix(0, at).UTC().Format(time.RFC3339Nano), "it is about")
	}
	a.at = 0
	says.Equal(t, a.data("/api/history/findings").String("at"), "", "at the end it is about")
}

// unreadable are metrics that cannot be read.
type unreadable struct{}

func (unreadable) Values(context.Context, layout.Session, bool, time.Time, string,
	func(func(string) string, float64)) error {
	return errors.New("the store is down")
}

// TestPartialFindings: findings of which something could not be read may be whole at the next request, so they have no
// ETag.
func TestPartialFindings(t *testing.T) {
	for metrics, partial := range map[moment.Metrics]bool{nil: false, unreadable{}: true} {
		w := newAsker(t, recorded(t).session, Options{Findings: findings.Reader{Metrics: metrics}}).get(
			"/api/history/findings")
		_, refused := w.Header()["Etag"]
		says.True(t, w.Code == http.StatusOK && refused == partial, "partial %t: %d %v %s", partial, w.Code, w.Header(),
			w.Body)
	}
}

// constant are metrics of which every series has one value, for the datasets that are named.
type constant struct {
	value             float64
	dataset, operator string
	asked             []string
}

func (c *constant) Values(_ context.Context, _ layout.Session, _ bool, _ time.Time, expression string,
	see func(func(string) string, float64)) error {
	c.asked = append(c.asked, expression)
	see(func(label string) string {
		switch {
		case label == "dataset":
			return c.dataset
		case label == "operator" && strings.Contains(expression, "operator"):
			return c.operator
		}
		return ""
	}, c.value)
	return nil
}

// TestDatasetsOfMetrics: where Ray had no Prometheus to ask, the columns that it would have filled come from the stored
// metrics.
func TestDatasetsOfMetrics(t *testing.T) {
	rec := recording.OpenNamed(t, "ray-2.60-wide")
	s := load(t, rec.Store(), rec.Session)
	plain := newAsker(t, s, Options{})
	var path string
	var row *pyjson.Object
	for _, job := range []string{"01000000", "02000000", "03000000", "04000000", "05000000", "06000000", "07000000",
		"08000000", "09000000"} {
		path = "/api/data/datasets/" + job
		body := must.Get(pyjson.ParseObject(plain.get(path).Body.Bytes()))(t)
		if list := body.List("datasets"); len(list) > 0 {
			row = list[0].(*pyjson.Object)
			break
		}
	}
	operator := row.List("operators")[0].(*pyjson.Object)
	metrics := &constant{value: 2.5, dataset: row.String("dataset"), operator: operator.String("operator")}
	before := plain.get(path).Body.String()
	w := newAsker(t, s, Options{Findings: findings.Reader{Metrics: metrics}}).get(path)
	must.True(t, w.Code == http.StatusOK, "%v %v", w.Code, w.Body)
	body := must.Get(pyjson.ParseObject(w.Body.Bytes()))(t)
	filled := body.List("datasets")[0].(*pyjson.Object)
	for _, of := range []*pyjson.Object{filled, filled.List("operators")[0].(*pyjson.Object)} {
		cpu := of.Object("ray_data_cpu_usage_cores")
		says.True(t, cpu.String("value") == "2.5" && cpu.String("max") == "2.5", "CPU: %s", pyjson.Append(nil, cpu))
		rows := of.Object("ray_data_output_rows")
		says.True(t, rows.Len() == 1 && rows.String("max") == "2.5", "rows: %s", pyjson.Append(nil, rows))
	}
	says.True(t, len(metrics.asked) != 0 &&
		strings.Contains(strings.Join(metrics.asked, "\n"),
			"max_over_time(sum by (dataset, operator) (ray_data_output_rows)["), "asks %q", metrics.asked)
	says.Equal(t, plain.get(path).Body.String(), before, "what is kept of the snapshot was changed")
}

func wide(t *testing.T) *asker {
	t.Helper()
	rec := recording.OpenNamed(t, "ray-2.60-wide")
	return newAsker(t, load(t, rec.Store(), rec.Session), Options{})
}

func TestServeApplicationsByAPI(t *testing.T) {
	a := wide(t)
	for query, want := range map[string]int{"": 2, "?api_type=Declarative": 2, "?api_type=imperative": 0} {
		body := must.Get(pyjson.ParseObject(a.get("/api/serve/applications/" + query).Body.Bytes()))(t)
		says.Equal(t, body.Object("applications").Len(), want, "%q: applications", query)
	}
	w := a.get("/api/serve/applications/?api_type=unknown")
	if want := "Invalid 'api_type' value: 'unknown'. Must be one of: imperative, declarative"; w.Code != http.StatusBadRequest || w.Body.String() != want {
		t.Errorf("%d %s, want 400 %s", w.Code, w.Body, want)
	}
}

// TestSecretsOfTasks: the same rule as for other rows holds for tasks, which are written by an encoder of their own.
func TestSecretsOfTasks(t *testing.T) {
	a := wide(t)
	const secret = "not-a-real-secret"
	for agent, shown := range map[string]bool{"python-requests": true, "Mozilla/5.0": false} {
		text := a.with("User-Agent", agent,
			"/api/v0/tasks?detail=1&filter_keys=name&filter_predicates=%3D&filter_values=with_env")
		says.True(t, strings.Contains(text, secret) == shown && strings.Contains(text, "<redacted>") != shown &&
			strings.Contains(text, "API_TOKEN"), "%s: %s", agent, text)
	}
}
