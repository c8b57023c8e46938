package findings_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// platformEvent is an event of Kubernetes about an object, at a time of the session's day.
func platformEvent(kind, name, reason, message, at string) string {
	return strings.NewReplacer("RayCluster", kind, `"objectName": "lab"`, `"objectName": "`+name+`"`, "CreatedHeadPod", reason,
		"Created head Pod ml/lab-head", message, "09:59:50Z", at+"Z", "dWlkLWNyZWF0ZWQ=", base64.StdEncoding.EncodeToString([]byte(reason+at))).Replace(
		rayevents.Of("PLATFORM")[0])
}

// nodeLostAt returns the events of both nodes, of which the second one died.
func nodeLostAt(at string) (events []string) {
	for _, e := range rayevents.Of("NODE") {
		events = append(events, strings.ReplaceAll(e, "10:20:30Z", at+"Z"))
	}
	return events
}

// TestPodOfNode: the title of a node that died says what ended its pod then.
func TestPodOfNode(t *testing.T) {
	const died = "Node 10.0.0.2 died unexpectedly: health check failed due to missing too many heartbeats"
	for name, c := range map[string]struct{ pod, reason, message, at, want string }{
		"preempted":      {"lab-worker-b", "Preempted", "Preempted by pod 0b1e7c52 on node a-17", "10:15:20", "; its pod was preempted: Preempted by pod 0b1e7c52 on node a-17"},
		"evicted":        {"lab-worker-b", "Evicted", "The node was low on resource: ephemeral-storage. Threshold quantity: 5Gi.", "10:15:20", "; its pod was evicted: The node was low on resource: ephemeral-storage. Threshold quantity: 5Gi."},
		"of a machine":   {"lab-worker-b", "NodeNotReady", "Node is not ready", "10:14:20", "; its pod was on a machine that was lost: Node is not ready"},
		"of memory":      {"lab-worker-b", "OOMKilling", "Memory cgroup out of memory: Killed process 812 (raylet)", "10:15:20", "; its pod ran out of memory: Memory cgroup out of memory: Killed process 812 (raylet)"},
		"long before":    {"lab-worker-b", "OOMKilling", "Memory cgroup out of memory", "10:01:20", ""},
		"another pod":    {"lab-worker-c", "Evicted", "The node was low on resource: memory", "10:15:20", ""},
		"of no interest": {"lab-worker-b", "Pulled", "Container image already present on machine", "10:15:20", ""},
	} {
		events := append(nodeLostAt("10:15:40"), platformEvent("Pod", c.pod, c.reason, c.message, c.at))
		r := report(t, load(t, rareEvents(t, events), rayevents.Session, nil))
		i := slices.IndexFunc(r.Findings, func(f *findings.Finding) bool { return f.Kind == findings.NodeDied })
		must.True(t, i >= 0, "%s: %+v", name, r.Findings)
		says.Equal(t, r.Findings[i].Title, died+c.want, "%s", name)
	}
}

// TestClusterDeleted: a job that had not ended when KubeRay deleted its cluster, as at a RayJob's deadline, tells that.
func TestClusterDeleted(t *testing.T) {
	const silent = "; the head ended without notice: nothing is stored after 10:20:31 UTC"
	for message, c := range map[string]struct {
		ended bool
		want  string
	}{
		"Deleted cluster ml/lab": {false,
			"; what ended the cluster: RayJob nightly: DeletedRayCluster: Deleted cluster ml/lab"},
		"Deleted the RayCluster ml/lab": {true,
			"; what ended the cluster: RayJob nightly: DeletedRayCluster: Deleted the RayCluster ml/lab"},
		"Deleted cluster ml/other-lab": {false, silent},
		"Deleted cluster ml/lab-old":   {false, silent},
	} {
		events := slices.Concat(runningTask("crunch"), []string{driverOf(1, open), platformEvent("RayJob", "nightly", "DeletedRayCluster", message, "10:20:28")}, aliveNodes())
		dir := rareEvents(t, events)
		storeLog(t, dir, "job-driver-raysubmit_open.log", running)
		if c.ended {
			put(t, dir, layout.MetadataKey(layout.DefaultRoot, rayevents.Session, layout.End), `{"end": "2026-11-22T10:20:31Z"}`)
		}
		if got := report(t, load(t, dir, rayevents.Session, nil)).Findings[0].Title; !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %s", message, got)
		}
	}
}

