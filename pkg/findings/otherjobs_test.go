package findings_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// failedBefore returns the events of a submission that failed from 10:06 to 10:15, in the same session as
// raysubmit_bad.
func failedBefore(id string) (events []string) {
	for _, e := range submission("raysubmit_bad") {
		events = append(events, strings.NewReplacer("raysubmit_bad", id, "10:16:00.500Z", "10:15:00Z",
			`"eventId": "`, `"eventId": "Mg`).Replace(e))
	}
	return events
}

// TestStartedOtherJob: a job that ended with words of its own, and in which nothing had failed, has as its cause the
// other job that it had started, as its log or the other one's ID tells. What is a mistake of its own has not.
func TestStartedOtherJob(t *testing.T) {
	const said = "RuntimeError: the weekly report cannot be built"
	for name, c := range map[string]struct {
		other, printed, raised string
		linked                 bool
	}{
		"its log names the other":  {"raysubmit_qK7", "started raysubmit_qK7\n", said, true},
		"its ID begins the other":  {"raysubmit_bad-eu", "", said, true},
		"another one's ID":         {"raysubmit_badger", "", said, false},
		"nothing tells of it":      {"raysubmit_qK7", "started all\n", said, false},
		"a mistake":                {"raysubmit_bad-eu", "", "KeyError: 'eu'", false},
		"an exception that speaks": {"raysubmit_bad-eu", "", "acme.DepotError: depot 7 is closed", false},
	} {
		dir := submissionWithLog(t, 1, c.printed+trace(c.raised), append(failedBefore(c.other), driverOf(1,
			"raysubmit_bad"))...)
		storeLog(t, dir, "job-driver-"+c.other+".log", trace("ValueError: currency of region 7 is not known"))
		_, chain := badJob(t, dir)
		says.Equal(t, strings.Contains(chain[len(chain)-1].Title, "currency of region 7"), c.linked, "%s: %s", name,
			chain[len(chain)-1].Title)
	}
}

// TestNotStartedOtherJob: a job that had submitted something itself has no job as its cause only because that one's ID
// begins with its own; nor one that its log names and that was got over, or after which it went on.
func TestNotStartedOtherJob(t *testing.T) {
	const full, few = "RuntimeError: the bucket of reports is full", "RuntimeError: 1 of 2 regions failed"
	task := func(at string) []string {
		return submittedBy(driver(1), failedTask(1, "fit", "", ""), at, "10:15:50", "FINISHED")
	}
	var again []string
	for _, e := range submission("raysubmit_good") {
		again = append(again, strings.NewReplacer("10:06:0", "10:15:1", "10:16:00.500Z", "10:15:50Z").Replace(e))
	}
	for name, c := range map[string]struct {
		other, printed, raised string
		events                 []string
		linked                 bool
	}{
		"its ID, and tasks of its own": {"raysubmit_bad-eu", "", full, task("10:07:00"), false},
		"its log, and it went on":      {"raysubmit_qK7", "started raysubmit_qK7\n", full, task("10:15:20"), false},
		"its log, and tasks before":    {"raysubmit_qK7", "started raysubmit_qK7\n", full, task("10:07:00"), true},
		"got over": {"raysubmit_qK7", "raysubmit_qK7 is bad, started raysubmit_good\n", full, again,
			false},
		"one of two": {"raysubmit_qK7", "raysubmit_qK7 is bad, started raysubmit_good\n", few, again,
			true},
		"another one succeeded": {"raysubmit_qK7", "started raysubmit_qK7\n", full, again, true},
	} {
		dir := rareEvents(t, slices.Concat(failedBefore(c.other), submission("raysubmit_bad"), c.events,
			[]string{driverOf(1, "raysubmit_bad")}))
		storeLog(t, dir, "job-driver-raysubmit_bad.log", c.printed+trace(c.raised))
		storeLog(t, dir, "job-driver-"+c.other+".log", trace("ValueError: currency of region 7 is not known"))
		_, chain := badJob(t, dir)
		says.Equal(t, strings.Contains(chain[len(chain)-1].Title, "currency of region 7"), c.linked, "%s: %s", name,
			chain[len(chain)-1].Title)
	}
}

