package dashboard

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// jobStates gives submission, status, exit code and entrypoint of all jobs.
func jobStates(a *asker) (text string) {
	list, _ := a.body("/api/jobs/").([]any)
	for _, v := range list {
		row := v.(*pyjson.Object)
		text += fmt.Sprintf("%s %s %v %s; ", row.String("submission_id"), row.String("status"),
			row.Get("driver_exit_code"), row.String("entrypoint"))
	}
	return text
}

// TestSubmissionsFromEvents: events tell what a live dashboard would have answered, at each moment.
func TestSubmissionsFromEvents(t *testing.T) {
	a := told(t, nil)
	const bad = `{"type": "SUBMISSION", "job_id": null, "submission_id": "raysubmit_bad", "driver_info": null, "status": "FAILED", ` +
		`"entrypoint": "python raysubmit_bad.py", "message": "Job entrypoint command failed with exit code 3", "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", ` +
		`"start_time": 1795341960000, "end_time": 1795342560500, "metadata": {"owner": "ann"}, "runtime_env": {"env_vars": {"SECRET": "s3cret"}, "pip": ["x"]}, ` +
		`"driver_agent_http_address": "http://10.0.0.1:52365", "driver_node_id": "01010101010101010101010101010101010101010101010101010101", "driver_exit_code": 3}`
	says.Equal(t, a.get("/api/jobs/raysubmit_bad").Body.String(), bad)
	got := a.get("/api/v0/jobs?detail=1").Body.String()
	says.True(t, strings.Contains(got, bad), "the State API lists %s", got)
	browser := a.with("User-Agent", "Mozilla/5.0", "/api/jobs/")
	says.None(t, browser, "s3cret")
	says.All(t, browser, "<redacted>")
	for clock, states := range map[string][]string{
		"10:05:59": nil, "10:06:01": {"PENDING <nil>", "PENDING <nil>", "PENDING <nil>"},
		"10:16:00": {"RUNNING <nil>", "RUNNING <nil>", "RUNNING <nil>"},
		"10:16:01": {"FAILED 3", "SUCCEEDED 0", "RUNNING <nil>"},
	} {
		want := ""
		for i, state := range states {
			name := []string{"raysubmit_bad", "raysubmit_good", "raysubmit_open"}[i]
			want += name + " " + state + " python " + name + ".py; "
		}
		a.at = rayevents.At(clock)
		says.Equal(t, jobStates(a), want, "at %s", clock)
	}
}

// TestSubmissionsFromAll: what a submission's own events leave out is told by its driver, its supervisor's log and the
// saved answer.
func TestSubmissionsFromAll(t *testing.T) {
	driver := fmt.Sprintf(`{"eventType": "DRIVER_JOB_DEFINITION_EVENT", "timestamp": "2026-11-22T10:06:06Z", "sessionName": %q, `+
		`"driverJobDefinitionEvent": {"jobId": "AgAAAA==", "driverPid": "7", "entrypoint": "python driver.py", `+
		`"config": {"serializedRuntimeEnv": "{}", "metadata": {"job_submission_id": "raysubmit_open"}}}}`,
		rayevents.Session.Name)
	ended := fmt.Sprintf(`{"eventType": "DRIVER_JOB_LIFECYCLE_EVENT", "timestamp": "2026-11-22T10:30:00Z", "sessionName": %q, `+
		`"driverJobLifecycleEvent": {"jobId": "AgAAAA==", "stateTransitions": [{"state": "FINISHED", "timestamp": "2026-11-22T10:30:00Z"}]}}`, rayevents.Session.Name)
	var open, lifecycle []string
	for _, e := range rayevents.Of("SUBMISSION") {
		if strings.Contains(e, "raysubmit_open") {
			open = append(open, e)
			if strings.Contains(e, "LIFECYCLE") {
				lifecycle = append(lifecycle, e)
			}
		}
	}
	saved := func(status, code string) map[string]string {
		return map[string]string{"/api/jobs/": `[{"type": "SUBMISSION", "job_id": null, "submission_id": "raysubmit_open", "driver_info": null, "status": "` + status +
			`", "entrypoint": "saved", "message": null, "error_type": null, "start_time": 5, "end_time": 6, "metadata": {"a": "b"}, "runtime_env": {}, ` +
			`"driver_agent_http_address": null, "driver_node_id": null, "driver_exit_code": ` + code + `}]`}
	}
	for name, tt := range map[string]struct {
		events []string
		saved  map[string]string
		want   string
	}{
		"no definition": {append(lifecycle, driver), nil, "raysubmit_open RUNNING <nil> python driver.py; "},
		"the driver ended": {append(open, driver, ended), nil,
			"raysubmit_open SUCCEEDED <nil> python raysubmit_open.py; "},
		"an older saved answer":  {open, saved("PENDING", "null"), "raysubmit_open RUNNING <nil> saved; "},
		"the saved answer's end": {open, saved("FAILED", "9"), "raysubmit_open FAILED 9 saved; "},
		"ended after it was saved": {[]string{driver, ended}, saved("PENDING", "null"),
			"raysubmit_open SUCCEEDED <nil> saved; "},
		"goes on since it was saved": {[]string{driver}, saved("RUNNING", "null"),
			"raysubmit_open RUNNING <nil> saved; "},
		"had ended when it was saved": {[]string{driver}, saved("SUCCEEDED", "null"),
			"raysubmit_open SUCCEEDED <nil> saved; "},
		"only saved": {rayevents.Of("NODE"), saved("RUNNING", "null"), "raysubmit_open RUNNING <nil> saved; "},
	} {
		t.Run(name, func(t *testing.T) { says.Equal(t, jobStates(toldBy(t, tt.events, tt.saved)), tt.want) })
	}
	// Its row was saved before it had a driver, though it was running.
	const found = `"job_id": "02000000", "submission_id": "raysubmit_open", "driver_info": {"id": "02000000", `
	a := toldBy(t, append(open, driver), saved("RUNNING", "null"))
	says.All(t, a.get("/api/jobs/02000000").Body.String(), found, `"metadata": {"a": "b"}`)
	a = toldBy(t, []string{driver, ended}, saved("PENDING", "null"))
	says.All(t, a.get("/api/jobs/raysubmit_open").Body.String(), `"job_id": "02000000"`,
		fmt.Sprintf(`"end_time": %d`, rayevents.At("10:30:00")/1e6), `"metadata": {"a": "b"}`)
}

