package findings_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// An event as Ray 2.60 sends it; what it says is in the field %s.
const rayEvent = `{"eventId": "%s", "sourceType": "GCS", "eventType": "%s", "timestamp": "2026-11-22T10:15:50Z", "severity": "INFO", "sessionName": "session_2026-11-22_10-00-00_000000_1", "%s": {%s}, "nodeId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==", "message": ""}`

func eventOf(id, kind, field, fields string) string {
	return fmt.Sprintf(rayEvent, base64.StdEncoding.EncodeToString([]byte(id)), kind, field, fields)
}

// driverOf returns the event about the driver of a submission that rayevents makes. It has the job 0000000n.
func driverOf(n byte, submission string) string {
	return eventOf("driver"+submission, "DRIVER_JOB_DEFINITION_EVENT", "driverJobDefinitionEvent", fmt.Sprintf(
		`"jobId": "%s", "config": {"serializedRuntimeEnv": "{}", "metadata": {"job_submission_id": "%s"}}`,
		base64.StdEncoding.EncodeToString([]byte{0, 0, 0, n}), submission))
}

// failedTask returns the events of a task of the job 0000000n that failed at 10:15:55.
func failedTask(n byte, name, kind, text string) []string {
	raw := slices.Concat([]byte((name + strings.Repeat("x", 20))[:20]), []byte{0, 0, 0, n})
	id, job := base64.StdEncoding.EncodeToString(raw), base64.StdEncoding.EncodeToString([]byte{0, 0, 0, n})
	about := fmt.Sprintf(`"taskId": "%s", "jobId": "%s", "taskAttempt": 0`, id, job)
	return []string{
		eventOf("d"+name, "TASK_DEFINITION_EVENT", "taskDefinitionEvent", about+fmt.Sprintf(
			`, "taskName": "%s", "taskFunc": {"pythonFunctionDescriptor": {"moduleName": "m", "functionName": "%s"}}, "taskType": "NORMAL_TASK", "requiredResources": {"CPU": 1.0}`, name, name)),
		eventOf("l"+name, "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent", about+fmt.Sprintf(
			`, "stateTransitions": [{"state": "FAILED", "timestamp": "2026-11-22T10:15:55Z"}], "rayErrorInfo": {"errorMessage": %q, "errorType": "%s"}, "nodeId": "", "workerId": ""`, text, kind)),
	}
}

// deadActor returns the events of an actor of the job 00000001 that died at 10:15:55, and of a call that failed because
// of that.
func deadActor(class, context, text, callFailed string) []string {
	id := base64.StdEncoding.EncodeToString(append([]byte((class + strings.Repeat("y", 12))[:12]), 0, 0, 0, 1))
	about := fmt.Sprintf(`"actorId": "%s"`, id)
	task := base64.StdEncoding.EncodeToString(append([]byte("call    "+(class + strings.Repeat("y", 12))[:12]), 0, 0, 0,
		1))
	call := fmt.Sprintf(`"taskId": "%s", "jobId": "AAAAAQ==", "taskAttempt": 0`, task)
	return []string{
		eventOf("d"+class, "ACTOR_DEFINITION_EVENT", "actorDefinitionEvent",
			about+fmt.Sprintf(`, "jobId": "AAAAAQ==", "className": "%s", "requiredResources": {"CPU": 1.0}`, class)),
		eventOf("l"+class, "ACTOR_LIFECYCLE_EVENT", "actorLifecycleEvent", about+fmt.Sprintf(
			`, "stateTransitions": [{"state": "DEAD", "timestamp": "2026-11-22T10:15:55Z", "deathCause": {"%s": {"errorMessage": %q}}}]`, context, text)),
		eventOf("dc"+class, "ACTOR_TASK_DEFINITION_EVENT", "actorTaskDefinitionEvent", call+fmt.Sprintf(
			`, "actorId": "%s", "actorTaskName": "%s.ping", "actorFunc": {"pythonFunctionDescriptor": {"className": "%s", "functionName": "ping"}}`, id, class, class)),
		eventOf("lc"+class, "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent", call+fmt.Sprintf(
			`, "stateTransitions": [{"state": "FAILED", "timestamp": "2026-11-22T10:15:56Z"}], "rayErrorInfo": {"errorMessage": %q, "errorType": "%s"}`, text, callFailed)),
	}
}

// badJob returns the findings of a session whose submission raysubmit_bad failed, by the causes of its failure: the
// last finding is its root cause.
func badJob(t *testing.T, dir string) (r *findings.Report, chain []*findings.Finding) {
	t.Helper()
	r = report(t, load(t, dir, rayevents.Session, nil))
	checkOrder(t, r)
	byID := map[string]*findings.Finding{}
	for _, f := range r.Findings {
		byID[f.ID] = f
		if f.SubmissionID == "raysubmit_bad" && slices.ContainsFunc(f.Entities,
			func(e findings.Entity) bool { return e.Type == "job" }) {
			chain = []*findings.Finding{f}
		}
	}
	for len(chain) > 0 && len(chain[len(chain)-1].Because) > 0 {
		chain = append(chain, byID[chain[len(chain)-1].Because[0]])
	}
	return r, chain
}

// trace returns the log of a driver that an exception ended.
func trace(raised string) string {
	return "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in <module>\n    main()\n" + raised +
		"\n"
}

const (
	gaveUp = "Failed to startup worker after retrying 5 times. This is most often caused by errors in the worker's Python environment setup. " +
		"For additional context, please look at the raylet.err on node 01010101010101010101010101010101010101010101010101010101."
	groupGone   = "Required placement group afbf5fd7760d426c5b1e450b0c4301000000 is removed."
	noLaunch    = "Could not create the actor because worker startup repeatedly failed.\n" + gaveUp
	noGroup     = "Could not create the actor because its associated placement group was removed.\n" + groupGone
	raylet      = "python3: error while loading shared libraries: libz.so.1\n[2026-11-22 10:14:00,012 E 88 88] (raylet) worker_pool.cc:586: Some workers of the worker process(212) have not registered within the timeout. The process is dead, probably it crashed during start.\n"
	pinned      = "The node specified via NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible, and soft=False was specified."
	unscheduled = "ray.exceptions.ActorUnschedulableError: The actor is not schedulable: "
)