// TestFileThatDidNotCome: words of the program's own about a file that is not there count, too, unless the other job
// lacked it itself. A command that failed has its program's path in its words.
func TestFileThatDidNotCome(t *testing.T) {
	const late, full = "TimeoutError: /srv/orders/eu/day.ready did not appear within 12 s",
		"OSError: [Errno 28] No space left on device: '/srv/orders/eu/day.part'"
	for _, c := range []struct {
		lacks, raised string
		told          bool
	}{
		{late, "ValueError: no margin", true}, {late, full, true},
		{"RuntimeError: /srv/orders/eu/day.ready is not there", full, true},
		{late, "RuntimeError: nothing is in /srv/orders/eu", false},
		{"subprocess.CalledProcessError: Command '/srv/orders/eu/day.sh' returned non-zero exit status 1.", full, false},
		{"RuntimeError: part 2026/11/22 is not there", full, false},
		{"ValueError: column price not found in /srv/orders/eu/day.csv", full, false},
		{"ValueError: no such rows in file '/srv/orders/eu/day.csv'", full, false},
		{"RuntimeError: no such folder in /srv/orders/eu", full, true},
		{"FileNotFoundError: s3://orders/eu/day.ready", full, true},
		{"FileNotFoundError: [Errno 2] No such file or directory: '/srv/my orders/eu/day.ready'", full, false},
	} {
		dir := submissionWithLog(t, 1, trace(c.lacks), append(failedBefore("raysubmit_eu"), driverOf(1,
			"raysubmit_bad"))...)
		storeLog(t, dir, "job-driver-raysubmit_eu.log", "2026/11/22 10:00:00 will write to /srv/orders/eu\n"+
			"will write to s3://orders/eu\nhas read /srv/my logs/eu\n"+trace(c.raised))
		_, chain := badJob(t, dir)
		title := chain[len(chain)-1].Title
		says.Equal(t, strings.Contains(title, "; before that job raysubmit_eu, which names it, failed: "), c.told, "%s",
			title)
	}
}

// TestFileThatOthersLacked: a file's short name, and another job that lacked the same file, tell of no one who should
// have made it.
func TestFileThatOthersLacked(t *testing.T) {
	const lacks = "FileNotFoundError: [Errno 2] No such file or directory: '/srv/models/eu/price.json'"
	for _, c := range []struct{ raised, log string }{{lacks, trace(lacks)}, {lacks,
		"read price.json\n" + trace("ValueError: no margin")},
		{strings.Replace(lacks, "/srv/models/eu/", "", 1), "read price.json\n" + trace("ValueError: no margin")}} {
		dir := submissionWithLog(t, 1, trace(c.raised), append(failedBefore("raysubmit_eu"), driverOf(1,
			"raysubmit_bad"))...)
		storeLog(t, dir, "job-driver-raysubmit_eu.log", c.log)
		_, chain := badJob(t, dir)
		says.Equal(t, chain[len(chain)-1].Title, "Job raysubmit_bad failed: its driver raised "+c.raised)
	}
}

// TestFileOfOtherJob: a file that is not there is told with the job that failed before and whose log names it.
func TestFileOfOtherJob(t *testing.T) {
	const lacks = "FileNotFoundError: [Errno 2] No such file or directory: '/srv/models/eu/price.json'"
	for printed, told := range map[string]bool{
		"the model will be written to /srv/models/eu/price.json": true, "models go to /srv/models/eu": true,
		"the model will be written to /srv/models/us/cost.json": false, "models go to /srv/models/eu/ as JSON": true,
	} {
		dir := submissionWithLog(t, 1, trace(lacks), append(failedBefore("raysubmit_eu"), driverOf(1,
			"raysubmit_bad"))...)
		storeLog(t, dir, "job-driver-raysubmit_eu.log", printed+"\n"+trace("ValueError: no margin"))
		_, chain := badJob(t, dir)
		says.Equal(t, strings.HasSuffix(chain[len(chain)-1].Title,
			"price.json'; before that job raysubmit_eu, which names it, failed: "+
				"Job raysubmit_eu failed: its driver ended with exit code 3; the last exception in its log is ValueError: no margin"), told, "%s: %s", printed, chain[len(chain)-1].Title)
	}
}

