package moment

import (
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TestLearn: only what Ray's own sentence says about the submission counts, not what the reason of a failure repeats.
func TestLearn(t *testing.T) {
	for message, want := range map[string]evidence{
		"Started a ray job a.":                               {started: int64(7 * time.Second)},
		"Completed a ray job a with a status STOPPED.":       {completed: int64(7 * time.Second), status: Stopped},
		"Completed a ray job other with a status SUCCEEDED.": {},
		"Completed a ray job a with a status UNKNOWN.":       {},
		"Completed a ray job a with a status FAILED. Job supervisor actor died: it ended with a status SUCCEEDED.\nv1.0": {
			completed: int64(7 * time.Second), status: Failed,
			failure: "Job supervisor actor died: it ended with a status SUCCEEDED.\nv1.0",
		},
	} {
		var e evidence
		if e.learn("a", pyjson.Obj("message", message, "timestamp", pyjson.Number("7"))); e != want {
			t.Errorf("%s: %+v, want %+v", message, e, want)
		}
	}
	for failure, want := range map[string]string{
		"runtime_env setup failed: x":                    "RUNTIME_ENV_SETUP_FAILURE",
		"Job supervisor actor could not be scheduled: x": "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
		"Job supervisor actor died: x":                   "JOB_SUPERVISOR_ACTOR_DIED",
		"Unexpected error occurred: x":                   "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", "else": "",
	} {
		if got := failureType(failure); got != want {
			t.Errorf("%s: %s, want %s", failure, got, want)
		}
	}
}