// TestGaveUp: what Ray 2.60 gives up before a worker runs it has the cause that Ray's message names, and a driver that
// lacks what another one should have made has that failure as its cause.
func TestGaveUp(t *testing.T) {
	for name, c := range map[string]struct {
		events           []string
		log, kind, found string // found: the title of the finding about the task or actor
		severity         string
		root             string // the title of the root cause
	}{
		"worker of a task": {
			events: failedTask(1, "nostart", "WORKER_STARTUP_FAILED",
				gaveUp+" lease_id=0700000001000000ffff, name=nostart"),
			log: trace("ray.exceptions.RaySystemError: System error: " + gaveUp +
				" lease_id=0700000001000000ffff, name=nostart"), kind: findings.WorkerStart,
			found: "^nostart was not run because its worker processes did not start: Failed to startup worker after retrying 5 times.$", severity: findings.Error,
			root: "^Worker processes did not start: python3: error while loading shared libraries: libz.so.1$",
		},
		"worker of an actor": {
			events: deadActor("NoStart", "actorUnschedulableContext", noLaunch, "ACTOR_UNSCHEDULABLE_ERROR"),
			log:    trace(unscheduled + noLaunch), kind: findings.WorkerStart,
			found: "^Actor NoStart was not run because its worker processes did not start: Failed to startup worker after retrying 5 times.$", severity: findings.Error,
			root: "^Worker processes did not start: python3: error while loading shared libraries: libz.so.1$",
		},
		"group of a task": {
			events: failedTask(1, "queued", "TASK_PLACEMENT_GROUP_REMOVED",
				groupGone+" lease_id=0500000001000000ffff, name=queued"),
			log: trace("ray.exceptions.TaskPlacementGroupRemoved: The placement group corresponding to this task has been removed."), kind: findings.Unschedulable,
			found: "^queued was not run because its placement group was removed$", severity: findings.Error,
			root: "^queued was not run because its placement group was removed$",
		},
		"group of an actor": {
			events: deadActor("Late", "actorUnschedulableContext", noGroup, "ACTOR_UNSCHEDULABLE_ERROR"),
			log:    trace(unscheduled + noGroup), kind: findings.Unschedulable,
			found: "^Actor Late was not run because its placement group was removed$", severity: findings.Error,
			root: "^Actor Late was not run because its placement group was removed$",
		},
		"a producer of which nobody asks": {
			events: failedTask(1, "produce", "TASK_EXECUTION_EXCEPTION", trace("OSError: topic clicks was deleted")),
			log:    trace("ray.util.queue.Empty"), kind: findings.TaskFailed,
			found: "^produce failed: OSError: topic clicks was deleted$", severity: findings.Error,
			root: "^produce failed: OSError: topic clicks was deleted$",
		},
		"a column that Data pickled": {
			events: failedTask(1, "total", "TASK_EXECUTION_EXCEPTION", trace("pyarrow.lib.ArrowNotImplementedError: no kernel for extension<arrow_pickled_object<ArrowPythonObjectType>>")),
			log: "\x1b[36m(MapBatches(price) pid=7)\x1b[0m Failed to convert column 'price' into pyarrow array (ArrowConversionError)\n" +
				trace("pyarrow.lib.ArrowNotImplementedError: no kernel for extension<arrow_pickled_object<ArrowPythonObjectType>>"), kind: findings.TaskFailed,
			found: "^total failed: ArrowNotImplementedError: no kernel for ", severity: findings.Error,
			root: `; before that MapBatches\(price\) printed: Failed to convert column 'price' into pyarrow array \(ArrowConversionError\)$`,
		},
		"a status, and what was printed before it": {
			events: failedTask(1, "parse", "TASK_EXECUTION_EXCEPTION", trace("SystemExit: 2")),
			log: "\x1b[36m(parse pid=7)\x1b[0m default_worker.py: error: the following arguments are required: --data-dir\n\x1b[36m(parse pid=7)\x1b[0m SystemExit: 2\n" +
				trace("SystemExit: 2"), kind: findings.TaskFailed,
			found: "^parse failed: SystemExit: 2; ", severity: findings.Error,
			root: `SystemExit: 2; before that parse printed: default_worker\.py: error: the following arguments are required: --data-dir$`,
		},
		"no word, and what was printed before it": {
			events: failedTask(1, "load", "TASK_EXECUTION_EXCEPTION", trace("AssertionError")),
			log:    "\x1b[36m(load pid=7)\x1b[0m 12 shards, of 16\n" + trace("AssertionError"), kind: findings.TaskFailed,
			found: "^load failed: AssertionError; ", severity: findings.Error,
			root: `AssertionError; before that load printed: 12 shards, of 16$`,
		},
		"a service that a task waited for in vain": {
			events: failedTask(1, "produce", "TASK_EXECUTION_EXCEPTION", trace("TimeoutError: prices-2 is late")),
			log:    trace("KeyError: 'prices'"), kind: findings.Timeout,
			found: "^produce failed: TimeoutError: prices-2 is late$", severity: findings.Error,
			root: "raised KeyError: 'prices'; before that produce failed: TimeoutError: prices-2 is late$",
		},
		"an actor of a node that was lost": {
			events: append(nodeLostAt("10:15:40"), deadActor("Pinned", "actorUnschedulableContext", pinned, "ACTOR_UNSCHEDULABLE_ERROR")...),
			log:    trace(unscheduled + pinned), kind: findings.Unschedulable,
			found: "^Actor Pinned could not be scheduled: The node specified via NodeAffinitySchedulingStrategy ", severity: findings.Error,
			root: "^Node 10.0.0.2 died unexpectedly: ",
		},
		"a task of a node that was lost before its job": {
			events: append(nodeLostAt("10:05:40"), failedTask(1, "warm", "TASK_UNSCHEDULABLE_ERROR", pinned)...),
			log:    trace("ray.exceptions.TaskUnschedulableError: The task is not schedulable: " + pinned), kind: findings.Unschedulable,
			found: "^warm could not be scheduled: ", severity: findings.Error,
			root: "^warm could not be scheduled: The node specified via NodeAffinitySchedulingStrategy ",
		},
		"a task of a node that never was": {
			events: append(aliveNodes(), failedTask(1, "warm", "TASK_UNSCHEDULABLE_ERROR", pinned)...),
			log:    trace("ray.exceptions.TaskUnschedulableError: The task is not schedulable: " + pinned), kind: findings.Unschedulable,
			found: "^warm could not be scheduled: ", severity: findings.Error,
			root: "^warm could not be scheduled: The node specified via NodeAffinitySchedulingStrategy ",
		},
		"group, and the driver went on": {
			events: failedTask(1, "queued", "TASK_PLACEMENT_GROUP_REMOVED",
				groupGone+" lease_id=0500000001000000ffff, name=queued"),
			log: trace("KeyError: 'x'"), kind: findings.Unschedulable,
			found: "^queued was not run because its placement group was removed$", severity: findings.Info,
			root: "raised KeyError: 'x'$",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := submissionWithLog(t, 1, c.log, append(c.events, driverOf(1, "raysubmit_bad"))...)
			storeLog(t, dir, "raylet.err", raylet)
			r, chain := badJob(t, dir)
			says.True(t, len(chain) != 0 && regexp.MustCompile(c.root).MatchString(chain[len(chain)-1].Title),
				"the root cause of the job's failure: %+v", chain)
			i := slices.IndexFunc(r.Findings,
				func(f *findings.Finding) bool { return regexp.MustCompile(c.found).MatchString(f.Title) })
			says.True(t, i >= 0 && r.Findings[i].Kind == c.kind && r.Findings[i].Severity == c.severity,
				"no %s %s like %q: %+v", c.severity, c.kind, c.found, r.Findings)
		})
	}
}

// TestGroupGivenUp: whoever waited in vain for a placement group may remove it before it raises an exception. A group
// that was removed long before explains nothing, nor one of a driver of which nothing shows that it failed.
func TestGroupGivenUp(t *testing.T) {
	const group = `"placementGroupId": "AgICAgICAgICAgICAgIBAAAA", `
	const removed = "[2026-11-22 %s,101 I 55 55] (gcs_server) gcs_placement_group_manager.cc:482: Placement group of an id, %s01000000 is removed successfully.\n"
	const raised = "TimeoutError: Timed out waiting for placement groups to be ready"
	for at, want := range map[string]string{
		"10:15:52": "Placement group pg0 was never placed: it asks for 1 bundle of 1 CPU, 8 GPU, STRICT_PACK, and no node has any GPU",
		"10:13:52": "Job raysubmit_bad failed: its driver raised " + raised,
	} {
		events := append(aliveNodes(),
			eventOf("pgd", "PLACEMENT_GROUP_DEFINITION_EVENT", "placementGroupDefinitionEvent", group+`"name": "pg0", "strategy": "STRICT_PACK", "creatorJobId": "AAAAAQ==", "bundles": [{"unitResources": {"CPU": 1.0, "GPU": 8.0}}]`),
			eventOf("pgl", "PLACEMENT_GROUP_LIFECYCLE_EVENT", "placementGroupLifecycleEvent", group+`"stateTransitions": [{"timestamp": "2026-11-22T10:12:52Z", "state": "PENDING", "schedulingState": "INFEASIBLE"}, {"timestamp": "2026-11-22T`+at+`Z", "state": "REMOVED"}]`))
		dir := submissionWithLog(t, 1, trace(raised), append(events, driverOf(1, "raysubmit_bad"))...)
		storeLog(t, dir, "gcs_server.out", fmt.Sprintf(removed, at, strings.Repeat("02", 14)))
		_, chain := badJob(t, dir)
		says.Equal(t, chain[len(chain)-1].Title, want, "%s", at)
		dir = rareEvents(t, append(byHand(begins+ends), events...))
		storeLog(t, dir, "gcs_server.out", fmt.Sprintf(removed, at, strings.Repeat("02", 14)))
		says.Equal(t, len(report(t, load(t, dir, rayevents.Session, nil)).Findings), 0, "by hand, %s", at)
	}
}