// TestHeldByOthersTasks: a driver that gave up names the tasks of another job that held the CPUs then, also if they
// succeeded afterwards; not those that had ended before, or that wait in ray.get, for which a worker gives up its CPUs.
func TestHeldByOthersTasks(t *testing.T) {
	const inGet = `{"state": "RUNNING_IN_RAY_GET", "timestamp": "2026-11-22T10:15:10Z"}, `
	for _, c := range []struct {
		then, ended string
		held        bool
	}{{"", "10:17:00", true}, {"", "10:15:50", false}, {inGet, "10:17:00", false}} {
		waiting := submittedBy(driver(1), failedTask(1, "render_page", "WORKER_DIED", "Job finishes (driver exited)."),
			"10:15:30", "10:15:31", "PENDING_NODE_ASSIGNMENT")
		waiting[1] = strings.Replace(waiting[1], `:31Z"}]`,
			`:31Z"}, {"state": "FAILED", "timestamp": "2026-11-22T10:16:00.600Z"}]`, 1)
		events := append(waiting, driverOf(1, "raysubmit_bad"), driverOf(2, "raysubmit_open"))
		for i := range 3 {
			task := submittedBy(driver(2), failedTask(2, fmt.Sprint("rebuild_index", i), "", ""), "10:15:00",
				"10:15:05", "RUNNING")
			task[1] = strings.Replace(task[1], `"timestamp": "2026-11-22T10:15:05Z"}`,
				`"timestamp": "2026-11-22T10:15:05Z"}, `+c.then+`{"state": "FINISHED", "timestamp": "2026-11-22T`+c.ended+`Z"}`, 1)
			events = append(events, strings.ReplaceAll(task[0], `"CPU": 1.0`, `"CPU": 4.0`), task[1])
		}
		dir := submissionWithLog(t, 3, "report: no page was rendered in time\n", slices.Concat(events, aliveNodes())...)
		_, chain := badJob(t, dir)
		title := chain[len(chain)-1].Title
		says.Equal(t, strings.HasPrefix(title, "render_page waited for 1 CPU: rebuild_index0"), c.held, "%+v: %s", c, title)
		says.True(t, c.held || strings.HasPrefix(title, "render_page did not start"), "%+v: %s", c, title)
	}
}

// TestLoggedThenRaised: what a function logged before it raised an exception that says nothing is told with it; not
// what another one logged, or what it went on after.
func TestLoggedThenRaised(t *testing.T) {
	const raised, logged = "RuntimeError: no plan today", "ValueError: capacity of depot 7 is negative"
	printed := func(who, after string) string {
		lines := "2026-11-22 10:15:54.001 | ERROR    | plan:make_plan:12 - cannot plan\nTraceback (most recent call last):\n" +
			"  File \"/app/plan.py\", line 9, in make_plan\n    check(depot)\n" + logged + "\n" + after
		var copied strings.Builder
		for line := range strings.Lines(lines) {
			copied.WriteString("\x1b[36m(" + who + " pid=7)\x1b[0m " + line)
		}
		return copied.String()
	}
	for log, told := range map[string]bool{
		printed("make_plan", ""): true, printed("price", ""): false,
		printed("make_plan", strings.Repeat("2026-11-22 10:15:54.005 | INFO     | plan:make_plan:20 - next depot\n",
			20)): false,
	} {
		events := append(failedTask(1, "make_plan", "TASK_EXECUTION_EXCEPTION", trace(raised)), driverOf(1,
			"raysubmit_bad"))
		_, chain := badJob(t, submissionWithLog(t, 1,
			log+trace("ray.exceptions.RayTaskError(RuntimeError): ray::make_plan() (pid=7, ip=10.0.0.1)\n"+raised), events...))
		title := chain[len(chain)-1].Title
		says.Equal(t, strings.HasSuffix(title, raised+"; before that make_plan printed: "+logged), told, "%s\n%s", log,
			title)
	}
}

// TestHandledThenAnother: of a driver that handled a failure, went on, and ended with a word after another failure, the
// last failure is the cause.
func TestHandledThenAnother(t *testing.T) {
	const away = "ConnectionError: book 2: replica is away"
	task := func(name, raised, at, ended string) []string {
		return submittedBy(driver(1), failedTask(1, name, "TASK_EXECUTION_EXCEPTION", trace(raised)), at, ended,
			"FAILED")
	}
	inMain := strings.ReplaceAll(trace("ray.exceptions.RayTaskError(ConnectionError): ray::load_book()\n"+away),
		"<module>", "main")
	both := append(task("load_book", away, "10:15:10", "10:15:20"), task("close_book", "KeyError: 'currency'", "10:15:30",
		"10:15:40")...)
	const after = "book 2 is taken from the archive\na book could not be closed\n"
	for name, c := range map[string]struct {
		events     []string
		log, after string
		want       string
	}{
		"another failed later": {both, inMain, after, "close_book failed: KeyError: 'currency'"},
		"none did": {append(task("load_book", away, "10:15:10", "10:15:20"), submittedBy(driver(1),
			failedTask(1, "close_book", "", ""), "10:15:30", "10:15:40", "FINISHED")...), inMain, after,
			"load_book failed: " + away},
		"it said no more": {both, "2026-11-22 10:15:21,000 ERROR load_book failed\n" + inMain, "",
			"load_book failed: " + away},
	} {
		dir := submissionWithLog(t, 3, c.log+c.after, append(c.events, driverOf(1, "raysubmit_bad"))...)
		_, chain := badJob(t, dir)
		says.True(t, strings.HasPrefix(chain[len(chain)-1].Title, c.want), "%s: %s", name, chain[len(chain)-1].Title)
	}
}

