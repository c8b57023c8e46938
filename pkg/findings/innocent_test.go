package findings_test

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// submission returns the events of one of the submissions that rayevents makes.
func submission(id string) []string {
	return slices.DeleteFunc(rayevents.Of("SUBMISSION"), func(e string) bool { return !strings.Contains(e, id) })
}

// byHand returns the events of a driver that was not submitted.
func byHand(states string) []string {
	return []string{
		eventOf("j", "DRIVER_JOB_DEFINITION_EVENT", "driverJobDefinitionEvent", `"jobId": "AAAAAQ==", "config": {"metadata": {}}`),
		eventOf("k", "DRIVER_JOB_LIFECYCLE_EVENT", "driverJobLifecycleEvent", `"jobId": "AAAAAQ==", "stateTransitions": [`+states+`]`),
	}
}

const (
	begins = `{"state": "CREATED", "timestamp": "2026-11-22T10:01:00Z"}`
	ends   = `, {"state": "FINISHED", "timestamp": "2026-11-22T10:16:00Z"}`
)

// only returns the finding whose title matches; nil if there is not exactly one.
func only(r *findings.Report, title string) (f *findings.Finding) {
	for _, other := range r.Findings {
		if regexp.MustCompile(title).MatchString(other.Title) {
			if f != nil {
				return nil
			}
			f = other
		}
	}
	return f
}

// again returns the events of a later call of a function that failed, by the driver of job 1.
func again(name, state string) []string {
	call := submittedBy(driver(1), failedTask(1, "fold", "", ""), "10:15:57", "10:15:58", state)
	call[0] = strings.ReplaceAll(call[0], `"fold"`, `"`+name+`"`)
	return call
}

// TestServes: a deployment that came back, is healthy again or was only scaled up is no error, nor an application that
// somebody deleted later.
func TestServes(t *testing.T) {
	line := func(clock, text string) string {
		level, text, _ := strings.Cut(text, " ")
		return level + " 2026-11-22 " + clock + ",857 controller 1560 -- " + text + "\n"
	}
	crash := line("10:07:01", "WARNING Actor for Replica(id='z1', deployment='Cart', app='shop') crashed, marking it unhealthy immediately.") +
		line("10:07:02", "ERROR The deployments ['Cart'] are UNHEALTHY.")
	failed := line("10:07:01", "ERROR Exception in Replica(id='z1', deployment='Cart', app='shop'), the replica will be stopped.") +
		"Traceback (most recent call last):\nValueError: no weights\n" + line("10:07:02", "ERROR Failed to update the deployments ['Cart'].")
	build := line("10:07:01", "WARNING Deploying app 'shop' failed with exception:") + "Traceback (most recent call last):\nModuleNotFoundError: No module named 'shpo'\n"
	deploys := line("10:01:00", "INFO Deploying new version of Deployment(name='Cart', app='shop') (initial target replicas: 1).")
	grows := line("10:06:00", "INFO Upscaling Deployment(name='Cart', app='shop') from 1 to 3 replicas. Current ongoing requests: 9.00, current running replicas: 1.")
	slow := line("10:07:01", "WARNING Deployment 'Cart' in application 'shop' has 2 replicas that have taken more than 30s to be scheduled.")
	started := line("10:08:00", "INFO Replica(id='r1', deployment='Cart', app='shop') started successfully on node 'n' after 4.1s (PID: 12).")
	for name, c := range map[string]struct{ log, saved, want string }{
		"a crash":                {crash, "", findings.Error},
		"another one started":    {crash + strings.ReplaceAll(started, "Cart", "Pay"), "", findings.Error},
		"it came back":           {crash + started, "", findings.Warning},
		"it is healthy":          {crash, "HEALTHY", findings.Warning},
		"it is not":              {crash + started, "UNHEALTHY", findings.Error},
		"given up":               {failed, "", findings.Error},
		"given up, then healthy": {failed, "HEALTHY", findings.Warning},
		"deployed again":         {failed + deploys + started, "", findings.Warning},
		"not built":              {build, "", findings.Error},
		"not built, and ended":   {build + line("10:07:03", "INFO Deleting app 'shop'."), "", findings.Error},
		"not built, and deleted": {build + line("10:17:03", "INFO Deleting app 'shop'."), "", findings.Warning},
		"slow":                   {deploys + slow, "", findings.Error},
		"slow to grow":           {deploys + grows + slow, "", ""},
		"grows from nothing":     {deploys + strings.ReplaceAll(grows, "replicas: 1", "replicas: 0") + slow, "", findings.Error},
		"slow in a new version":  {grows + deploys + slow, "", findings.Error},
	} {
		dir := rareEvents(t, submission("raysubmit_good"))
		storeLog(t, dir, "serve/controller_1560.log", c.log)
		if c.saved != "" {
			first := layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, "/api/serve/applications/")
			put(t, dir, layout.SnapshotVersionKey(first, time.Unix(0, rayevents.At("10:09:00"))),
				`{"applications": {"shop": {"name": "shop", "status": "RUNNING", "deployments": {"Cart": {"name": "Cart", "status": "`+c.saved+`"}}}}}`)
		}
		got := ""
		for _, f := range report(t, load(t, dir, rayevents.Session, nil)).Findings {
			got += f.Severity
		}
		says.Equal(t, got, c.want, "%s", name)
	}
}