// TestOtherErrors: errors that the recorded clusters do not have get the kind that their types tell of.
func TestOtherErrors(t *testing.T) {
	for name, c := range map[string]struct {
		events                []string
		log                   string
		title, kind, severity string
	}{
		"a limit of Data": {
			nil, trace("ray.data.exceptions.ExecutionTimeoutError: the dataset took longer than 600 s"),
			"Job raysubmit_bad failed: its driver raised ExecutionTimeoutError: the dataset took longer than 600 s",
			findings.Timeout, findings.Error,
		},
		"a client that went": {
			failedTask(1, "ServeReplica:shop:Cart.handle_request", "TASK_EXECUTION_EXCEPTION",
				trace("ray.serve.exceptions.RequestCancelledError: Request 12 was cancelled.")), trace("KeyError: 'x'"),
			"Deployment Cart of application shop failed: RequestCancelledError: Request 12 was cancelled.",
			findings.Cancelled, findings.Info,
		},
		"an actor that nobody referred to any more": {
			deadActor("Registry", "x", "The actor is dead because all references to the actor were removed.",
				"ACTOR_DIED")[2:],
			trace("KeyError: 'x'"),
			"Calls of Registry.ping failed because the actor was gone: The actor is dead because all references to the actor were removed.", findings.ActorDied, findings.Info,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := badJob(t, submissionWithLog(t, 1, c.log, append(c.events, driverOf(1, "raysubmit_bad"))...))
			i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return f.Title == c.title })
			says.True(t, i >= 0 && r.Findings[i].Kind == c.kind && r.Findings[i].Severity == c.severity,
				"no %s %s %q: %+v", c.severity, c.kind, c.title, r.Findings)
		})
	}
}

// TestFreedObject: a node that died is not the cause if somebody freed the object.
func TestFreedObject(t *testing.T) {
	for kind, causes := range map[string]int{"OBJECT_FREED": 0, "OBJECT_LOST": 1} {
		events := slices.Concat(rayevents.Of("NODE"), []string{driverOf(1, "raysubmit_bad")},
			failedTask(1, "fold", kind, "Failed to retrieve object 00ff."))
		for i, e := range events { // the node died before the task failed
			events[i] = strings.ReplaceAll(e, `"timestamp": "2026-11-22T10:20:30Z"`,
				`"timestamp": "2026-11-22T10:10:30Z"`)
		}
		r, _ := badJob(t, submissionWithLog(t, 1, trace("KeyError: 'x'"), events...))
		i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return f.Kind == findings.ObjectLost })
		says.True(t, i >= 0 && len(r.Findings[i].Because) == causes, "%s: %+v", kind, r.Findings)
	}
}

// TestLabels: a task and an actor that wait for a node with other labels than the nodes have could never be scheduled,
// and that is why their driver waited too long.
func TestLabels(t *testing.T) {
	node := strings.ReplaceAll(strings.Join(rayevents.Of("NODE"), "\n"), `"labels": {}`,
		`"labels": {"zone": "a", "disk": "ssd"}`)
	for selector, want := range map[string]string{
		`"zone": "b"`: "zone=b", `"zone": "!a"`: "zone=!a", `"zone": "in(b,c)"`: "zone=in(b,c)",
		`"disk": "!in(ssd,nvme)"`: "disk=!in(ssd,nvme)", `"gpu": "x"`: "gpu=x",
		`"zone": "a"`: "", `"zone": "in(b, a)"`: "", `"zone": "!b"`: "", `"gpu": "!x"`: "",
	} {
		task, actor := failedTask(1, "zoned", "WORKER_DIED", "x"), deadActor("Zoned", "x", "x", "x")
		task[0] = strings.Replace(task[0], `"requiredResources"`,
			`"labelSelector": {`+selector+`}, "requiredResources"`, 1)
		actor[0] = strings.Replace(actor[0], `"requiredResources"`,
			`"labelSelector": {`+selector+`}, "requiredResources"`, 1)
		task[1] = strings.NewReplacer(`"FAILED"`, `"PENDING_NODE_ASSIGNMENT"`, `"rayErrorInfo"`, `"x"`).Replace(task[1])
		actor[1] = strings.NewReplacer(`"DEAD"`, `"PENDING_CREATION"`, `"deathCause"`, `"x"`).Replace(actor[1])
		events := slices.Concat(strings.Split(node, "\n"), task, actor[:2], []string{driverOf(1, "raysubmit_bad")})
		r, chain := badJob(t, submissionWithLog(t, 1,
			trace("ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."), events...))
		var titles []string
		for _, f := range r.Findings {
			if f.Kind == findings.Unschedulable {
				titles = append(titles, f.Title)
			}
		}
		slices.Sort(titles)
		var wants []string
		if want != "" {
			for _, name := range []string{"actor Zoned", "zoned"} {
				wants = append(wants, name+" could never be scheduled: it asks for 1 CPU on a node with the labels "+
					want+", and no node has such labels")
			}
		}
		says.True(t, slices.Equal(titles, wants) && len(chain) == 1+min(1, len(wants)),
			"%s: got %q, want %q; the driver: %+v", selector, titles, wants, chain)
	}
}