// TestBehindCoroutine: a coroutine that waited too long, in an exception without a word, waited behind the call that its
// process had been running since before.
func TestBehindCoroutine(t *testing.T) {
	worker, actor := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7},
		28)), base64.StdEncoding.EncodeToString([]byte("Quotesyyyyyy\x00\x00\x00\x01"))
	call := func(name, transitions, failure string) []string {
		id := base64.StdEncoding.EncodeToString(append([]byte((name + "xxxxxxxx")[:8]+"Quotesyyyyyy"), 0, 0, 0, 1))
		about := fmt.Sprintf(`"taskId": "%s", "jobId": "AAAAAQ==", "taskAttempt": 0`, id)
		return []string{
			eventOf("d"+name, "ACTOR_TASK_DEFINITION_EVENT", "actorTaskDefinitionEvent", about+fmt.Sprintf(
				`, "actorId": "%s", "actorTaskName": "Quotes.%s", "actorFunc": {"pythonFunctionDescriptor": {"className": "Quotes", "functionName": "%s"}}`, actor, name, name)),
			eventOf("l"+name, "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent", about+fmt.Sprintf(
				`, "stateTransitions": [%s], "workerId": "%s", "rayErrorInfo": %s`, transitions, worker, failure)),
		}
	}
	state := func(name, at string) string {
		return fmt.Sprintf(`{"state": "%s", "timestamp": "2026-11-22T%sZ"}`, name, at)
	}
	for name, c := range map[string]struct{ began, raised, want string }{
		"a call from before": {"10:15:10", "TimeoutError", "Quotes.quote failed: TimeoutError behind Quotes.refresh"},
		"one from later":     {"10:15:40", "TimeoutError", "Quotes.quote failed: TimeoutError"},
		"a reason":           {"10:15:10", "TimeoutError: no bid", "Quotes.quote failed: TimeoutError: no bid"},
	} {
		events := slices.Concat(
			call("refresh", state("PENDING_ARGS_AVAIL", c.began)+", "+state("RUNNING", c.began)+", "+state("FAILED",
				"10:16:00.600"), `{"errorMessage": "Job finishes (driver exited).", "errorType": "WORKER_DIED"}`),
			call("quote", state("PENDING_ARGS_AVAIL", "10:15:05")+", "+state("RUNNING", "10:15:30")+", "+state("FAILED",
				"10:15:55"), fmt.Sprintf(`{"errorMessage": %q, "errorType": "TASK_EXECUTION_EXCEPTION"}`, trace(c.raised))),
			[]string{driverOf(1, "raysubmit_bad")})
		_, chain := badJob(t, submissionWithLog(t, 1,
			trace("ray.exceptions.RayTaskError(TimeoutError): ray::Quotes.quote() (pid=7, ip=10.0.0.1)\n"+c.raised), events...))
		says.Equal(t, chain[len(chain)-1].Title, c.want, "%s", name)
	}
}

// TestDiedWithoutException: of an actor that died without an exception its own last words are no other failure.
func TestDiedWithoutException(t *testing.T) {
	const gone = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file."
	events := append(deadActor("Store", "actorDiedErrorContext", gone, "ACTOR_DIED"), driverOf(1, "raysubmit_bad"))
	_, chain := badJob(t, submissionWithLog(t, 1, "\x1b[36m(Store pid=7)\x1b[0m Fatal Python error: Aborted\n"+
		trace("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."), events...))
	title := chain[len(chain)-1].Title
	says.True(t, strings.HasPrefix(title, "Actor Store died unexpectedly") && !strings.Contains(title, "Store printed"),
		"%s", title)
}