// TestSubmissionEndsWithItsEvents: between the end of its driver and of a submission whose events tell that, it is
// running.
func TestSubmissionEndsWithItsEvents(t *testing.T) {
	events := append(rayevents.Of("SUBMISSION"),
		fmt.Sprintf(`{"sessionName": %q, "driverJobDefinitionEvent": {"jobId": "AgAAAA==", `+
			`"config": {"metadata": {"job_submission_id": "raysubmit_bad"}}}}`, rayevents.Session.Name),
		fmt.Sprintf(`{"sessionName": %q, `+
			`"driverJobLifecycleEvent": {"jobId": "AgAAAA==", "stateTransitions": [{"state": "FINISHED", "timestamp": "2026-11-22T10:16:00Z"}]}}`, rayevents.Session.Name))
	a := toldBy(t, events, nil)
	a.at = rayevents.At("10:16:00") + 1
	got := jobStates(a)
	says.True(t, strings.HasPrefix(got, "raysubmit_bad RUNNING <nil> "), got)
}

// TestShortDriver: a driver that began and ended between two answers of the dashboard that were stored was active then.
func TestShortDriver(t *testing.T) {
	events := append(rayevents.Of("NODE"),
		fmt.Sprintf(`{"sessionName": %q, "timestamp": "2026-11-22T10:16:00Z", "driverJobLifecycleEvent": {"jobId": "AgAAAA==", `+
			`"stateTransitions": [{"state": "CREATED", "timestamp": "2026-11-22T10:15:00Z"}, {"state": "FINISHED", "timestamp": "2026-11-22T10:16:00Z"}]}}`, rayevents.Session.Name))
	a := toldBy(t, events, map[string]string{
		"/api/component_activities": `{"driver": {"is_active": "INACTIVE", "reason": null, "timestamp": 5.0, "last_activity_at": null}}`})
	if got := a.get("/api/component_activities").Body.String(); !strings.Contains(got, `"is_active": "INACTIVE"`) ||
		!strings.Contains(got, `"last_activity_at": 1795342560.0`) {
		t.Error(got)
	}
}