// TestNotBefore: a driver whose end is in no words of its own is not told of what it had gone on after for a while, one
// that the system refused something of no failure, and none of what was repaired.
func TestNotBefore(t *testing.T) {
	call := func(name, kind, text, at, ended, state string) []string {
		return submittedBy(driver(1), failedTask(1, name, kind, text), at, ended, state)
	}
	failed := func(ended string) []string {
		return call("fetch", "TASK_EXECUTION_EXCEPTION", trace("OSError: torn page"), "10:06:30", ended, "FAILED")
	}
	later := call("train", "", "", "10:15:20", "10:15:50", "FINISHED")
	const fetch, reshape = "; before that fetch failed: OSError: torn page", "ValueError: cannot reshape array of size 1023"
	again := func(name string, attempt int) []string {
		e := call("prep", "", "", "10:15:41", "10:15:50", "FINISHED")
		for i := range e {
			e[i] = strings.Replace(strings.Replace(e[i], `"taskAttempt": 0`, fmt.Sprintf(`"taskAttempt": %d`, attempt), 1), `"eventId": "`, `"eventId": "Mg`, 1)
		}
		return e
	}
	node := slices.Concat(call("prep", "NODE_DIED", "Task failed due to the node (where this task was running)  was dead or unavailable.\n\nThe node IP: 10.0.0.2, node ID: "+
		strings.Repeat("02", 28), "10:15:01", "10:15:40", "FAILED"), nodeLostAt("10:15:40"))
	const lost = "; before that Node 10.0.0.2 died unexpectedly: health check failed due to missing too many heartbeats"
	for name, c := range map[string]struct {
		raised string
		events []string
		want   string // behind the exception
	}{
		"a mistake, long after":     {reshape, slices.Concat(failed("10:07:00"), later), ""},
		"a mistake, soon after":     {reshape, failed("10:15:30"), fetch},
		"nothing was submitted":     {reshape, failed("10:07:00"), fetch},
		"a check":                   {"AssertionError: 3 days have no rows", slices.Concat(failed("10:07:00"), later), fetch},
		"something missing":         {"KeyError: 'label'", slices.Concat(failed("10:07:00"), later), fetch},
		"no room":                   {"OSError: [Errno 28] No space left on device: '/out/a'", failed("10:15:30"), ""},
		"a quota":                   {"OSError: [Errno 122] Disk quota exceeded: '/out/a'", failed("10:15:30"), ""},
		"a disk that does not work": {"OSError: [Errno 5] Input/output error: '/out/a'", failed("10:15:30"), ""},
		"a disk without writes":     {"OSError: [Errno 30] Read-only file system: '/out/a'", failed("10:15:30"), ""},
		"a file that is not there":  {"FileNotFoundError: [Errno 2] No such file or directory: '/out/a'", failed("10:15:30"), fetch},
		"a node, repaired":          {"KeyError: 'label'", slices.Concat(node, again("prep", 1)), ""},
		"a node":                    {"KeyError: 'label'", node, lost},
	} {
		events := append(c.events, driverOf(1, "raysubmit_bad"))
		_, chain := badJob(t, submissionWithLog(t, 1, trace(c.raised), events...))
		title := chain[len(chain)-1].Title
		says.True(t, !strings.Contains(c.raised, "Errno") || strings.Contains(title, c.raised), "%s: %s", name, title)
		if got, told, _ := strings.Cut(title, "; before that "); told != strings.TrimPrefix(c.want, "; before that ") && !strings.HasPrefix(title, "Node ") {
			t.Errorf("%s: %s, before that %s", name, got, told)
		}
	}
}

