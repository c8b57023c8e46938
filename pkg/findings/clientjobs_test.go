package findings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestClientsJob: what failed on the server of Ray Client that ended with a submission explains the submission's end,
// and the server is no job of its own. A submission that did not use the client has no server, and of two that ended
// together neither has one.
func TestClientsJob(t *testing.T) {
	const uses = "2026-11-22 10:10:02,000\tINFO client_builder.py:262 -- Passing the following kwargs to ray.init() " +
		"on the server: log_to_driver\n"
	row := func(kind, job, submission, entrypoint, status, from, to string) string {
		return fmt.Sprintf(`{"type": "%s", "job_id": %s, "submission_id": %s, `+
			`"entrypoint": "%s", "status": "%s", "message": "", "driver_exit_code": `+
			`1, "start_time": %d, "end_time": %d}`,
			kind, job, submission, entrypoint, status, rayevents.At(from)/1e6, rayevents.At(to)/1e6)
	}
	for _, c := range []struct {
		log, others string
		joined      bool
	}{{uses, "planning\n", true}, {"planning\n", "planning\n", false}, {uses, uses, false}} {
		dir := rareEvents(t, slices.Concat(rayevents.Of("NODE"),
			failedTask(1, "make_plan", "TASK_EXECUTION_EXCEPTION", trace("ValueError: depot 7 is closed"))))
		put(t, dir, layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, "/api/jobs/"), "["+strings.Join([]string{
			row("SUBMISSION", "null", `"long"`, "python long.py", "SUCCEEDED", "10:10:00", "10:16:09"),
			row("SUBMISSION", "null", `"plan"`, "python plan.py", "FAILED", "10:10:00", "10:15:57"),
			row("SUBMISSION", "null", `"other"`, "python other.py", "FAILED", "10:10:00", "10:15:58"),
			row("DRIVER", `"00000001"`, "null", "python -m ray.util.client.server --port=23000 --mode=specific-server",
				"SUCCEEDED",
				"10:10:05", "10:15:56"),
		}, ",")+"]")
		storeLog(t, dir, "job-driver-plan.log", c.log+"no plan today\n")
		storeLog(t, dir, "job-driver-long.log", uses)
		storeLog(t, dir, "job-driver-other.log", c.others)
		r := report(t, load(t, dir, rayevents.Session, nil))
		at := slices.IndexFunc(r.Jobs, func(j findings.Job) bool { return j.SubmissionID == "plan" })
		first := r.Finding(r.Jobs[at].Findings[0]).Title
		says.Equal(t, strings.HasPrefix(first, "make_plan failed: ValueError: depot 7 is closed"), c.joined, "%s, %+v",
			first, r.Jobs)
		says.Equal(t, r.Jobs[at].JobID == "00000001" && len(r.Jobs) == 3, c.joined, "%+v", r.Jobs)
	}
}

// TestCaughtSignal: a driver that Ray's handler of signals ended was ended by the signal, whatever its exit code is.
func TestCaughtSignal(t *testing.T) {
	const caught = "encoding shard 7\n*** SIGTERM received at time=1796071770 on cpu 1 ***\n" +
		"PC: @     0x7f05  (unknown)  kill\n"
	for log, want := range map[string]string{
		caught:                       "The driver of job raysubmit_bad was ended by SIGTERM (exit code %d)",
		caught + "3 parts are bad\n": "Job raysubmit_bad failed with exit code %d: 3 parts are bad",
	} {
		for _, code := range []int{1, 15} {
			_, chain := badJob(t, submissionWithLog(t, code, log))
			says.Equal(t, chain[0].Title, fmt.Sprintf(want, code))
		}
	}
	_, chain := badJob(t, submissionWithLog(t, 1, trace("ValueError: shard 7 is torn")+caught)) // of its child
	says.True(t, strings.HasPrefix(chain[0].Title, "Job raysubmit_bad failed: ") &&
		strings.HasSuffix(chain[0].Title, "ValueError: shard 7 is torn"), "%s", chain[0].Title)
}

// TestOperatorOfDataset: a dataset whose driver ended before Ray knew of the failed task names the operator that Data's
// own log names.
func TestOperatorOfDataset(t *testing.T) {
	const abort = "2026-11-22 10:15:55,900\tERROR streaming_executor_state.py:733 " +
		"-- An exception was raised from a task of operator \"MapBatches(Captioner)\". Dataset execution " +
		"will now abort. To ignore it, set max_errored_blocks.\n"
	ignored := strings.NewReplacer("Captioner", "Resizer", "Dataset execution will now abort.",
		"Ignoring this exception with remaining max_errored_blocks=2.").Replace(abort)
	for log, want := range map[string]string{
		"ray-data/ray-data-captions_3.log": "Dataset captions_3 failed: an exception was raised " +
			"from a task of operator \"MapBatches(Captioner)\"",
		"ray-data/ray-data-others_4.log": "Dataset captions_3 failed",
	} {
		dir := submissionWithLog(t, 1, "20 captions were written\n", driverOf(1, "raysubmit_bad"))
		put(t, dir, layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, "/api/data/datasets/00000001"),
			`{"datasets": [{"dataset": "captions_3", "job_id": "00000001", "state": "FAILED"}]}`)
		storeLog(t, dir, log, ignored+abort)
		r, _ := badJob(t, dir)
		at := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return f.Kind == findings.Data })
		says.Equal(t, r.Findings[at].Title, want, "%s", log)
	}
}