// TestOfNoJob: a worker that Ray started once more is no error if no job can have failed because of it.
func TestOfNoJob(t *testing.T) {
	for name, c := range map[string]struct {
		events  []string
		outcome string
	}{
		"succeeded": {submission("raysubmit_good"), catalog.Succeeded}, "by hand": {byHand(begins + ends), catalog.Succeeded},
		"open": {submission("raysubmit_open"), catalog.Unfinished}, "none": {rayevents.Of("NODE"), catalog.Failed},
	} {
		dir := rareEvents(t, c.events)
		storeLog(t, dir, "raylet.err", raylet)
		r := report(t, load(t, dir, rayevents.Session, nil))
		f := only(r, "^Worker processes did not start")
		says.True(t, f != nil && (f.Severity == findings.Warning) == (c.outcome == catalog.Succeeded) &&
			r.Outcome == c.outcome, "%s: %s, %+v", name, r.Outcome, f)
	}
}

// TestRepairedNode: a node that died is no error if what failed with it succeeded on another one.
func TestRepairedNode(t *testing.T) {
	const died = "Task failed because the node it was running on is dead or unavailable. Node IP: 10.0.0.2, node ID: 02020202020202020202020202020202020202020202020202020202."
	for _, repaired := range []bool{true, false} {
		events := slices.Concat(rayevents.Of("NODE"), []string{driverOf(1, "raysubmit_bad")}, failedTask(1, "one", "NODE_DIED", died))
		if repaired {
			for _, e := range failedTask(1, "one", "", "") {
				events = append(events, strings.NewReplacer(`"taskAttempt": 0`, `"taskAttempt": 1`, `"FAILED"`, `"FINISHED"`, `"eventId": "`, `"eventId": "YWdh`).Replace(e))
			}
		}
		for i, e := range events { // the node died with the task
			events[i] = strings.ReplaceAll(e, `"timestamp": "2026-11-22T10:20:30Z"`, `"timestamp": "2026-11-22T10:15:56Z"`)
		}
		f := only(report(t, load(t, submissionWithLog(t, 1, trace("ValueError: bad row"), events...), rayevents.Session, nil)), "^Node 10.0.0.2 died")
		says.True(t, f != nil && (f.Severity == findings.Warning) == repaired, "repaired %t: %+v", repaired, f)
	}
}

// TestOneClassInTwoJobs: an actor of a class that failed is no error of another job that has the class, too.
func TestOneClassInTwoJobs(t *testing.T) {
	events := []string{driverOf(1, "raysubmit_bad"), driverOf(2, "raysubmit_good")}
	one := deadActor("Shard", "creationTaskFailureContext", trace("ValueError: torn"), "ACTOR_DIED")[:2]
	id := func(n byte) string {
		return base64.StdEncoding.EncodeToString(append([]byte("Shardyyyyyyy"), 0, 0, 0, n))
	}
	other := strings.NewReplacer(id(1), id(2), "AAAAAQ==", "AAAAAg==", `"eventId": "`, `"eventId": "YWdh`)
	for _, e := range one {
		events = append(events, e, other.Replace(e))
	}
	r := report(t, load(t, submissionWithLog(t, 1, trace("RuntimeError: 1 of 3 shards failed"), events...), rayevents.Session, nil))
	severity := map[string]string{}
	for _, f := range r.Findings {
		if f.Kind == findings.ActorDied {
			severity[f.SubmissionID] = f.Severity
		}
	}
	says.True(t, severity["raysubmit_bad"] == findings.Error && severity["raysubmit_good"] == findings.Warning,
		severity)
	for _, j := range r.Jobs {
		says.True(t, j.SubmissionID != "raysubmit_good" || j.Summary == "Job raysubmit_good succeeded.", j.Summary)
	}
}

