package findings_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// idOfTask is the ID that failedTask gives a task of the job 00000001.
func idOfTask(name string) []byte {
	return append([]byte((name + strings.Repeat("x", 20))[:20]), 0, 0, 0, 1)
}

// executed returns the profile event of a task of the job 00000001 whose function ended at 10:15:54, with what it raised.
func executed(name, raised string) string {
	at := time.Date(2026, 11, 22, 10, 15, 54, 0, time.UTC).UnixNano()
	return eventOf("p"+name, "TASK_PROFILE_EVENT", "taskProfileEvents", fmt.Sprintf(
		`"taskId": "%s", "jobId": "AAAAAQ==", "attemptNumber": 0, "profileEvents": {"componentType": "worker", "events": [{"startTime": "%d", "endTime": "%d", "eventName": "task:execute", "extraData": %q}]}`,
		base64.StdEncoding.EncodeToString(idOfTask(name)), at-9e9, at, fmt.Sprintf(`{"traceback": %q}`, raised)))
}

// TestChainOfTimeouts: of tasks that wait for each other and give up one after the other, the one counts that did not
// come to its end, also if only the worker of one in between says that it had given up, as its caller ended just then.
func TestChainOfTimeouts(t *testing.T) {
	const gaveUp = "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."
	running := func(parent []byte, name, since string) []string {
		return submittedBy(parent, failedTask(1, name, "", ""), since, since, "RUNNING")
	}
	failed := func(parent []byte, name, raised, at, ended string) []string {
		return submittedBy(parent, failedTask(1, name, "TASK_EXECUTION_EXCEPTION", trace(raised)), at, ended, "FAILED")
	}
	const none = "TimeoutError: no plan for eod"
	for name, c := range map[string]struct {
		plan  []string
		title string // of the root cause
	}{
		"it is told": {failed(idOfTask("schedule"), "plan", gaveUp, "10:15:44", "10:15:54"), "resolve did not finish: it had been running for 9s when plan stopped waiting"},
		"its worker tells": {append(running(idOfTask("schedule"), "plan", "10:15:44"), executed("plan", trace(gaveUp))),
			"resolve did not finish: it had been running for 9s when plan stopped waiting"},
		"it failed": {append(running(idOfTask("schedule"), "plan", "10:15:44"), executed("plan", trace("OSError: torn page"))), "plan failed: OSError: torn page"},
		"it runs":   {running(idOfTask("schedule"), "plan", "10:15:44"), "resolve did not finish: it had been running for 10s when schedule stopped waiting"},
		"it ended":  {append(running(idOfTask("schedule"), "plan", "10:15:44"), executed("plan", "")), "schedule failed: " + none},
	} {
		events := slices.Concat(failed(driver(1), "schedule", none, "10:15:43", "10:15:55"), c.plan,
			running(idOfTask("plan"), "resolve", "10:15:45"), []string{driverOf(1, "raysubmit_bad")})
		_, chain := badJob(t, submissionWithLog(t, 1, trace(none), events...))
		if got := chain[len(chain)-1].Title; !strings.HasPrefix(got, c.title) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestOwnerThatWasKilled: a lost object's owner ended because somebody wanted it, of which no finding tells.
func TestOwnerThatWasKilled(t *testing.T) {
	worker := slices.Repeat([]byte{7}, 28)
	const lost = "ray.exceptions.OwnerDiedError: Failed to retrieve object 00ffffffffffffffffffffffffffffffffffffff0100000002000000. " +
		"To see information about where this ObjectRef was created in Python, set the environment variable RAY_record_ref_creation_sites=1 during `ray start` and `ray.init()`.\n\n" +
		"The object's owner has exited. This is the Python worker that first created the ObjectRef via `.remote()` or `ray.put()`. Check cluster logs (`/tmp/ray/session_latest/logs/*%s*` at IP address 10.0.0.1) for more information. Owner worker ID: %s"
	said := fmt.Sprintf(lost, strings.Repeat("07", 28), strings.Repeat("07", 28))
	for how, title := range map[string]string{
		"because it was killed by `ray.kill`.":              ", because it was killed by `ray.kill`. The object's owner has exited.",
		"because all references to the actor were removed.": ", because all references to the actor were removed. The object's owner has exited.",
		"because it exited by `exit_actor`.":                ", because it exited by `exit_actor`. The object's owner has exited.",
		"":                                                  ". The object's owner has exited.",
	} {
		actor := deadActor("TileCache", "actorDiedErrorContext", strings.TrimSpace("The actor is dead "+how), "")[:2]
		actor[1] = strings.NewReplacer(`"stateTransitions": [`, `"stateTransitions": [{"state": "ALIVE", "timestamp": "2026-11-22T10:15:45Z", "workerId": "`+
			base64.StdEncoding.EncodeToString(worker)+`"}, `, `"errorMessage"`, `"reason": "RAY_KILL", "errorMessage"`).Replace(actor[1])
		events := slices.Concat(actor, failedTask(1, "mosaic", "TASK_EXECUTION_EXCEPTION", trace(said)), []string{driverOf(1, "raysubmit_bad")})
		_, chain := badJob(t, submissionWithLog(t, 1, trace(said), events...))
		want := "mosaic failed: OwnerDiedError: Failed to retrieve an object whose owner, actor TileCache, had ended" + title
		says.Equal(t, chain[len(chain)-1].Title, want, "%s", how)

		// Ray kept only the end of the task's error, and the driver has words of its own.
		_, cut, _ := strings.Cut(said, "during ")
		events[len(actor)+1] = failedTask(1, "mosaic", "TASK_EXECUTION_EXCEPTION", cut)[1]
		_, chain = badJob(t, submissionWithLog(t, 1, trace("RuntimeError: 0 of 2 tiles are there"), events...))
		because := strings.TrimSuffix(title, ". The object's owner has exited.")
		want = "mosaic failed: OwnerDiedError: an object was lost: its owner, actor TileCache, has died" + because + "."
		says.Equal(t, chain[len(chain)-1].Title, want, "%s, cut", how)
	}
}

// TestToldToExit: a worker that is told to exit, and a task that is cancelled, raise no exception of their own.
func TestToldToExit(t *testing.T) {
	for raised, counts := range map[string]bool{"SystemExit: 1": false, "KeyboardInterrupt": false, "OSError: torn page": true} {
		events := slices.Concat(submittedBy(driver(1), failedTask(1, "plan", "", ""), "10:15:44", "10:15:45", "RUNNING"),
			[]string{executed("plan", trace(raised)), driverOf(1, "raysubmit_bad")})
		r, _ := badJob(t, submissionWithLog(t, 1, trace("RuntimeError: no plan"), events...))
		says.Equal(t, strings.Contains(r.Findings[0].Title, "plan failed: "), counts, "%s: %+v", raised, r.Findings[0])
	}
}

// TestCancelledByOthers: a driver with words of its own is told which of its tasks somebody had cancelled before.
func TestCancelledByOthers(t *testing.T) {
	for said, told := range map[string]bool{"RuntimeError: cross-validation has no fold 2": true, "KeyError: 'sku'": false} {
		events := append(failedTask(1, "fit_fold", "TASK_CANCELLED", "RpcError: RPC error: Socket closed rpc_code: 14"), driverOf(1, "raysubmit_bad"))
		events[1] = strings.Replace(events[1], `"workerId": ""`, `"workerId": "`+base64.StdEncoding.EncodeToString(slices.Repeat([]byte{7}, 28))+`"`, 1)
		_, chain := badJob(t, submissionWithLog(t, 1, trace(said), events...))
		if got := chain[len(chain)-1].Title; strings.HasSuffix(got, "; before that fit_fold was cancelled") != told {
			t.Errorf("%s", got)
		}
	}
}

// TestCancelledUnseen: a call that was cancelled while it ran has finished to Ray; only its worker tells. A driver that
// then ends with an exception that its own code raised is told of it, but not of one that ended by itself or long ago.
func TestCancelledUnseen(t *testing.T) {
	const raises = "Traceback (most recent call last):\n  File \"/app/a.py\", line 7, in <module>\n    raise LookupError(day)\nLookupError: no rates for 2026-11-21\n"
	for name, c := range map[string]struct {
		log, raised string
		told        bool
	}{
		"its own exception": {raises, "KeyboardInterrupt", true},
		"a general one":     {trace("RuntimeError: no rates"), "KeyboardInterrupt", true},
		"a mistake":         {trace("KeyError: 'day'"), "KeyboardInterrupt", false},
		"another exception": {raises, "OSError: torn page", false},
		"none":              {raises, "", false},
	} {
		raised := ""
		if c.raised != "" {
			raised = trace(c.raised)
		}
		events := append(submittedBy(driver(1), failedTask(1, "fetch", "", ""), "10:15:44", "10:15:54", "FINISHED"),
			executed("fetch", raised), driverOf(1, "raysubmit_bad"))
		_, chain := badJob(t, submissionWithLog(t, 1, c.log, events...))
		if got := chain[len(chain)-1].Title; strings.HasSuffix(got, "; before that fetch was cancelled") != c.told {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestTellingCall: a call's exception of a type that tells what it is needs no line of a worker before it.
func TestTellingCall(t *testing.T) {
	const printed = "\x1b[36m(audit pid=7)\x1b[0m ERROR cache of lake-7 is cold\n"
	for raised, told := range map[string]bool{"acme.SchemaError: column 7 is text": false, "RuntimeError: column 7 is text": true,
		"zipfile.BadZipFile: File is not a zip file": false} {
		kind := raised[strings.Index(raised, ".")+1 : strings.Index(raised, ":")]
		log := printed + trace("ray.exceptions.RayTaskError("+kind+"): ray::parse() (pid=9, ip=10.0.0.2)\n  File \"/app/a.py\", line 3, in parse\n    check()\n"+raised)
		_, chain := badJob(t, submissionWithLog(t, 1, log, driverOf(1, "raysubmit_bad")))
		if got := chain[len(chain)-1].Title; strings.Contains(got, "cache of lake-7") != told {
			t.Errorf("%s: %s", raised, got)
		}
	}
}
