package findings_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// endsWith returns what is stored of a job that failed with an exception which something that it ran had raised: its
// events, and its driver's log.
var endsWith = map[string]func(raised string) (events []string, log string){
	"task": func(raised string) ([]string, string) {
		return failedTask(1, "combine", "TASK_EXECUTION_EXCEPTION", trace(raised)), trace("ray.exceptions.RayTaskError: ray::combine() (pid=8, ip=10.0.0.2)\n" + raised)
	},
	"constructor": func(raised string) ([]string, string) {
		text := "The actor died because of an error raised in its creation task, ray::Store.__init__() (pid=8, ip=10.0.0.2)\n  File \"/app/s.py\", line 1, in __init__\n" + raised
		return deadActor("Store", "creationTaskFailureContext", text, "ACTOR_DIED"), trace("ray.exceptions.ActorDiedError: " + text)
	},
	"rank": func(raised string) ([]string, string) {
		return nil, trace("ray.train.v2.api.exceptions.WorkerGroupError: Training failed due to worker errors:\n[Rank 1 Error Snippet]:\n" +
			"Traceback (most recent call last):\n  File \"/app/fit.py\", line 21, in fit\n    step()\n" + raised)
	},
}

// before is something that had failed long before, after which the driver went on.
type before struct {
	events []string
	serve  string // what Serve's controller logged
	name   string // by which a message names it
	title  string // what its title has
}

func beforeAll() map[string]before {
	task := func(name, kind, text string) []string {
		return submittedBy(driver(1), failedTask(1, name, kind, text), "10:06:30", "10:07:00", "FAILED")
	}
	var other []string
	for _, e := range submission("raysubmit_bad") {
		e = strings.NewReplacer("raysubmit_bad", "raysubmit_two", "10:16:00.500Z", "10:15:00Z", `"eventId": "`, `"eventId": "Mg`).Replace(e)
		other = append(other, e)
	}
	const at = " 2026-11-22 10:07:01,857 controller 1560 -- "
	return map[string]before{
		"a task":   {task("fetch", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn page")), "", "fetch", "fetch failed: OSError: torn page"},
		"memory":   {task("embed", "OUT_OF_MEMORY", "Task was killed due to the node running low on memory."), "", "embed", "embed ran out of memory"},
		"a cancel": {task("fetch", "TASK_CANCELLED", "Task: TaskID(7261) was cancelled"), "", "fetch", "fetch was cancelled"},
		"a job":    {other, "", "raysubmit_two", "Job raysubmit_two failed"},
		"an application": {nil, "ERROR" + at + "Unexpected error occurred while applying config for application 'shop': \nTraceback (most recent call last):\n" +
			"  File \"application_state.py\", line 728, in apply_app_config\nKeyError: 'Cart'\n", "application shop", "application shop could not be deployed: KeyError: 'Cart'"},
	}
}

// firstOf returns the title of what comes first in a job that ended with an exception after something else had failed,
// and after which the driver went on.
func firstOf(t *testing.T, end, raised string, b before) string {
	t.Helper()
	events, log := endsWith[end](raised)
	wentOn := submittedBy(driver(1), failedTask(1, "train", "", ""), "10:15:20", "10:15:50", "FINISHED")
	dir := submissionWithLog(t, 1, log, slices.Concat(events, b.events, wentOn, []string{driverOf(1, "raysubmit_bad")})...)
	if b.serve != "" {
		storeLog(t, dir, controllerLog, b.serve)
	}
	_, chain := badJob(t, dir)
	if len(chain) == 0 {
		return ""
	}
	return chain[len(chain)-1].Title
}

// TestNamedBefore: what the words of a task, a constructor or a rank name is told, however long before it failed and
// whoever wanted it; what they do not name is not, if the driver had gone on.
func TestNamedBefore(t *testing.T) {
	for end := range endsWith {
		for name, b := range beforeAll() {
			if got := firstOf(t, end, "RuntimeError: no result of "+b.name+", giving up", b); !strings.Contains(got, b.title) {
				t.Errorf("%s, %s: %s", end, name, got)
			}
			const own = "RuntimeError: licence server 2 refused the seat"
			if got := firstOf(t, end, own, b); !strings.HasSuffix(got, own) {
				t.Errorf("%s, %s apart: %s", end, name, got)
			}
			// a mistake in code names types and variables
			if got := firstOf(t, end, "AttributeError: module "+b.name+" has no attribute 'n'", b); name == "a job" && strings.Contains(got, b.title) {
				t.Errorf("%s, %s in a mistake: %s", end, name, got)
			}
		}
	}
}

// TestNamedButRepaired: a failure that a later call repaired is not told, even if the words of what failed name it.
func TestNamedButRepaired(t *testing.T) {
	b := beforeAll()["a task"]
	again := submittedBy(driver(1), failedTask(1, "fetch", "", ""), "10:07:10", "10:07:20", "FINISHED")
	for i := range again {
		again[i] = strings.NewReplacer(`"eventId": "`, `"eventId": "Mg`, "ZmV0Y2h4", "ZmV0Y2h5").Replace(again[i])
	}
	b.events = slices.Concat(b.events, again)
	for end := range endsWith {
		const own = "RuntimeError: fetch is of another day"
		if got := firstOf(t, end, own, b); !strings.HasSuffix(got, own) {
			t.Errorf("%s: %s", end, got)
		}
	}
}

// TestRankAlone: of a job of which only the driver's log is stored, the rank's exception that ends it is a finding.
func TestRankAlone(t *testing.T) {
	for raised, want := range map[string]string{
		"RuntimeError: label 12 is out of range":                 "Job raysubmit_gone failed: rank 1 of its Train run raised RuntimeError: label 12 is out of range",
		"ValueError: label 12 is out of range":                   "Job raysubmit_gone failed: rank 1 of its Train run raised ValueError: label 12 is out of range",
		"RuntimeError: label 12 is out of range\nepoch 2 begins": "", // it went on
	} {
		dir := t.TempDir()
		_, log := endsWith["rank"](raised)
		storeLog(t, dir, "job-driver-raysubmit_gone.log", log)
		got := ""
		for _, f := range report(t, load(t, dir, rayevents.Session, nil)).Findings {
			got += f.Title
		}
		says.Equal(t, got, want, "%s", raised)
	}
}
