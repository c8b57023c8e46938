package dashboard

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// steps are the events of a submission whose entrypoint ran two programs that connected to Ray, one after the other:
// jobs 2, from 10:05 to 10:07, and 3, from 10:10 to 10:12. Its supervisor ran from 10:04 to 10:14.
func steps() []string {
	events := rayevents.Of("NODE")
	add := func(format string, args ...any) {
		events = append(events, fmt.Sprintf(`{"sessionName": %q, "timestamp": "2026-11-22T10:14:00Z", `+format+`}`,
			append([]any{rayevents.Session.Name}, args...)...))
	}
	for i, id := range []string{"AgAAAA==", "AwAAAA=="} {
		add(`"eventType": "DRIVER_JOB_DEFINITION_EVENT", "driverJobDefinitionEvent": {"jobId": %q, "driverPid": "%d", "entrypoint": "python step.py", `+
			`"config": {"serializedRuntimeEnv": "{}", "metadata": {"job_submission_id": "steps"}}}`, id, 102+i)
		add(`"eventType": "DRIVER_JOB_LIFECYCLE_EVENT", "driverJobLifecycleEvent": {"jobId": %q, "stateTransitions": [`+
			`{"state": "CREATED", "timestamp": "2026-11-22T10:%02d:00Z"}, {"state": "FINISHED", "timestamp": "2026-11-22T10:%02d:00Z"}]}`,
			id, 5+5*i, 7+5*i)
	}
	const supervisor = `"AQIDBAUGBwgJCgsMAQAAAA=="`
	add(`"eventType": "ACTOR_DEFINITION_EVENT", "actorDefinitionEvent": {"actorId": ` + supervisor +
		`, "jobId": "AQAAAA==", "name": "_ray_internal_job_actor_steps", "className": "JobSupervisor"}`)
	add(`"eventType": "ACTOR_LIFECYCLE_EVENT", "actorLifecycleEvent": {"actorId": ` + supervisor +
		`, "stateTransitions": [{"state": "ALIVE", "timestamp": "2026-11-22T10:04:00Z"}, {"state": "DEAD", "timestamp": "2026-11-22T10:14:00Z"}]}`)
	return events
}

// savedSteps is the row of the submission as a dashboard showed it while it had its first or its second driver.
func savedSteps(driver int, status string) map[string]string {
	return map[string]string{"/api/jobs/": fmt.Sprintf(`[{"type": "SUBMISSION", "job_id": "0%d000000", "submission_id": "steps", `+
		`"driver_info": {"id": "0%[1]d000000", "node_ip_address": "10.0.0.1", "pid": "%d"}, "status": %q, "entrypoint": "bash steps.sh", "message": "saved", `+
		`"error_type": null, "start_time": 5, "end_time": null, "metadata": {}, "runtime_env": {}, `+
		`"driver_agent_http_address": null, "driver_node_id": null, "driver_exit_code": null}]`, driver, 100+driver, status)}
}

// TestDriversOfSubmission: of a submission with several drivers the last one is shown, and the one whose ID is asked for
// (find_job_by_ids in ray/dashboard/modules/job/utils.py).
func TestDriversOfSubmission(t *testing.T) {
	for name, a := range map[string]*asker{
		"events alone":                toldBy(t, steps(), nil),
		"saved at its end":            toldBy(t, steps(), savedSteps(3, "SUCCEEDED")),
		"saved with its first":        toldBy(t, steps(), savedSteps(2, "RUNNING")),
		"saved with its first, ended": toldBy(t, steps(), savedSteps(2, "SUCCEEDED")),
	} {
		for path, driver := range map[string]int{
			"/api/jobs/steps": 3, "/api/jobs/03000000": 3, "/api/jobs/02000000": 2,
		} {
			want := fmt.Sprintf(`{"type": "SUBMISSION", "job_id": "0%d000000", "submission_id": "steps", "driver_info": {"id": "0%[1]d000000", `, driver)
			got := a.get(path).Body.String()
			pid := fmt.Sprintf(`"pid": "%d"}`, 100+driver)
			says.True(t, strings.HasPrefix(got, want) && strings.Contains(got, pid), "%s: %s is %s", name, path, got)
		}
		if list, _ := a.body("/api/jobs/").([]any); len(list) != 1 || list[0].(*pyjson.Object).String("job_id") != "03000000" {
			t.Errorf("%s: listed are %v", name, list)
		}
		for path, want := range map[string]int{
			"/api/jobs/02000000/logs": http.StatusOK, "/api/jobs/01000000": http.StatusNotFound,
			"/api/jobs/04000000/logs": http.StatusNotFound,
		} {
			says.Equal(t, a.get(path).Code, want, "%s: %s has status", name, path)
		}
	}
}

// TestSubmissionBetweenDrivers: a submission runs on after a driver of it has ended, until its supervisor ends.
func TestSubmissionBetweenDrivers(t *testing.T) {
	for name, a := range map[string]*asker{
		"events alone": toldBy(t, steps(), nil), "saved later": toldBy(t, steps(), savedSteps(3, "SUCCEEDED")),
	} {
		for clock, want := range map[string]string{
			"10:03:00": "", "10:04:30": "RUNNING ", "10:06:00": "RUNNING 02000000", "10:08:00": "RUNNING 02000000",
			"10:11:00": "RUNNING 03000000", "10:13:00": "RUNNING 03000000", "10:15:00": "SUCCEEDED 03000000",
		} {
			a.at = rayevents.At(clock)
			got := ""
			list, _ := a.body("/api/jobs/").([]any)
			for _, row := range list {
				got += row.(*pyjson.Object).String("status") + " " + row.(*pyjson.Object).String("job_id")
			}
			says.Equal(t, got, want, "%s: at %s the submission", name, clock)
		}
	}
}