// TestUnsavedSubmissions: without a saved list of jobs, events and logs tell how submissions ended, in Ray's words.
func TestUnsavedSubmissions(t *testing.T) {
	for _, name := range []string{"ray-2.55", "ray-2.60-wide"} {
		t.Run(name, func(t *testing.T) {
			rec := recording.OpenNamed(t, name)
			dir := rec.Store()
			for _, url := range []string{"/api/jobs/", "/api/v0/jobs?detail=1&limit=10000"} {
				must.OK(t, os.Remove(filepath.Join(dir,
					filepath.FromSlash(layout.SnapshotKey(layout.DefaultRoot, rec.Session, url)))))
			}
			a := newAsker(t, load(t, dir, rec.Session), Options{})
			seen := 0
			for _, answer := range rec.Golden() {
				if answer.URL != "/api/jobs/" {
					continue
				}
				list := must.Get(pyjson.Parse(answer.Body))(t)
				for _, v := range list.([]any) {
					want := v.(*pyjson.Object)
					id := want.String("submission_id")
					if id == "" {
						continue
					}
					seen++
					got := a.body("/api/jobs/" + id).(*pyjson.Object)
					for _, column := range []string{"status", "message", "error_type", "driver_exit_code",
						"driver_node_id", "driver_agent_http_address", "metadata"} {
						if got, want := pyjson.Append(nil, got.Get(column)),
							pyjson.Append(nil, want.Get(column)); !bytes.Equal(got, want) {
							t.Errorf("%s of %s:\ngot  %s\nwant %s", column, id, got, want)
						}
					}
				}
			}
			says.True(t, seen >= 4, "%d submissions", seen)
		})
	}
}

// TestJobsThatTheLastListLacks: a job that was deleted, or that a GCS which began anew does not know, is listed as it
// was before, at the end and at each moment since it existed.
func TestJobsThatTheLastListLacks(t *testing.T) {
	dir, key := t.TempDir(), layout.SnapshotKey(layout.DefaultRoot, lab, "/api/jobs/")
	row := func(id, status string, start string) string {
		return fmt.Sprintf(`{"type": "SUBMISSION", "submission_id": %q, "status": %q, "start_time": %d, "message": %q}`, id,
			status, at(start)/1e6, strings.Repeat("x", layout.JobBytes))
	}
	list := func(rows ...string) string { return "[" + strings.Join(rows, ", ") + "]" }
	a, b, c := row("a", "FAILED", "23:20:01"), row("b", "RUNNING", "23:20:02"), row("c", "SUCCEEDED", "23:24:00")
	put(t, dir, key, list(row("a", "RUNNING", "23:20:01")))
	for clock, body := range map[string]string{
		"23:21:00": list(a, b), "23:22:00": list(b), "23:23:00": list(), "23:25:00": list(c),
	} {
		put(t, dir, layout.SnapshotVersionKey(key, time.Unix(0, at(clock))), body)
	}
	asked := newAsker(t, load(t, dir, lab), Options{})
	for clock, want := range map[string]string{
		"23:21:30": "a FAILED, b RUNNING", "23:22:30": "b RUNNING, a FAILED", "23:23:30": "b RUNNING, a FAILED",
		"": "c SUCCEEDED, b RUNNING, a FAILED",
	} {
		if asked.at = 0; clock != "" {
			asked.at = at(clock)
		}
		var got []string
		for _, v := range asked.body("/api/jobs/").([]any) {
			job := v.(*pyjson.Object)
			got = append(got, job.String("submission_id")+" "+job.String("status"))
		}
		says.Equal(t, strings.Join(got, ", "), want, "at %q", clock)
	}
}

// TestJobsListedTwice: each job of a damaged list is listed once, and rows without an ID are no jobs.
func TestJobsListedTwice(t *testing.T) {
	const list = `[{"type": "SUBMISSION", "submission_id": "a", "status": "FAILED"}, ` +
		`{"type": "SUBMISSION", "status": "FAILED"}, ` +
		`{"type": "SUBMISSION", "submission_id": "a", "status": "RUNNING"}, ` +
		`{"type": "DRIVER", "job_id": "02000000", "status": "RUNNING"}, ` +
		`{"type": "DRIVER", "job_id": "02000000", "status": "SUCCEEDED"}, {"type": "DRIVER", "job_id": null}]`
	for url, answer := range map[string]string{
		"/api/jobs/": list, "/api/v0/jobs" + layout.AllRows: `{"data": {"result": {"result": ` + list + `}}}`,
	} {
		dir := t.TempDir()
		put(t, dir, layout.SnapshotKey(layout.DefaultRoot, lab, url), answer)
		var got []string
		for _, v := range newAsker(t, load(t, dir, lab), Options{}).body("/api/jobs/").([]any) {
			job := v.(*pyjson.Object)
			got = append(got, job.String("submission_id")+job.String("job_id")+" "+job.String("status"))
		}
		says.EqualSlices(t, got, []string{"a FAILED", "02000000 RUNNING"}, url)
	}
}