// TestBeforeTheJob: a node that was lost before a job began is no cause of what failed in the job.
func TestBeforeTheJob(t *testing.T) {
	for at, causes := range map[string]int{"10:02:00": 0, "10:10:30": 1} {
		for title, c := range map[string]struct {
			log    string
			events []string
		}{
			"^Job raysubmit_bad failed":               {trace("ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead."), nil},
			"^fold failed because an object was lost": {trace("KeyError: 'x'"), failedTask(1, "fold", "OBJECT_LOST", "Failed to retrieve object 00ff.")},
			"^fold failed: NodeDiedError":             {trace("KeyError: 'x'"), failedTask(1, "fold", "TASK_EXECUTION_EXCEPTION", trace("ray.exceptions.NodeDiedError: the node is dead"))},
		} {
			events := slices.Concat(rayevents.Of("NODE"), []string{driverOf(1, "raysubmit_bad")}, c.events)
			for i, e := range events {
				events[i] = strings.ReplaceAll(e, `"timestamp": "2026-11-22T10:20:30Z"`, `"timestamp": "2026-11-22T`+at+`Z"`)
			}
			f := only(report(t, load(t, submissionWithLog(t, 1, c.log, events...), rayevents.Session, nil)), title)
			says.True(t, f != nil && len(f.Because) == causes, "a node lost at %s, %s: %+v", at, title, f)
		}
	}
}

// TestOfEarlierJob: what is served and made an earlier job fail is not told behind the words of the next one, though
// Serve notices it only then.
func TestOfEarlierJob(t *testing.T) {
	for said, told := range map[string]bool{"deployment Cart failed": false, "no space left": true} {
		events := []string{driverOf(1, "raysubmit_bad"), driverOf(2, "raysubmit_first")}
		code := strings.NewReplacer(`"driverExitCode": 3`, `"driverExitCode": 1`)
		earlier := strings.NewReplacer("raysubmit_bad", "raysubmit_first", "10:06:0", "10:05:0",
			"10:16:00.5", "10:05:59.5", "X2Jh", "X2Zp")
		for _, e := range submission("raysubmit_bad") {
			e = code.Replace(e)
			events = append(events, e, earlier.Replace(e))
		}
		dir := rareEvents(t, events)
		storeLog(t, dir, "job-driver-raysubmit_bad.log", trace("AssertionError: p99 is 2.4 s"))
		storeLog(t, dir, "job-driver-raysubmit_first.log", trace("RuntimeError: "+said))
		storeLog(t, dir, "serve/controller_1560.log",
			"WARNING 2026-11-22 10:06:03,857 controller 1560 -- Actor for Replica(id='z1', deployment='Cart', app='shop') crashed, marking it unhealthy immediately.\n"+
				"ERROR 2026-11-22 10:06:03,858 controller 1560 -- The deployments ['Cart'] are UNHEALTHY.\n")
		_, chain := badJob(t, dir)
		says.True(t, len(chain) == 1 &&
			strings.Contains(chain[0].Title, "before that Replicas of deployment Cart") == told, "%s: %+v", said, chain)
	}
}