// TestCameBack: calls that failed while their actor was restarted are repaired by a later call of the same actor, but
// not by one of another actor of its class.
func TestCameBack(t *testing.T) {
	const gone = "The actor is temporarily unavailable: RpcError: RPC error: Socket closed"
	call := func(id byte, name, at, state string) []string {
		actor := base64.StdEncoding.EncodeToString(append(slices.Repeat([]byte{id}, 12), 0, 0, 0, 1))
		about := fmt.Sprintf(`"taskId": "%s", "jobId": "AAAAAQ==", "taskAttempt": 0`, base64.StdEncoding.EncodeToString(append([]byte((name + strings.Repeat("z", 20))[:20]), 0, 0, 0, 1)))
		failure := ""
		if state == "FAILED" {
			failure = fmt.Sprintf(`, "rayErrorInfo": {"errorMessage": %q, "errorType": "ACTOR_UNAVAILABLE"}`, gone)
		}
		return []string{
			eventOf("d"+name, "ACTOR_TASK_DEFINITION_EVENT", "actorTaskDefinitionEvent", about+fmt.Sprintf(
				`, "actorId": "%s", "parentTaskId": "%s", "actorTaskName": "Cache.get", "actorFunc": {"pythonFunctionDescriptor": {"className": "Cache", "functionName": "get"}}`,
				actor, base64.StdEncoding.EncodeToString(driver(1)))),
			eventOf("l"+name, "TASK_LIFECYCLE_EVENT", "taskLifecycleEvent", about+fmt.Sprintf(
				`, "stateTransitions": [{"state": "PENDING_ARGS_AVAIL", "timestamp": "2026-11-22T%sZ"}, {"state": "%s", "timestamp": "2026-11-22T%sZ"}]%s`, at, state, at, failure)),
		}
	}
	for name, c := range map[string]struct {
		later []string
		told  bool
	}{
		"the same actor":    {call(1, "second", "10:15:40", "FINISHED"), false},
		"another actor":     {call(2, "second", "10:15:40", "FINISHED"), true},
		"it failed again":   {call(1, "second", "10:15:40", "FAILED"), true},
		"no call came then": {nil, true},
	} {
		events := slices.Concat(call(1, "first", "10:15:30", "FAILED"), c.later, []string{driverOf(1, "raysubmit_bad")})
		_, chain := badJob(t, submissionWithLog(t, 1, trace("KeyError: 'price'"), events...))
		if got := chain[len(chain)-1].Title; strings.Contains(got, "; before that Calls of Cache.get failed") != c.told {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestCouldNotRunAbroad: what a shell says in another language of an entrypoint that it could not run is told.
func TestCouldNotRunAbroad(t *testing.T) {
	for _, said := range []string{
		"./lauf.sh: Zeile 12: /opt/werkzeug/rechne: Keine Berechtigung", "./run.sh: ligne 3 : /opt/outil: Permission non accordée",
		"./run.sh: 第 3 行: /opt/tool: 权限不够", "bash: /opt/narzedzie: Brak dostępu",
	} {
		_, chain := badJob(t, submissionWithLog(t, 126, said+"\n"))
		if f := chain[len(chain)-1]; f.Kind != findings.Entrypoint || !strings.HasSuffix(f.Title, "(exit code 126): "+said) {
			t.Errorf("%s: %s", f.Kind, f.Title)
		}
	}
}

// TestLoggedByWorkers: of a worker whose lines Ray did not copy into its driver's log the exception is told that it
// logged, in whatever form.
func TestLoggedByWorkers(t *testing.T) {
	const frames = "Traceback (most recent call last):\n  File \"/app/pack.py\", line 8, in pack\n    z.write(f)\n"
	for name, log := range map[string]string{
		"JSON":    `{"asctime": "2026-11-22 10:15:44,001", "levelname": "ERROR", "message": "part 3", "exc_info": ` + fmt.Sprintf("%q", frames+"OSError: torn page") + "}\n",
		"logging": "2026-11-22 10:15:44,001 ERROR pack: part 3\n" + frames + "OSError: torn page\n",
		"printed": frames + "OSError: torn page\npart 4 packed\n",
	} {
		dir := submissionWithLog(t, 1, trace("RuntimeError: 1 of 4 parts is missing"), driverOf(5, "raysubmit_bad"))
		storeLog(t, dir, fmt.Sprintf("worker-%056x-00000005-3.err", 3), log)
		_, chain := badJob(t, dir)
		const want = "1 of 4 parts is missing; before that a worker printed: OSError: torn page"
		if got := chain[len(chain)-1].Title; !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestLinesOfWorkers: also a plain line of a worker is told whose lines Ray did not copy into its driver's log, if it says
// that something was left out or names what the driver lacked, and why it could not begin.
func TestLinesOfWorkers(t *testing.T) {
	for printed, c := range map[string]struct {
		raised string
		told   bool
	}{
		"part 2 ok\nchecksum of part 4 is wrong, left out\n": {"RuntimeError: 2 of 3 parts are verified", true},
		"part 2 ok\nonly 9 rows in part 4\n":                 {"KeyError: 'margin'", true},
		"bind: Address already in use\n":                     {"TimeoutError: the ranks are not ready", true},
		"part 2 ok\npart 4 ok\n":                             {"RuntimeError: 2 of 3 parts are verified", false},
		"only 9 rows in part 4\n":                            {"ValueError: shapes (3,) and (4,) differ", false},
	} {
		dir := submissionWithLog(t, 1, trace(c.raised), driverOf(5, "raysubmit_bad"))
		storeLog(t, dir, fmt.Sprintf("worker-%056x-00000005-3.out", 3), ":job_id:00000005\n"+printed)
		lines := strings.Split(strings.TrimSpace(printed), "\n")
		_, chain := badJob(t, dir)
		if got := chain[len(chain)-1].Title; strings.HasSuffix(got, "; before that a worker printed: "+lines[len(lines)-1]) != c.told {
			t.Errorf("%s: %s", printed, got)
		}
	}
}

// TestStillLacks: the calls that ran are what a driver waited for if there are as many as its words say it lacks.
func TestStillLacks(t *testing.T) {
	for said, told := range map[string]bool{
		"1 of 8 simulations is not done after 560 s": true, "1 of 8 simulations is missing": true, "1/8 parts left": true,
		"7 of 8 simulations were done": true, "2 of 8 simulations are not done": false, "1 of 8 simulations was done": false,
	} {
		events := append(submittedBy(driver(1), failedTask(1, "simulate", "", ""), "10:06:20", "10:06:20", "RUNNING"), driverOf(1, "raysubmit_bad"))
		_, chain := badJob(t, submissionWithLog(t, 1, trace("TimeoutError: "+said), events...))
		if got := chain[len(chain)-1].Title; strings.HasPrefix(got, "simulate did not finish") != told {
			t.Errorf("%s: %s", said, got)
		}
	}
}

// TestNodeRepaired: a node that was lost is not the cause of an end if all that failed with it was run again.
func TestNodeRepaired(t *testing.T) {
	prep := submittedBy(driver(1), failedTask(1, "prep", "NODE_DIED", "Task failed due to the node (where this task was running)  was dead or unavailable.\n\nThe node IP: 10.0.0.2, node ID: "+
		strings.Repeat("02", 28)), "10:08:01", "10:08:30", "FAILED")
	again := submittedBy(driver(1), failedTask(1, "prep", "", ""), "10:08:31", "10:15:50", "FINISHED")
	for i := range again {
		again[i] = strings.Replace(strings.Replace(again[i], `"taskAttempt": 0`, `"taskAttempt": 1`, 1), `"eventId": "`, `"eventId": "Mg`, 1)
	}
	const own = "Job raysubmit_bad failed: its driver raised "
	for raised, c := range map[string]struct {
		events []string
		begins string
	}{
		"RuntimeError: the export has 11 of 12 parts":   {slices.Concat(prep, again), own},
		"RuntimeError: 1 of 12 parts is lost":           {slices.Concat(prep, again), own},
		"ExportError: the export failed for 1 shop":     {slices.Concat(prep, again), own},
		"RuntimeError: the export has 10 of 12 parts":   {prep, "Node 10.0.0.2 died"},
		"RuntimeError: 2 of 12 parts are lost at night": {prep, "Node 10.0.0.2 died"},
	} {
		_, chain := badJob(t, submissionWithLog(t, 1, trace(raised), slices.Concat(c.events, nodeLostAt("10:08:30"), []string{driverOf(1, "raysubmit_bad")})...))
		if got := chain[len(chain)-1].Title; !strings.HasPrefix(got, c.begins) {
			t.Errorf("%s: %s", raised, got)
		}
	}
}