// TestSubmissionRunsOn: in a session that runs, a submission whose supervisor is alive runs, though its driver has
// ended. In one that is over, nothing says when it ended.
func TestSubmissionRunsOn(t *testing.T) {
	var events []string
	for _, e := range steps() {
		if !strings.Contains(e, "AwAAAA==") {
			events = append(events, strings.ReplaceAll(e, `, {"state": "DEAD", "timestamp": "2026-11-22T10:14:00Z"}`, ""))
		}
	}
	s := toldBy(t, events, nil).session
	for want, running := range map[string]func(context.Context) bool{"RUNNING": stillRunning, "SUCCEEDED": nil} {
		m := moment.Moment{Session: s, Running: running, Env: moment.NewEnv(logrus.New(), nil)}
		jobs := must.Get(m.Jobs(t.Context()))(t)
		says.True(t, len(jobs) == 1 && jobs[0].Status == want, "want %s: %+v", want, jobs)
	}
}

// TestLogsOfDrivers: the logs of a submission are those of all its drivers, each of which leads to the submission's own.
func TestLogsOfDrivers(t *testing.T) {
	dir, node := t.TempDir(), strings.Repeat("01", rayid.NodeSize)
	put(t, dir, rayevents.Key(), strings.Join(steps(), "\n")+"\n")
	worker := func(b string) string { return strings.Repeat(b, rayid.WorkerSize) }
	own := []string{
		"job-driver-steps.log", "worker-" + worker("0a") + "-02000000-7.out",
		"worker-" + worker("0b") + "-03000000-8.out", "python-core-worker-" + worker("0a") + "_7.log",
		"python-core-driver-02000000" + worker("ff")[8:] + "_102.log", "runtime_env_setup-02000000.log",
	}
	for _, name := range append(own, "worker-"+worker("0c")+"-04000000-9.out", "raylet.out", "gcs_server.out") {
		put(t, dir, layout.LogKey(layout.DefaultRoot, rayevents.Session, rayid.Node(bytes.Repeat([]byte{1}, rayid.NodeSize)),
			name), "a line\n")
	}
	m := moment.Moment{Session: load(t, dir, rayevents.Session), Env: moment.NewEnv(logrus.New(), nil)}
	drivers := must.Get(DriversOf(t.Context(), &m, "steps"))(t)
	var got []string
	for _, log := range (&logsearch.Selection{Submission: "steps", Drivers: drivers}).Of(m.Session.Logs) {
		got = append(got, log.Path)
	}
	if slices.Sort(own); !slices.Equal(got, own) {
		t.Errorf("the submission has the drivers %v and the logs\n%v, want\n%v", drivers, got, own)
	}
	for _, job := range []string{"02000000", "03000000"} {
		found, _, err := LogsAbout(t.Context(), &m, url.Values{"job_id": {job}})
		says.True(t, err == nil && len(found) != 0 && found[0].Path == "job-driver-steps.log" &&
			found[0].Node.String() == node, "about job %s: %v, %v", job, found, err)
	}
}

// TestFindingsOfDrivers: each driver's ID leads to the findings of its submission.
func TestFindingsOfDrivers(t *testing.T) {
	a := toldBy(t, steps(), nil)
	for id, status := range map[string]int{"02000000": 200, "03000000": 200, "steps": 200, "01000000": 404} {
		got := a.get("/api/history/findings?job_id=" + id)
		has := strings.Contains(got.Body.String(), `"earlier_job_ids":["02000000"]`)
		says.True(t, got.Code == status && has == (status == 200), "of %s: %d %s", id, got.Code, got.Body)
	}
}

// TestCompareDrivers: the functions of a submission are those of all its drivers.
func TestCompareDrivers(t *testing.T) {
	events := steps()
	for i, job := range []string{"AgAAAA==", "AwAAAA==", "BAAAAA=="} {
		id := base64.StdEncoding.EncodeToString(append(bytes.Repeat([]byte{byte(i + 1)}, 20), byte(i+2), 0, 0, 0))
		events = append(events, fmt.Sprintf(`{"sessionName": %q, "eventType": "TASK_DEFINITION_EVENT", "taskDefinitionEvent": {"taskId": %q, "jobId": %q, `+
			`"taskType": "NORMAL_TASK", "taskFunc": {"pythonFunctionDescriptor": {"functionName": "f"}}}}`, rayevents.Session.Name, id, job))
	}
	events = append(events, fmt.Sprintf(`{"sessionName": %q, "eventType": "DRIVER_JOB_DEFINITION_EVENT", "driverJobDefinitionEvent": {"jobId": "BAAAAA=="}}`,
		rayevents.Session.Name))
	s, entry := toldBy(t, events, nil).session, catalog.Entry{Ref: rayevents.Session}
	open := func(context.Context, catalog.Entry) (*moment.Moment, func(), error) {
		return &moment.Moment{Session: s, Env: moment.NewEnv(logrus.New(), nil)}, func() {}, nil
	}
	for _, job := range []string{"steps", "02000000", "03000000"} {
		report, err := New(Options{Log: logrus.New()}).Compare(t.Context(), open,
			compare.Question{Session: entry, With: &entry, Asked: compare.Asked{Job: job, WithJob: "04000000"}}, false, 0)
		says.True(t, err == nil && report.Session.Tasks.Attempts == 2 && report.With.Tasks.Attempts == 1, "%s: %+v, %v",
			job, report, err)
	}
}