// TestRepairedCause: the only failure is no cause of a driver's end if the function succeeded later, unless the driver
// counts; the title tells it behind what the driver said, which may be about it.
func TestRepairedCause(t *testing.T) {
	for log, want := range map[string]string{
		trace("RuntimeError: upload failed: 403"):       "raised RuntimeError: upload failed: 403; before that read_rows failed: OSError: torn$",
		trace("RuntimeError: accuracy is too low"):      "raised RuntimeError: accuracy is too low$",
		trace("RuntimeError: 1 of 8 shards failed"):     "^read_rows failed: OSError: torn$",
		trace("acme.StageLost: stage read_rows failed"): "raised StageLost: stage read_rows failed; before that read_rows failed: OSError: torn$",
	} {
		_, chain := badJob(t, submissionWithLog(t, 1, log, slices.Concat(again("read_rows", "FINISHED"),
			failedTask(1, "read_rows", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn")), []string{driverOf(1, "raysubmit_bad")})...))
		says.True(t, len(chain) != 0 && regexp.MustCompile(want).MatchString(chain[len(chain)-1].Title), "%s: %+v", log,
			chain)
	}
}

// TestTolerated: a failure is no error of a driver that went on after it, or that retried it with success, nor of a
// submission that ended long after it.
func TestTolerated(t *testing.T) {
	submitted := append(rayevents.Of("SUBMISSION"), driverOf(1, "raysubmit_bad"))
	for name, c := range map[string]struct {
		job, later []string
		at, want   string // when it failed
	}{
		"open":                     {byHand(begins), nil, "10:15:55", findings.Error},
		"open, it goes on":         {byHand(begins), again("fold", "FINISHED"), "10:15:55", findings.Warning},
		"ended":                    {byHand(begins + ends), again("fold", "FINISHED"), "10:15:55", findings.Error},
		"ended, and retried":       {byHand(begins + ends), again("read_rows", "FINISHED"), "10:15:55", findings.Warning},
		"ended, in vain":           {byHand(begins + ends), again("read_rows", "RUNNING"), "10:15:55", findings.Error},
		"ended long after it":      {byHand(begins + ends), nil, "10:07:00", findings.Warning},
		"exit code":                {submitted, nil, "10:15:55", findings.Error},
		"exit code, long after it": {submitted, nil, "10:07:00", findings.Warning},
	} {
		failed := failedTask(1, "read_rows", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn"))
		for i := range failed {
			failed[i] = strings.ReplaceAll(failed[i], "10:15:55Z", c.at+"Z")
		}
		dir := rareEvents(t, slices.Concat(c.job, failed, c.later))
		storeLog(t, dir, "job-driver-raysubmit_bad.log", "AUC 0.61 is below 0.75\n")
		if f := only(report(t, load(t, dir, rayevents.Session, nil)), "^read_rows failed"); f == nil || f.Severity != c.want {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestIgnoredBlocks: blocks of Ray Data that fail, and that the program said to ignore, are a warning, and not why it
// ended later, unless it says that too few were left. They are if Data aborted as there were too many.
func TestIgnoredBlocks(t *testing.T) {
	const record = "2026-11-22 10:15:55,900\tERROR streaming_executor_state.py:733 -- An exception was raised from a task of operator \"Map(f)\". "
	const ignored = record + "Ignoring this exception with remaining max_errored_blocks=0.\n"
	const aborted = record + "Dataset execution will now abort. To ignore this exception and continue, set DataContext.max_errored_blocks.\n"
	const ofPool = "MapWorker(Map(f)).submit"
	for _, c := range []struct{ said, log, severity, task string }{
		{"quality gate failed", ignored, findings.Warning, "Map(f)"},
		{"only 60 of 100 frames are left", ignored, findings.Error, "Map(f)"},
		{"rows are missing", ignored, findings.Error, "Map(f)"},
		{"quality gate failed", ignored + aborted, findings.Error, "Map(f)"},
		{"quality gate failed", "", findings.Error, "Map(f)"},
		{trace("AssertionError: row count mismatch: 900 != 1000"), ignored, findings.Error, "Map(f)"},
		{trace("AssertionError: row count mismatch: 900 != 1000"), ignored, findings.Error, ofPool},
		{trace("RuntimeError: 900 rows were written, 1000 read"), ignored, findings.Error, ofPool},
		{"quality gate failed", ignored, findings.Warning, ofPool},
		{"quality gate failed", ignored + aborted, findings.Error, ofPool},
	} {
		events := append(failedTask(1, c.task, "TASK_EXECUTION_EXCEPTION", "ray::Map(f)() (pid=7)\n  File \"a.py\", line 1, in f\nValueError: x is odd"),
			driverOf(1, "raysubmit_bad"))
		if c.log == ignored { // the operator goes on with other blocks
			later := failedTask(1, "later", "", "")
			later[0] = strings.ReplaceAll(later[0], `"later"`, `"`+c.task+`"`)
			events = append(events, submittedBy(driver(1), later, "10:15:57", "10:15:58", "FINISHED")...)
		}
		dir := submissionWithLog(t, 1, c.said+"\n", events...)
		storeLog(t, dir, "ray-data/ray-data.log", c.log)
		r, chain := badJob(t, dir)
		i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return f.Kind == findings.TaskFailed })
		if i < 0 || r.Findings[i].Severity != c.severity || (len(chain) > 1) != (c.severity == findings.Error) ||
			strings.Contains(r.Findings[i].Title, "max_errored_blocks") != (c.log == ignored) {
			t.Errorf("%+v: %d of %+v", c, len(chain), r.Findings)
		}
	}
}
