package findings_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// TestBehind: a call that never ended is told with the call that its actor's process had been running since before.
func TestBehind(t *testing.T) {
	worker := func(n byte) string {
		return `"workerId": "` + base64.StdEncoding.EncodeToString(slices.Repeat([]byte{n}, 28)) + `"`
	}
	call := func(parent []byte, name, since string, n byte) []string {
		events := submittedBy(parent, failedTask(1, name, "", ""), since, since, "RUNNING")
		return []string{events[0], strings.Replace(events[1], `"workerId": ""`, worker(n), 1)}
	}
	const own, timeout = "acme.AggregationFailed: upstream slow, giving up", "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."
	for name, c := range map[string]struct {
		raised, reload string // what the task raised, and when the other call began
		n              byte   // where the other call ran
		want           string
	}{
		"in words of its own":       {own, "10:15:40", 7, "it had left quotes, which had been running for 10s behind reload"},
		"a timeout of Ray":          {timeout, "10:15:40", 7, "quotes did not finish: it had been running for 10s behind reload when summary stopped waiting for it (GetTimeoutError)"},
		"it began later":            {own, "10:15:47", 7, "it had left quotes, which had been running for 10s"},
		"in another process":        {own, "10:15:40", 8, "it had left quotes, which had been running for 10s"},
		"a timeout, and it is none": {timeout, "10:15:40", 8, "quotes did not finish: it had been running for 10s when summary stopped waiting for it (GetTimeoutError)"},
	} {
		summary := submittedBy(driver(1), failedTask(1, "summary", "TASK_EXECUTION_EXCEPTION", trace(c.raised)), "10:15:44", "10:15:55", "FAILED")
		events := slices.Concat(summary, call(driver(1), "reload", c.reload, c.n), call(idOfTask("summary"), "quotes", "10:15:45", 7),
			[]string{driverOf(1, "raysubmit_bad")})
		_, chain := badJob(t, submissionWithLog(t, 1, "totals were not refreshed, giving up\n", events...))
		if got := chain[len(chain)-1].Title; !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestPrintedByOthers: a driver that found nothing has before that what the process of another job's actor printed that
// it had asked.
func TestPrintedByOthers(t *testing.T) {
	score := append([]byte("score"+strings.Repeat("x", 15)), 0, 0, 0, 5)
	const none = "TypeError: 'NoneType' object is not subscriptable"
	for name, c := range map[string]struct {
		raised, printed string
		caller          []byte // of the actor: a driver or a task
		told            string
	}{
		"a thread failed":     {none, "Exception in thread Thread-2:\n" + trace("json.decoder.JSONDecodeError: Expecting value"), driver(5), "JSONDecodeError: Expecting value"},
		"it logged an error":  {none, "2026-11-22 10:15:50,094 ERROR models.json has no entry for churn\n", driver(5), "models.json has no entry for churn"},
		"a key":               {"KeyError: 'churn'", trace("OSError: torn page"), driver(5), "OSError: torn page"},
		"it says all itself":  {"ValueError: version 7 is too old", trace("OSError: torn page"), driver(5), ""},
		"nobody asked it":     {none, trace("OSError: torn page"), driver(6), ""},
		"a task asked it":     {none, trace("OSError: torn page"), score, "OSError: torn page"},
		"another task did":    {none, trace("OSError: torn page"), idOfTask("score"), ""},
		"it printed no error": {none, "models are loaded\n", driver(5), ""},
	} {
		actor := deadActor("Registry", "x", "x", "WORKER_DIED")
		actor[1] = strings.NewReplacer(`"state": "DEAD", "timestamp": "2026-11-22T10:15:55Z"`,
			`"state": "ALIVE", "timestamp": "2026-11-22T10:01:00Z", "workerId": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw==", "nodeId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ=="`,
			`"deathCause"`, `"noCause"`).Replace(actor[1])
		actor[2] = strings.Replace(actor[2], `"actorTaskName"`, fmt.Sprintf(`"parentTaskId": "%s", "actorTaskName"`,
			base64.StdEncoding.EncodeToString(c.caller)), 1)
		actor[3] = strings.NewReplacer(`"FAILED"`, `"FINISHED"`, `"rayErrorInfo"`, `"noError"`).Replace(actor[3])
		events := append(actor, driverOf(5, "raysubmit_bad"))
		if c.caller[0] == 's' {
			events = append(events, failedTask(5, "score", "TASK_EXECUTION_EXCEPTION", trace(none))...)
		}
		dir := submissionWithLog(t, 1, trace(c.raised), events...)
		storeLog(t, dir, "worker-"+strings.Repeat("07", 28)+"-ffffffff-7.err", c.printed)
		_, chain := badJob(t, dir)
		_, got, told := strings.Cut(chain[len(chain)-1].Title, "; before that Registry printed: ")
		if told != (c.told != "") || !strings.HasSuffix(got, c.told) {
			t.Errorf("%s: %s", name, chain[len(chain)-1].Title)
		}
	}
}

// TestBrokenPipe: before a broken pipe of its entrypoint comes what the program said that did not read it to its end.
func TestBrokenPipe(t *testing.T) {
	const pipe = "BrokenPipeError: [Errno 32] Broken pipe"
	for name, c := range map[string]struct{ entrypoint, said, raised, told string }{
		"words that are no error": {"python a.py | python b.py", "load: column 'vat_id' is not in the header\n", pipe, "load: column 'vat_id' is not in the header"},
		"an error":                {"python a.py | python b.py", "error: table is locked\nsee you\n", pipe, "error: table is locked"},
		"an exception":            {"python a.py | python b.py", trace("ValueError: 3 columns"), pipe, "ValueError: 3 columns"},
		"no pipe":                 {"python a.py", "epoch 3 is over\n", pipe, ""},
		"another exception":       {"python a.py | python b.py", "epoch 3 is over\n", "ValueError: 3 columns", ""},
	} {
		events := []string{driverOf(1, "raysubmit_bad")}
		for _, e := range submission("raysubmit_bad") {
			events = append(events, strings.NewReplacer(`"driverExitCode": 3`, `"driverExitCode": 1`,
				"python raysubmit_bad.py", c.entrypoint).Replace(e))
		}
		dir := rareEvents(t, events)
		storeLog(t, dir, "job-driver-raysubmit_bad.log", c.said+trace(c.raised))
		_, chain := badJob(t, dir)
		_, got, _ := strings.Cut(chain[len(chain)-1].Title, "; before that ")
		if got != c.told {
			t.Errorf("%s: %s", name, chain[len(chain)-1].Title)
		}
	}
}

// TestStoppedJob: a submission that somebody stopped is the cause of an end whose words name it.
func TestStoppedJob(t *testing.T) {
	for name, c := range map[string]struct {
		id, said, ended string // of the other submission, the last words, and when the other one was stopped
		told            bool
	}{
		"a file that it should bring": {"etl-extract", "publish: etl-extract has not delivered, nothing to publish\n", "10:15:50.500", true},
		"an exception":                {"etl-extract", trace("RuntimeError: no marker of etl-extract after 900 s"), "10:15:50.500", true},
		"it may be a function":        {"etl_extract", trace("RuntimeError: no marker of etl_extract after 900 s"), "10:15:50.500", false},
		"an ID of one word":           {"extract", "nothing to extract from\n", "10:15:50.500", false},
		"a part of a longer word":     {"etl-extract", "etl-extract-daily has 0 rows\n", "10:15:50.500", false},
		"it is not named":             {"etl-extract", "nothing to publish\n", "10:15:50.500", false},
		"before the job began":        {"etl-extract", "etl-extract has not delivered\n", "10:05:50.500", false},
		"a mistake in code":           {"etl-extract", trace("KeyError: 'etl-extract'"), "10:15:50.500", false},
	} {
		events := []string{driverOf(1, "raysubmit_bad"), driverOf(5, c.id)}
		for _, e := range submission("raysubmit_bad") {
			events = append(events, strings.ReplaceAll(e, `"driverExitCode": 3`, `"driverExitCode": 1`))
		}
		for _, e := range submission("raysubmit_good") {
			events = append(events, strings.NewReplacer("raysubmit_good", c.id, "SUCCEEDED", "STOPPED", "10:16:00.500", c.ended).Replace(e))
		}
		dir := rareEvents(t, events)
		storeLog(t, dir, "job-driver-raysubmit_bad.log", c.said)
		_, chain := badJob(t, dir)
		first := chain[len(chain)-1]
		if told := first.Title == "Job "+c.id+" was stopped" && first.Severity == findings.Error; told != c.told {
			t.Errorf("%s: %s (%s)", name, first.Title, first.Severity)
		}
	}
}

// TestEndedWell: what happened to a detached actor after its job had succeeded is no failure of that job.
func TestEndedWell(t *testing.T) {
	for ended, told := range map[string]bool{"10:10:00.500": false, "10:16:00.500": true} {
		events := append(deadActor("Store", "actorDiedErrorContext", "The actor is dead because its node has died.", "ACTOR_DIED"),
			driverOf(1, "raysubmit_good"))
		for _, e := range submission("raysubmit_good") {
			events = append(events, strings.ReplaceAll(e, "10:16:00.500", ended))
		}
		r := report(t, load(t, rareEvents(t, events), rayevents.Session, nil))
		if len(r.Findings) == 0 || len(r.Jobs) != 1 || (len(r.Jobs[0].Findings) > 0) != told {
			t.Errorf("ended at %s: %+v, of it %+v", ended, r.Findings, r.Jobs)
		}
	}
}
