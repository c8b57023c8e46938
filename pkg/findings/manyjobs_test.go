package findings_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
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
	var rows []string
	for i := range n {
		rows = append(rows, fmt.Sprintf(`{"type": "SUBMISSION", "job_id": "%x", "submission_id": "s%d", "status": "FAILED", "message": "Job entrypoint command failed with exit code 1", "driver_exit_code": 1, "start_time": %d, "end_time": %d}`,
			jobID(i), i, rayevents.At("10:10:00")/1e6, rayevents.At("10:19:00")/1e6))
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
