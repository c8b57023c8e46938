package findings_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
)

// jobID is the ID of the n-th job.
func jobID(n int) []byte { return []byte{1, 0, byte(n >> 8), byte(n)} }

// attemptIn returns the events of the attempt number n of a task, of a job: in its last state since the session's first
// minutes.
func attemptIn(job, n int, state, failure string) []string {
	id := slices.Concat(fmt.Appendf(nil, "%020d", n), jobID(job))
	about := fmt.Sprintf(`"taskId": "%s", "jobId": "%s", "taskAttempt": 0`, base64.StdEncoding.EncodeToString(id),
		base64.StdEncoding.EncodeToString(jobID(job)))
	parent := base64.StdEncoding.EncodeToString(append([]byte(strings.Repeat("\xff", 20)), jobID(job)...))
	return []string{
		eventOf(fmt.Sprint("d", n), "TASK_DEFINITION_EVENT", "taskDefinitionEvent", about+fmt.Sprintf(
			`, "taskName": "f%d", "taskFunc": {"pythonFunctionDescriptor": {"moduleName": "m", "functionName": "f%d"}}, "taskType": "NORMAL_TASK", "parentTaskId": "%s"`, n%7, n%7, parent)),
		eventOf(fmt.Sprint("l", n), "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent", about+fmt.Sprintf(
			`, "stateTransitions": [{"state": "%s", "timestamp": "2026-11-22T10:15:55Z"}]%s, "nodeId": "", "workerId": ""`, state, failure)),
	}
}

// failedJobs stores a saved list of jobs that all failed.
func failedJobs(t *testing.T, dir string, n int) {
	t.Helper()
	savedJobs(t, dir, slices.Repeat([]string{jobstatus.Failed}, n))
}

// savedJobs stores a saved list of jobs with these statuses.
func savedJobs(t *testing.T, dir string, statuses []string) {
	t.Helper()
	var rows []string
	for i, status := range statuses {
		rows = append(rows, fmt.Sprintf(`{"type": "SUBMISSION", "job_id": "%x", "submission_id": "s%d", "status": "%s", "message": "Job entrypoint command failed with exit code 1", "driver_exit_code": 1, "start_time": %d, "end_time": %d}`,
			jobID(i), i, status, rayevents.At("10:10:00")/1e6, rayevents.At("10:19:00")/1e6))
	}
	put(t, dir, layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, "/api/jobs/"), "["+strings.Join(rows, ",\n")+"]")
}

// TestManyJobsWithUnendedAttempts: which attempts a job left is found without going through those of all jobs again.
func TestManyJobsWithUnendedAttempts(t *testing.T) {
	const jobs, attempts = 150, 3000
	var events []string
	for i := range attempts {
		events = append(events, attemptIn(i%jobs, i, []string{"RUNNING", "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER"}[i%3], "")...)
	}
	dir := rareEvents(t, events)
	failedJobs(t, dir, jobs)
	s := load(t, dir, rayevents.Session, nil)
	if used := storetest.Allocated(func() { report(t, s) }); used > 400*jobs*attempts/2 {
		t.Errorf("%d bytes were allocated", used)
	}
}

// TestMoreJobsThanAreExamined: summary and outcome are about all jobs, whether they were examined or not, and nothing
// says that a job which was not examined does not exist.
func TestMoreJobsThanAreExamined(t *testing.T) {
	for _, tt := range []struct {
		failed, succeeded, stopped int
		outcome, summary           string
	}{
		{3, 2100, 0, catalog.Failed, "3 of 2103 jobs failed"},
		{2050, 50, 0, catalog.Failed, "2050 of 2100 jobs failed"},
		{0, 2000, 1, catalog.Stopped, "Its jobs were stopped"},
	} {
		statuses := slices.Concat(slices.Repeat([]string{jobstatus.Succeeded}, tt.succeeded),
			slices.Repeat([]string{jobstatus.Failed}, tt.failed), slices.Repeat([]string{jobstatus.Stopped}, tt.stopped))
		dir := rareEvents(t, nil)
		savedJobs(t, dir, statuses)
		r := report(t, load(t, dir, rayevents.Session, nil))
		if r.Outcome != tt.outcome || !strings.Contains(r.Summary, tt.summary) {
			t.Errorf("%+v: %s, %s", tt, r.Outcome, r.Summary)
		}
		_, err := r.OfJob(fmt.Sprintf("s%d", tt.succeeded+tt.failed+tt.stopped-1))
		if last := statuses[len(statuses)-1]; last != jobstatus.Failed && (err == nil ||
			!strings.Contains(err.Error(), "may have more jobs")) {
			t.Errorf("%+v: a job that was not examined: %v", tt, err)
		}
	}
}

// TestManyThatSucceeded: logs of submissions that succeeded are read after those of the ones that failed, and not all.
func TestManyThatSucceeded(t *testing.T) {
	const jobs = 450 // more than the logs that one report reads
	dir := rareEvents(t, nil)
	var rows []string
	for i := range jobs {
		status, code, log := jobstatus.Succeeded, 0, "done\n"
		if i == jobs-1 {
			status, code, log = jobstatus.Failed, 1, trace("acme.TornError: shard 3 is torn")
		}
		rows = append(rows, fmt.Sprintf(`{"type": "SUBMISSION", "job_id": "%x", "submission_id": "s%d", "entrypoint": "bash run.sh", "status": "%s", "driver_exit_code": %d, "start_time": %d, "end_time": %d}`,
			jobID(i), i, status, code, rayevents.At("10:10:00")/1e6, rayevents.At("10:19:00")/1e6))
		storeLog(t, dir, fmt.Sprintf("job-driver-s%d.log", i), log)
	}
	put(t, dir, layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, "/api/jobs/"), "["+strings.Join(rows, ",\n")+"]")
	r := report(t, load(t, dir, rayevents.Session, nil))
	says.Equal(t, r.Findings[0].Title, "Job s449 failed: its driver raised TornError: shard 3 is torn")
	says.True(t, !strings.Contains(strings.Join(r.Missing, " "), "not looked at"), "%s", r.Missing)
}

// TestManyJobsThatFailedAlike: what jobs printed is not gone through once more for each of the other jobs that ran then.
func TestManyJobsThatFailedAlike(t *testing.T) {
	const jobs = 160
	printed := "\x1b[36m(step pid=7)\x1b[0m loss 0.25\n" + strings.Repeat("step 17 took 0.3 s\n",
		400) + trace("RuntimeError: no report")
	var rows []string
	for i := range jobs {
		message, at := "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"+printed, int64(i)
		rows = append(rows,
			fmt.Sprintf(`{"type": "SUBMISSION", "job_id": "%x", "submission_id": "s%d", "status": "FAILED", "message": %s, "driver_exit_code": 1, "start_time": %d, "end_time": %d}`,
				jobID(i), i, must.Get(json.Marshal(message))(t), rayevents.At("10:10:00")/1e6+at, rayevents.At("10:19:00")/1e6-at))
	}
	dir := rareEvents(t, nil)
	put(t, dir, layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, "/api/jobs/"), "["+strings.Join(rows,
		",\n")+"]")
	s := load(t, dir, rayevents.Session, nil)
	if used := storetest.Allocated(func() { report(t, s) }); used > uint64(60*jobs*len(printed)) {
		t.Errorf("%d bytes were allocated, the logs have %d", used, jobs*len(printed))
	}
}