// TestWorkerStarts: of worker processes that did not start the error is told that they printed, whatever else they and
// the raylet said, and else Ray's own words.
func TestWorkerStarts(t *testing.T) {
	const dead, alive = "The process is dead, probably it crashed during start.", "The process is still alive, probably it's hanging during start."
	const noRay = "Traceback (most recent call last):\n  File \"/env/ray/_private/workers/default_worker.py\", line 8, in <module>\n    import ray\nModuleNotFoundError: No module named 'ray'\n"
	const uv = "Using CPython 3.11.13\nCreating virtual environment at: .venv\nInstalled 50 packages in 2s\n"
	gaveUp := func(at, how string) string {
		return fmt.Sprintf("[2026-11-22 10:%s,012 E 88 88] (raylet) worker_pool.cc:660: Some workers of the worker process(212) have not registered within the timeout. %s\n", at, how)
	}
	failed := "[2026-11-22 10:02:00,012 E 88 88] (raylet) worker_pool.cc:1624: Fails to create or get runtime env [Node 127.0.0.1] " + trace("FileNotFoundError: [Errno 2] No such file or directory: 'podman'") + "\n"
	for name, c := range map[string]struct {
		log  string
		want []string
	}{
		"a module":       {noRay + noRay + gaveUp("01:00", dead) + gaveUp("01:01", dead), []string{"ModuleNotFoundError: No module named 'ray'"}},
		"among entries":  {failed + noRay + failed + gaveUp("01:00", dead), []string{"ModuleNotFoundError: No module named 'ray'"}},
		"progress":       {uv + gaveUp("01:00", alive), []string{alive}},
		"uv":             {uv + "  × No solution found when resolving dependencies:\n  ╰─▶ Because a is not there, it is unsatisfiable.\n" + gaveUp("01:00", dead), []string{"× No solution found when resolving dependencies: Because a is not there, it is unsatisfiable."}},
		"an image":       {"Trying to pull docker.io/a/b:9...\nError: initializing source docker://a/b:9: manifest unknown\n" + gaveUp("01:00", dead), []string{"Error: initializing source docker://a/b:9: manifest unknown"}},
		"no Python":      {"Python path configuration:\n  PYTHONHOME = '/opt/old'\nFatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding\nPython runtime state: core initialized\nModuleNotFoundError: No module named 'encodings'\n\nCurrent thread 0x7f21 (most recent call first):\n  <no Python frame>\n" + gaveUp("01:00", dead), []string{"ModuleNotFoundError: No module named 'encodings'"}},
		"another reason": {noRay + gaveUp("01:00", dead) + "bash: line 1: exec: podman: not found\n" + gaveUp("01:30", dead), []string{"ModuleNotFoundError: No module named 'ray'", "bash: line 1: exec: podman: not found"}},
		"much later":     {noRay + gaveUp("01:00", dead) + gaveUp("05:00", alive), []string{"ModuleNotFoundError: No module named 'ray'", alive}},
	} {
		dir := rareEvents(t, submission("raysubmit_bad"))
		storeLog(t, dir, "raylet.err", c.log)
		var got []string
		for _, f := range report(t, load(t, dir, rayevents.Session, nil)).Findings {
			if said, is := strings.CutPrefix(f.Title, "Worker processes did not start: "); is {
				got = append(got, said)
			}
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWorkersOfBefore: workers that did not start long before are not why a driver waited, and what the raylet printed
// about other failures is not what they printed.
func TestWorkersOfBefore(t *testing.T) {
	dir := submissionWithLog(t, 1, trace("ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."),
		driverOf(1, "raysubmit_bad"))
	const dead = "[2026-11-22 10:%s,012 E 88 88] (raylet) worker_pool.cc:660: Some workers of the worker process(212) have not registered within the timeout. The process is dead, probably it crashed during start.\n"
	failed := "[2026-11-22 10:02:00,012 E 88 88] (raylet) worker_pool.cc:1624: Fails to create or get runtime env [Node 127.0.0.1] " + trace("FileNotFoundError: [Errno 2] No such file or directory: 'podman'") + "\n"
	storeLog(t, dir, "raylet.err", fmt.Sprintf(dead, "01:00")+failed+fmt.Sprintf(dead, "03:00")+failed)
	r, chain := badJob(t, dir)
	says.Equal(t, len(chain), 1, "the driver waited because of %s", chain[len(chain)-1].Title)
	if !slices.ContainsFunc(r.Findings, func(f *findings.Finding) bool {
		return f.Title == "Worker processes did not start: The process is dead, probably it crashed during start." &&
			f.Count == 2
	}) {
		t.Errorf("%+v", r.Findings)
	}
	storeLog(t, dir, "raylet.err", fmt.Sprintf(dead, "15:30"))
	if _, chain := badJob(t, dir); len(chain) != 2 {
		t.Errorf("a driver that waited for a worker: %+v", chain)
	}
}

// TestLateWorkers: worker processes that were only late are a warning, unless nothing else tells why a driver gave up.
func TestLateWorkers(t *testing.T) {
	const late = "The process is still alive, probably it's hanging during start."
	line := "[2026-11-22 10:15:20,012 E 88 88] (raylet) worker_pool.cc:660: Some workers of the worker process(212) have not registered within the timeout. " + late
	for name, c := range map[string]struct {
		events []string
		log    string
		chain  int
		want   string
	}{
		"trials failed":     {failedTask(1, "fit", "TASK_EXECUTION_EXCEPTION", "ValueError: no rows"), trace("RuntimeError: No best trial found"), 2, findings.Warning},
		"nothing failed":    {nil, trace("RuntimeError: no answer"), 2, findings.Error},
		"another exception": {nil, trace("KeyError: 'rows'"), 1, findings.Warning},
		"a wait":            {nil, trace("ray.exceptions.GetTimeoutError: Get timed out"), 2, findings.Error},
	} {
		dir := submissionWithLog(t, 1, "\x1b[33m(raylet)\x1b[0m "+line+"\n"+c.log, append(c.events, driverOf(1, "raysubmit_bad"))...)
		storeLog(t, dir, "raylet.err", line+"\n")
		r, chain := badJob(t, dir)
		if f := only(r, "^Worker processes did not start: "+late); f == nil || f.Severity != c.want || len(chain) != c.chain {
			t.Errorf("%s: %+v, %+v", name, f, chain)
		}
	}
}

// TestToldOfWorkers: of the worker processes that did not start those of which the raylet told a driver are why it gave
// up, in whatever words, or had not ended.
func TestToldOfWorkers(t *testing.T) {
	const noCodec, noPython = "ModuleNotFoundError: No module named 'encodings'", "bash: line 1: /opt/py/bin/python: No such file or directory"
	const dead = "[2026-11-22 10:15:%s,012 E 88 88] (raylet) worker_pool.cc:660: Some workers of the worker process(212) have not registered within the timeout. The process is dead, probably it crashed during start.\n"
	told := "\x1b[33m(raylet)\x1b[0m " + noCodec + "\n"
	wentOn := failedTask(1, "score", "x", "x")
	wentOn[0] = strings.Replace(wentOn[0], `"taskName"`, fmt.Sprintf(`"parentTaskId": "%s", "taskName"`,
		base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xff", 20)+"\x00\x00\x00\x01"))), 1)
	wentOn[1] = strings.NewReplacer(`"FAILED"`, `"FINISHED"`, `"rayErrorInfo"`, `"x"`).Replace(wentOn[1])
	for name, c := range map[string]struct{ log, root string }{
		"words":           {told + "conversion did not finish in time\n", "Worker processes did not start: " + noCodec},
		"an exception":    {told + trace("RuntimeError: no converter is there"), "Worker processes did not start: " + noCodec},
		"a wait":          {told + trace("TimeoutError"), "Worker processes did not start: " + noCodec},
		"a mistake":       {told + trace("KeyError: 'rows'"), "Job raysubmit_bad failed: its driver raised KeyError: 'rows'"},
		"going on":        {told + trace("RuntimeError: AUC is 0.61"), "Job raysubmit_bad failed: its driver raised RuntimeError: AUC is 0.61"},
		"nothing told":    {"no converter is there\n", "Job raysubmit_bad failed with exit code 1: no converter is there"},
		"that of another": {"\x1b[33m(raylet)\x1b[0m something else\n" + trace("RuntimeError: no converter"), "Job raysubmit_bad failed: its driver raised RuntimeError: no converter"},
	} {
		events := []string{driverOf(1, "raysubmit_bad")}
		if name == "going on" {
			events = append(events, wentOn...)
		}
		dir := submissionWithLog(t, 1, c.log, events...)
		storeLog(t, dir, "raylet.err", noPython+"\n"+fmt.Sprintf(dead, "20")+noCodec+"\n"+fmt.Sprintf(dead, "40"))
		if _, chain := badJob(t, dir); len(chain) == 0 || chain[len(chain)-1].Title != c.root {
			t.Errorf("%s: %+v, want %q", name, chain, c.root)
		}
	}
}

// TestNotTheCause: a driver's exception is not linked to failures that it does not tell of.
func TestNotTheCause(t *testing.T) {
	for name, c := range map[string]struct {
		events      []string
		log, caused string // caused is the title of the finding that must not be a cause
	}{
		"memory of the GPU": {
			failedTask(1, "embed", "OUT_OF_MEMORY", "Task was killed due to the node running low on memory."),
			trace("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
			"^embed ran out of memory",
		},
		"name in a frame": {
			failedTask(1, "train_step", "WORKER_DIED", "UnexpectedSystemExit: Worker exits with an exit code 3."),
			trace("    [train_step.remote(cfg['lr'])]\nKeyError: 'lr'"), "^The worker that ran train_step died",
		},
		"name of a file": {
			failedTask(1, "train", "WORKER_DIED", "UnexpectedSystemExit: Worker exits with an exit code 3."),
			trace("KeyError: 'learning_rate'"), "^The worker that ran train died",
		},
		"a thing that is missing": {
			failedTask(1, "warm_up", "TASK_EXECUTION_EXCEPTION", trace("OSError: cache-2 is down")),
			trace("omegaconf.errors.MissingMandatoryValue: Missing mandatory value: optimizer.lr"), "^warm_up failed",
		},
		"a library's own error": {
			failedTask(1, "warm_up", "TASK_EXECUTION_EXCEPTION", trace("OSError: cache-2 is down")),
			trace("    client.put(o)\n  File \"/lib/site-packages/botocore/client.py\", line 7, in call\nbotocore.exceptions.ClientError: An error occurred (AccessDenied) when calling PutObject"), "^warm_up failed",
		},
		"an optional actor that fits on no node": {
			failedTask(1, "warm_up", "TASK_UNSCHEDULABLE_ERROR", "no node has 8 GPUs"),
			trace("ValueError: bad row"), "^warm_up could not be scheduled",
		},
		"a check": {
			failedTask(1, "warm_up", "TASK_EXECUTION_EXCEPTION", trace("OSError: cache-2 is down")),
			trace("AssertionError: p99 is 2.41 s"), "^warm_up failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, chain := badJob(t, submissionWithLog(t, 1, c.log, append(c.events, driverOf(1, "raysubmit_bad"))...))
			says.Equal(t, len(chain), 1, "the job is explained: %+v", chain)
			if !slices.ContainsFunc(r.Findings,
				func(f *findings.Finding) bool { return regexp.MustCompile(c.caused).MatchString(f.Title) }) {
				t.Errorf("no finding %q: %+v", c.caused, r.Findings)
			}
		})
	}
}

// driver is the ID of a driver as the parent of the tasks that it submits.
func driver(n byte) []byte { return append([]byte(strings.Repeat("\xff", 20)), 0, 0, 0, n) }

// submittedBy gives a task a parent that submitted it at a time, and the state in which it ended.
func submittedBy(parent []byte, task []string, at, ended, state string) []string {
	return []string{
		strings.Replace(task[0], `"taskType"`, fmt.Sprintf(`"parentTaskId": "%s", "taskType"`,
			base64.StdEncoding.EncodeToString(parent)), 1),
		strings.Replace(task[1], `[{"state": "FAILED", "timestamp": "2026-11-22T10:15:55Z"}]`, fmt.Sprintf(
			`[{"state": "PENDING_ARGS_AVAIL", "timestamp": "2026-11-22T%sZ"}, {"state": "%s", "timestamp": "2026-11-22T%sZ"}]`, at, state, ended), 1),
	}
}

// TestLowestOfChain: before a task's own exception that hides others, that of the lowest task that it had called counts.
func TestLowestOfChain(t *testing.T) {
	id := func(name string) []byte { return append([]byte((name + strings.Repeat("x", 20))[:20]), 0, 0, 0, 1) }
	failed := func(parent []byte, name, raised, at, ended string) []string {
		return submittedBy(parent, failedTask(1, name, "TASK_EXECUTION_EXCEPTION", trace(raised)), at, ended, "FAILED")
	}
	const desk = "acme.DeskError: desk rates has no value"
	events := slices.Concat(
		failed(driver(1), "value_desk", desk, "10:15:50", "10:15:56"),
		failed(id("value_desk"), "build_curve", "acme.CurveError: curve EUR6M is not built", "10:15:51", "10:15:55"),
		failed(id("build_curve"), "parse_tenor", "ValueError: negative tenor -3M", "10:15:52", "10:15:54"),
		[]string{driverOf(1, "raysubmit_bad")})
	_, chain := badJob(t, submissionWithLog(t, 1, trace(desk), events...))
	const want = "value_desk failed: DeskError: desk rates has no value; before that parse_tenor failed: ValueError: negative tenor -3M"
	says.Equal(t, chain[len(chain)-1].Title, want)
}

// TestLowestIsTold: what is below a failure before the end is not told twice, if it is what ended the job.
func TestLowestIsTold(t *testing.T) {
	id := func(name string) []byte { return append([]byte((name + strings.Repeat("x", 20))[:20]), 0, 0, 0, 1) }
	const lacks = "KeyError: 'part-7'"
	load := func(task string, parent []byte, at, ended string) []string {
		events := submittedBy(parent, failedTask(1, task, "TASK_EXECUTION_EXCEPTION", trace(lacks)), at, ended, "FAILED")
		events[0] = strings.ReplaceAll(events[0], `Name": "`+task, `Name": "load`)
		return events
	}
	events := slices.Concat(
		submittedBy(driver(1), failedTask(1, "stage", "TASK_EXECUTION_EXCEPTION", trace("acme.StageError: no part")), "10:15:50", "10:15:53", "FAILED"),
		load("load1", id("stage"), "10:15:51", "10:15:52"), load("load2", driver(1), "10:15:54", "10:15:56"),
		[]string{driverOf(1, "raysubmit_bad")})
	_, chain := badJob(t, submissionWithLog(t, 1, trace(lacks), events...))
	says.Equal(t, chain[len(chain)-1].Title, "load failed: "+lacks+"; before that stage failed: StageError: no part")
}

// TestForgiven: a failure after which the driver submitted more is not why it ended, unless its last words count
// failures or are of an exception that says no more.
func TestForgiven(t *testing.T) {
	more := submittedBy(driver(1), failedTask(1, "fold", "", ""), "10:15:57", "10:15:58", "FINISHED")
	printed := strings.Replace(trace("OSError: torn"), "<module>", "read", 1)
	for log, causes := range map[string]int{
		trace("acme.ConfigError: an error in pipeline.toml"): 0, trace("acme.ShardError: 1 of 8 shards failed"): 1,
		trace("  File \"/lib/site-packages/acme/a.py\", line 7, in run\nacme.StageLost: stage read_rows failed"): 1,
		trace("RuntimeError: shards failed"): 1, printed + "AUC 0.61 is below 0.75\n": 0, printed: 1,
	} {
		for _, goesOn := range []bool{true, false} {
			events := append(failedTask(1, "read_rows", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn")),
				driverOf(1, "raysubmit_bad"))
			want := 1
			if goesOn {
				events, want = append(events, more...), causes
			}
			_, chain := badJob(t, submissionWithLog(t, 1, log, events...))
			if len(chain) != 1+want || !strings.Contains(chain[0].Title+chain[len(chain)-1].Title, "OSError: torn") {
				t.Errorf("%s, it goes on: %t: %+v", log, goesOn, chain)
			}
		}
	}
}

// TestNotHandled: an exit code of a shell, what is printed as Python ends, and words about a failure do not show that a
// driver handled a task's exception, and link it to no failure that it had left alone.
func TestNotHandled(t *testing.T) {
	rename := strings.NewReplacer(`"taskName": "fold"`, `"taskName": "read_rows"`, `"functionName": "fold"`, `"functionName": "read_rows"`)
	again := submittedBy(driver(1), failedTask(1, "fold", "", ""), "10:15:57", "10:15:58", "FINISHED")
	again[0] = rename.Replace(again[0])
	printed := strings.Replace(trace("OSError: torn"), "<module>", "read", 1)
	for _, c := range []struct {
		code int
		log  string
	}{
		{3, trace("OSError: torn")}, {2, printed}, {1, trace("OSError: torn") + "[ERROR] training failed\n"},
		{1, printed + "[ERROR] training failed\n"}, {1, trace("OSError: torn") + "[ERROR] stopping\n"},
		{1, trace("OSError: torn") + "ERROR:asyncio:Unclosed client session\nclient_session: <aiohttp.ClientSession>\n"},
	} {
		events := slices.Concat(failedTask(1, "read_rows", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn")),
			failedTask(1, "probe", "TASK_EXECUTION_EXCEPTION", trace("KeyError: 'gpu'")), again, []string{driverOf(1, "raysubmit_bad")})
		_, chain := badJob(t, submissionWithLog(t, c.code, c.log, events...))
		if len(chain) != 2 || len(chain[0].Because) != 1 || chain[1].Title != "read_rows failed: OSError: torn" || chain[1].Severity != findings.Error {
			t.Errorf("%d, %s: %+v", c.code, c.log, chain)
		}
	}
}

// TestErrorOfALibrary: a task whose library tells of an error did not fail because a task that it had called did, but
// for one that the library names.
func TestErrorOfALibrary(t *testing.T) {
	const raised, frame = "botocore.exceptions.ClientError: An error occurred (AccessDenied)", "  File \"/lib/site-packages/botocore/client.py\", line 7, in call\n"
	for text, causes := range map[string]int{raised: 1, frame + raised: 0, frame + raised + " in read_rows": 1} {
		publish := failedTask(1, "publish", "TASK_EXECUTION_EXCEPTION", strings.TrimSuffix(trace(text), "\n"))
		read := submittedBy([]byte("publish"+strings.Repeat("x", 13)+"\x00\x00\x00\x01"), failedTask(1, "read_rows", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn")),
			"10:15:50", "10:15:54", "FAILED")
		r, _ := badJob(t, submissionWithLog(t, 1, trace("KeyError: 'x'"), slices.Concat(publish, read, []string{driverOf(1, "raysubmit_bad")})...))
		i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return strings.HasPrefix(f.Title, "publish failed: ClientError") })
		says.True(t, i >= 0 && len(r.Findings[i].Because) == causes, "%q: %+v", text, r.Findings)
	}
}

// TestAllRepaired: of failures that were all made up for, those count after which the next call of the function failed.
func TestAllRepaired(t *testing.T) {
	other := failedTask(1, "price2", "TASK_EXECUTION_EXCEPTION", trace("ConnectionError: reset"))
	for i := range other {
		other[i] = strings.NewReplacer(`"price2"`, `"price"`, "10:15:55Z", "10:15:56Z").Replace(other[i])
	}
	good := submittedBy(driver(1), failedTask(1, "price3", "", ""), "10:15:57", "10:15:58", "FINISHED")
	good[0] = strings.ReplaceAll(good[0], `"price3"`, `"price"`)
	events := slices.Concat(other, good, failedTask(1, "price", "TASK_EXECUTION_EXCEPTION", trace("ArithmeticError: rate")),
		[]string{driverOf(1, "raysubmit_bad")})
	_, chain := badJob(t, submissionWithLog(t, 3, "priced 2\n", events...))
	says.True(t, len(chain) == 2 && len(chain[0].Because) == 1 &&
		strings.Contains(chain[1].Title, "ArithmeticError: rate"), "%+v", chain)
}

// TestLeftByTask: a task that says that there is none of something names the call that it had left.
func TestLeftByTask(t *testing.T) {
	best := []byte("best" + strings.Repeat("x", 16) + "\x00\x00\x00\x01")
	ask := submittedBy(best, failedTask(1, "ask", "", ""), "10:15:44", "10:15:45", "RUNNING")
	for said, left := range map[string]bool{"acme.NoQuote: no quote of ASML": true, "acme.QuoteError: bid is 9": false} {
		events := slices.Concat(ask, failedTask(1, "best", "TASK_EXECUTION_EXCEPTION", trace(said)),
			[]string{driverOf(1, "raysubmit_bad")})
		_, chain := badJob(t, submissionWithLog(t, 1, trace(said), events...))
		if len(chain) != 2 || strings.Contains(chain[1].Title, "it had left ask, which had been running for 10s") != left {
			t.Errorf("%s: %+v", said, chain)
		}
	}
}

// TestGoesOn: a failure of a job that runs is no error if its driver submitted more after it.
func TestGoesOn(t *testing.T) {
	failed := append(failedTask(1, "read_rows", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn")), driverOf(1, "raysubmit_open"))
	for at, want := range map[string]string{"10:15:57": findings.Warning, "10:15:50": findings.Error} {
		events := slices.Concat(failed, submittedBy(driver(1), failedTask(1, "fold", "", ""), at, "10:15:58", "FINISHED"))
		for _, e := range rayevents.Of("SUBMISSION") {
			if strings.Contains(e, "raysubmit_open") {
				events = append(events, e)
			}
		}
		r := &moment.Moment{Env: moment.NewEnv(silent.Logger(), nil), Session: load(t, rareEvents(t, events), rayevents.Session, nil),
			Running: func(context.Context) bool { return true }}
		found, err := findings.Reader{}.Read(t.Context(), r)
		says.True(t, err == nil && len(found.Findings) != 0 && found.Findings[0].Severity == want,
			"submitted at %s: %v, %+v", at, err, found)
	}
}

// TestManyJobs: what failed in a job that succeeded is no error, also if there are more jobs than one report looks at.
func TestManyJobs(t *testing.T) {
	events := slices.Concat([]string{driverOf(1, "raysubmit_good0"), driverOf(2, "raysubmit_good95")},
		failedTask(1, "one", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn")), failedTask(2, "two", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn")))
	for i := range 2100 {
		for _, e := range rayevents.Of("SUBMISSION")[:4] {
			e = strings.ReplaceAll(e, `"eventId": "`, fmt.Sprintf(`"eventId": "%04d`, i))
			events = append(events, strings.ReplaceAll(e, "raysubmit_good", fmt.Sprintf("raysubmit_good%d", i)))
		}
	}
	r := report(t, load(t, rareEvents(t, events), rayevents.Session, nil))
	if slices.ContainsFunc(r.Jobs, func(j findings.Job) bool { return j.SubmissionID == "raysubmit_good95" }) {
		t.Error("raysubmit_good95 was looked at")
	}
	says.True(t, len(r.Missing) == 1 && len(r.Findings) == 2 && r.Errors() == 0, "%q, %+v", r.Missing, r.Findings)
}

// TestWordsOfTheDriver: what a driver printed last is in Ray's message about its job, and no word of Ray about it. If
// its log is not stored, this shows how it ended.
func TestWordsOfTheDriver(t *testing.T) {
	const said = "vLLM server failed to start within 600 s\n"
	for _, stored := range []bool{true, false} {
		for log, title := range map[string]string{
			said:                         "Job raysubmit_bad failed with exit code 3: " + strings.TrimSpace(said),
			trace("ValueError: bad row"): "Job raysubmit_bad failed: its driver ended with exit code 3; the last exception in its log is ValueError: bad row",
		} {
			var events []string
			for _, e := range rayevents.Of("SUBMISSION") {
				events = append(events, strings.Replace(e, `"Job entrypoint command failed with exit code 3"`, fmt.Sprintf("%q",
					"Job entrypoint command failed with exit code 3, last available logs (truncated to 20,000 chars):\n"+log), 1))
			}
			dir := rareEvents(t, events)
			if stored {
				storeLog(t, dir, "job-driver-raysubmit_bad.log", log)
			}
			if _, chain := badJob(t, dir); len(chain) != 1 || chain[0].Title != title {
				t.Errorf("log stored: %t: %+v, want %s", stored, chain, title)
			}
		}
	}
}

// TestTimeoutKills: an entrypoint with timeout that ends its program by SIGKILL took too long, if that time was over;
// another one was killed.
func TestTimeoutKills(t *testing.T) {
	for entrypoint, kind := range map[string]string{
		"timeout -s KILL 60 python a.py": findings.Timeout, "timeout --foreground -k 5 60 python a.py": findings.Timeout,
		"timeout --signal=9 9.5m python a.py": findings.Timeout, "bash -c 'timeout -s9 595s python a.py'": findings.Timeout,
		"timeout -k 10s 6h python a.py": findings.DriverKilled, "timeout -s KILL 1h python a.py": findings.DriverKilled,
		"timeout -s INT 60 python a.py": findings.DriverKilled, "timeout 60 python a.py": findings.DriverKilled,
		"timeout 60 python a.py -k 3": findings.DriverKilled, "python a.py": findings.DriverKilled,
	} {
		var events []string
		for _, e := range rayevents.Of("SUBMISSION") {
			events = append(events, strings.NewReplacer(`"driverExitCode": 3`, `"driverExitCode": 137`, "python raysubmit_bad.py", entrypoint).Replace(e))
		}
		if _, chain := badJob(t, rareEvents(t, events)); len(chain) != 1 || chain[0].Kind != kind {
			t.Errorf("%s: %+v", entrypoint, chain)
		}
	}
}

// exitedZero are a driver's events and those of workers, by the bytes of their IDs, that called sys.exit(0) at one time.
func exitedZero(workers ...byte) []string {
	events := append(rayevents.Of("NODE"), driverOf(1, "raysubmit_bad"))
	for _, w := range workers {
		id := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{w}, 28))
		events = append(events,
			eventOf("w"+id, "WORKER_DEFINITION_EVENT", "workerDefinitionEvent",
				`"workerId": "`+id+`", "nodeId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==", "workerType": "WORKER"`),
			eventOf("wl"+id, "WORKER_LIFECYCLE_EVENT", "workerLifecycleEvent",
				`"workerId": "`+id+`", "jobId": "AAAAAQ==", "stateTransitions": [{"state": "DEAD", "timestamp": "2026-11-22T10:15:58Z", "endTimeMs": "1795342558000", `+
					`"deathInfo": {"exitType": "SYSTEM_ERROR", "exitDetail": "The leased worker has unrecoverable failure. Worker is requested to be destroyed when it is returned. Worker exits with an exit code 0."}}]`))
	}
	return events
}

// TestDiedAtOnce: of workers that died at the same time, always the same one's last words are told.
func TestDiedAtOnce(t *testing.T) {
	dir := submissionWithLog(t, 1,
		trace("ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task."), exitedZero(7, 8, 9)...)
	for _, w := range []string{"07", "08", "09"} {
		storeLog(t, dir, fmt.Sprintf("worker-%s-00000001-7.err", strings.Repeat(w, 28)), "FATAL: no licence for seat "+w+"\n")
	}
	for range 12 {
		_, chain := badJob(t, dir)
		says.True(t, len(chain) == 2 && strings.HasSuffix(chain[1].Title, ": FATAL: no licence for seat 09"), "%+v", chain)
	}
}

// TestExitZero: Ray 2.60 counts a task as finished that called sys.exit(0), but raises a WorkerCrashedError where its
// result is awaited.
func TestExitZero(t *testing.T) {
	dir := submissionWithLog(t, 1,
		trace("ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task."), exitedZero(7)...)
	_, chain := badJob(t, dir)
	says.True(t, len(chain) == 2 && chain[1].Kind == findings.WorkerDied &&
		chain[1].Title == "A worker of job raysubmit_bad died: exit code 0" && chain[1].Severity == findings.Error,
		"%+v", chain)
	const log = "worker-%s-00000001-7.%s"
	storeLog(t, dir, fmt.Sprintf(log, strings.Repeat("07", 28), "err"), "GPU available: True\n")
	storeLog(t, dir, fmt.Sprintf(log, strings.Repeat("07", 28), "out"), "FATAL: licence expired\n")
	if _, chain = badJob(t, dir); len(chain) != 2 || !strings.HasSuffix(chain[1].Title, ": FATAL: licence expired") {
		t.Errorf("an error comes before other words, wherever it is: %+v", chain)
	}
	storeLog(t, dir, fmt.Sprintf(log, strings.Repeat("07", 28), "err"),
		"LLVM ERROR: Failed to translate TritonGPU to LLVM IR.\n*** SIGABRT received at time=1712361058 on cpu 4 ***\n")
	if _, chain = badJob(t, dir); len(chain) != 2 || !strings.HasSuffix(chain[1].Title,
		"SIGABRT; the last it printed: LLVM ERROR: Failed to translate TritonGPU to LLVM IR.") {
		t.Errorf("what a library says before it aborts its process: %+v", chain)
	}
}

// TestCallsOfCrashedActor: of an actor of which no events are stored, the worker in which a call ran says how it ended.
func TestCallsOfCrashedActor(t *testing.T) {
	events := deadActor("Ingest", "x", "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "+
		"Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.", "ACTOR_DIED")[2:]
	events[1] = strings.Replace(events[1], `"rayErrorInfo"`,
		`"workerId": "`+base64.StdEncoding.EncodeToString(slices.Repeat([]byte{7}, 28))+`", "rayErrorInfo"`, 1)
	const gone = "Calls of Ingest.ping failed because the actor was gone: "
	for log, want := range map[string]string{
		"":                         gone + "its process ended without telling Ray why, as after SIGKILL or os._exit",
		"FATAL: licence expired\n": gone + "its process ended without telling Ray why, as after SIGKILL or os._exit; the last it printed: FATAL: licence expired",
		"Lock blocking\n*** SIGABRT received at time=1712361058 on cpu 4 ***\n":                  gone + "SIGABRT",
		"rocksdb: corruption in 217.sst\n*** SIGSEGV received at time=1712361058 on cpu 4 ***\n": gone + "SIGSEGV; the last it printed: rocksdb: corruption in 217.sst",
	} {
		dir := submissionWithLog(t, 1, trace("KeyError: 'x'"), append(slices.Clone(events), driverOf(1, "raysubmit_bad"))...)
		storeLog(t, dir, "worker-"+strings.Repeat("07", 28)+"-00000001-7.err", log)
		r, _ := badJob(t, dir)
		says.True(t, slices.ContainsFunc(r.Findings, func(f *findings.Finding) bool { return f.Title == want }),
			"%q is not among %+v", want, r.Findings)
	}
}

// TestSupervisorFailed: if the actor that runs a job's driver failed, nothing shows that a traceback in the driver's
// log ended the job.
func TestSupervisorFailed(t *testing.T) {
	caught := trace("ValueError: shard 3 is empty, it is left out") + "epoch 2\n"
	for _, c := range []struct{ kind, message, title string }{
		{"JOB_SUPERVISOR_ACTOR_DIED", "Job supervisor actor died: The actor died unexpectedly before finishing this task.\n\tclass_name: JobSupervisor\n" +
			"The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.",
			"Job raysubmit_bad failed because the actor that runs its driver failed: The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR " +
				"Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file."},
		{"JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE",
			"Unexpected error occurred: The actor 01 is unavailable: The actor is temporarily unavailable.",
			"Job raysubmit_bad failed because the actor that runs its driver failed: Unexpected error occurred: The actor 01 is unavailable: The actor is temporarily unavailable."},
		{"JOB_SUPERVISOR_ACTOR_START_FAILURE",
			"Failed to start supervisor actor raysubmit_bad: 'no'. Full traceback:\n" +
				trace("ValueError: runtime_env['pip'] has no field pkgs"),
			"Job raysubmit_bad failed because the actor that runs its driver failed: ValueError: runtime_env['pip'] has no field pkgs"},
		{"JOB_ENTRYPOINT_COMMAND_START_ERROR", trace("OSError: [Errno 28] No space left on device"),
			"Job raysubmit_bad failed: OSError: [Errno 28] No space left on device"},
	} {
		var events []string
		for _, e := range rayevents.Of("SUBMISSION") {
			events = append(events, strings.NewReplacer(`, "driverExitCode": 3`, "", "JOB_ENTRYPOINT_COMMAND_ERROR",
				c.kind,
				`"Job entrypoint command failed with exit code 3"`, fmt.Sprintf("%q", c.message)).Replace(e))
		}
		dir := rareEvents(t, events)
		if !strings.HasPrefix(c.kind, "JOB_ENTRYPOINT") {
			storeLog(t, dir, "job-driver-raysubmit_bad.log", caught)
		}
		if _, chain := badJob(t, dir); len(chain) != 1 || chain[0].Kind != findings.JobFailed ||
			chain[0].Title != c.title ||
			strings.Contains(chain[0].Advice, "was submitted") != strings.Contains(c.title, "runtime_env") {
			t.Errorf("%s: %+v", c.kind, chain)
		}
	}
}

// TestSeveralJobs: a node that died is no error if all the jobs that it had worked for succeeded.
func TestSeveralJobs(t *testing.T) {
	good := make([]string, 0, 8)
	for _, e := range rayevents.Of("SUBMISSION") {
		if strings.Contains(e, "raysubmit_good") {
			good = append(good, e, strings.NewReplacer("raysubmit_good", "raysubmit_fine", `"eventId": "cmF5`,
				`"eventId": "Y2F5`).Replace(e))
		}
	}
	const died = "Task failed because the node it was running on is dead or unavailable. Node IP: 10.0.0.2, node ID: 02020202020202020202020202020202020202020202020202020202."
	events := slices.Concat(good, rayevents.Of("NODE"),
		[]string{driverOf(1, "raysubmit_good"), driverOf(2, "raysubmit_fine")},
		failedTask(1, "one", "NODE_DIED", died), failedTask(2, "two", "NODE_DIED", died))
	r := report(t, load(t, rareEvents(t, events), rayevents.Session, nil))
	says.True(t, r.Outcome == catalog.Succeeded && len(r.Findings) == 3 && r.Errors() == 0, "%s: %+v", r.Outcome,
		r.Findings)
}

// TestCallsOfATimeout: a driver that waited too long for an actor's call names the call, which is why it waited.
func TestCallsOfATimeout(t *testing.T) {
	call := deadActor("Db", "x", "x", "WORKER_DIED")[2:]
	call[1] = strings.Replace(call[1], `[{"state": "FAILED"`,
		`[{"state": "RUNNING", "timestamp": "2026-11-22T10:15:49Z"}, {"state": "FAILED"`, 1)
	call[1] = strings.Replace(call[1], `"errorMessage": "x"`, `"errorMessage": ""`, 1)
	r, chain := badJob(t, submissionWithLog(t, 1,
		trace("ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."),
		append(call, driverOf(1, "raysubmit_bad"))...))
	const title = "Db.ping did not finish: it had been running for 12s when the driver stopped waiting for it (GetTimeoutError)"
	says.True(t, len(chain) == 2 && chain[1].Title == title && r.Findings[0] == chain[1] &&
		strings.Contains(text(chain[1]), "task Db.ping had been RUNNING since 2026-11-22T10:15:49"), "the driver: %+v",
		chain)
}

// TestFailedCheck: of a call that got no answer the title says that the actor's node did not answer health checks then.
func TestFailedCheck(t *testing.T) {
	const check = "[2026-11-22 %s,199 W 31 31] (gcs_server) gcs_health_check_manager.cc:209: Health check failed for node %s, remaining checks 3, status 4\n"
	node, other := strings.Repeat("01", 28), strings.Repeat("02", 28)
	for name, c := range map[string]struct {
		log  string
		told bool
	}{
		"its node":      {fmt.Sprintf(check, "10:15:53", node), true},
		"another node":  {fmt.Sprintf(check, "10:15:53", other), false},
		"before":        {fmt.Sprintf(check, "10:14:53", node), false},
		"long after it": {fmt.Sprintf(check, "10:18:53", node), false},
		"no check":      {"", false},
	} {
		db := deadActor("Db", "x", "x", "WORKER_DIED")
		db[1] = strings.NewReplacer(`"state": "DEAD", "timestamp": "2026-11-22T10:15:55Z"`,
			`"state": "ALIVE", "timestamp": "2026-11-22T10:15:45Z", "workerId": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw==", "nodeId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ=="`,
			`"deathCause"`, `"noCause"`).Replace(db[1])
		db[3] = strings.NewReplacer(`[{"state": "FAILED"`,
			`[{"state": "SUBMITTED_TO_WORKER", "timestamp": "2026-11-22T10:15:49Z"}, {"state": "FAILED"`,
			`"errorMessage": "x"`, `"errorMessage": ""`).Replace(db[3])
		for _, call := range db[2:] { // another call of the actor, which got no answer either
			db = append(db, strings.NewReplacer(base64.StdEncoding.EncodeToString([]byte("call  ")), base64.StdEncoding.EncodeToString([]byte("again ")),
				`"eventId": "`, `"eventId": "Mg`).Replace(call))
		}
		dir := submissionWithLog(t, 1, trace("ray.exceptions.GetTimeoutError: Get timed out"), append(db, driverOf(1, "raysubmit_bad"))...)
		storeLog(t, dir, "gcs_server.out", c.log)
		_, chain := badJob(t, dir)
		title := chain[len(chain)-1].Title
		told := strings.Count(title, "; its node 010101010101 did not answer health checks") == 1
		says.True(t, strings.HasPrefix(title, "Db.ping did not answer: ") && c.told == told, "%s: %s", name, title)
	}
}

// TestCallsThatWereLeft: a driver that counts what came names the calls that are left, if they are as many as it lacks.
func TestCallsThatWereLeft(t *testing.T) {
	for _, c := range []struct{ said, state, title string }{
		{"RuntimeError: only 3 of 4 shards came", "RUNNING",
			"^Db.ping did not finish: it had been running for 12s when the driver"},
		{"RuntimeError: only 3 of 9 rows are valid", "RUNNING", "^Job raysubmit_bad failed"},
		{"RuntimeError: 4 rows are not valid", "RUNNING", "^Job raysubmit_bad failed"},
		{"ray.exceptions.GetTimeoutError: Get timed out", "SUBMITTED_TO_WORKER",
			"^Db.ping did not answer: .* for 12s when"},
		{"RuntimeError: no row is valid", "SUBMITTED_TO_WORKER", "^Job raysubmit_bad failed"},
		{"ConnectionError: db-3 does not answer", "RUNNING", "^Db.ping did not finish: .* when the driver stopped"},
		{"ConnectionError: db-3 doesn't respond", "RUNNING", "^Db.ping did not finish: .* when the driver stopped"},
		{"TypeError: collate_fn does not return a dict", "RUNNING", "^Job raysubmit_bad failed: .*TypeError"},
		{"ValueError: a prompt doesn't finish with EOS", "RUNNING", "^Job raysubmit_bad failed: .*ValueError"},
		{"StaleError: rates are of yesterday", "RUNNING",
			"^Job raysubmit_bad failed: .*StaleError.* it had left Db.ping, which had been running for 12s"},
	} {
		call := deadActor("Db", "x", "x", "WORKER_DIED")[2:]
		call[1] = strings.NewReplacer(`[{"state": "FAILED"`,
			`[{"state": "`+c.state+`", "timestamp": "2026-11-22T10:15:49Z"}, {"state": "FAILED"`,
			`"errorMessage": "x"`, `"errorMessage": ""`).Replace(call[1])
		said := strings.Replace(trace(c.said), "main()", "raise failure", 1)
		_, chain := badJob(t, submissionWithLog(t, 1, said, append(call, driverOf(1, "raysubmit_bad"))...))
		says.True(t, len(chain) != 0 && regexp.MustCompile(c.title).MatchString(chain[len(chain)-1].Title), "%s: %+v",
			c.said, chain)
	}
}

// TestMemoryThatNoNodeHas: titles give memory in units for people.
func TestMemoryThatNoNodeHas(t *testing.T) {
	node := strings.NewReplacer(`"CPU"`, `"memory": 22785080576.0, "CPU"`).Replace(strings.Join(rayevents.Of("NODE"),
		"\n"))
	task := failedTask(1, "big", "WORKER_DIED", "x")
	task[0] = strings.Replace(task[0], `{"CPU": 1.0}`, `{"memory": 5497558138880.0}`, 1)
	task[1] = strings.NewReplacer(`"FAILED"`, `"PENDING_NODE_ASSIGNMENT"`, `"rayErrorInfo"`, `"x"`).Replace(task[1])
	r := report(t, load(t, submissionWithLog(t, 1, "",
		slices.Concat(strings.Split(node, "\n"), task, []string{driverOf(1, "raysubmit_bad")})...), rayevents.Session,
		nil))
	const want = "big could never be scheduled: it asks for 5.00 TiB memory, and the most that one node has is 21.2 GiB memory"
	if !slices.ContainsFunc(r.Findings, func(f *findings.Finding) bool { return f.Title == want }) {
		for _, f := range r.Findings {
			t.Log(f.Title)
		}
		t.Errorf("no finding %q", want)
	}
}
