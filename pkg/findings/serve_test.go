package findings_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestServeController: what Serve's controller logs about replicas becomes one finding, about what happened first.
func TestServeController(t *testing.T) {
	const at = " 2026-11-22 10:07:01,857 controller 1560 -- "
	for name, c := range map[string]struct{ log, title string }{
		"environment": {
			"ERROR" + at + "Exception when allocating Replica(id='x1', deployment='BadEnv', app='bad'): Failed to set up runtime environment.\n" +
				"[Node 10.0.0.1] Run cmd[9] failed with the following details.\nLast 50 lines of stdout:\n    ERROR: x.whl is not a valid wheel filename.\nTraceback (most recent call last):\n  File \"deployment_state.py\", line 1425, in check_ready\n" +
				"ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\n[Node 10.0.0.1] Run cmd[9] failed with the following details.\nLast 50 lines of stdout:\n    ERROR: x.whl is not a valid wheel filename.\n" +
				"ERROR" + at + "Failed to update the deployments ['BadEnv'].\n",
			"Deployment BadEnv of application bad did not start: its replicas raised RuntimeEnvSetupError: ERROR: x.whl is not a valid wheel filename.",
		},
		"environment of the application": {
			"WARNING" + at + "Runtime env setup for app 'bad' failed:\nTraceback (most recent call last):\n  File \"application_state.py\", line 930, in _reconcile\n" +
				"ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\n[Node 10.0.0.1] Run cmd[9] failed with the following details.\nLast 50 lines of stdout:\n    ERROR: x.whl is not a valid wheel filename.\n",
			"Serve application bad could not be deployed: RuntimeEnvSetupError: ERROR: x.whl is not a valid wheel filename.",
		},
		"package of the application": {
			"WARNING" + at + "Runtime env setup for app 'bad' failed:\nTraceback (most recent call last):\n  File \"application_state.py\", line 930, in _reconcile\n" +
				"ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\n[Node 10.0.0.1] Traceback (most recent call last):\n  File \"packaging.py\", line 7, in get\n" +
				"ConnectionRefusedError: [Errno 111] Connection refused\n",
			"Serve application bad could not be deployed: RuntimeEnvSetupError: ConnectionRefusedError: [Errno 111] Connection refused",
		},
		"crash in the constructor": {
			"ERROR" + at + "Exception in Replica(id='w1', deployment='Crash', app='crash'), the replica will be stopped.\nTraceback (most recent call last):\n  File \"deployment_state.py\", line 1540\n" +
				"ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: ServeReplica:crash:Crash\n" +
				"The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with exit code 31.\n" +
				"ERROR" + at + "Failed to update the deployments ['Crash'].\n",
			"Deployment Crash of application crash did not start: its replicas raised ActorDiedError: The actor is dead because its worker process has died. " +
				"Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with exit code 31.",
		},
		"not scheduled": {
			"ERROR" + at + "Exception when allocating Replica(id='x1', deployment='Pinned', app='pin'):\nTraceback (most recent call last):\n  File \"deployment_state.py\", line 1412, in check_ready\n" +
				"ray.exceptions.ActorUnschedulableError: The actor is not schedulable: no node has the label.\nTraceback (most recent call last):\n  File \"deployment_state.py\", line 1412\n" +
				"ray.exceptions.ActorUnschedulableError: The actor is not schedulable: no node has the label.\nERROR" +
				at + "Failed to update the deployments ['Pinned'].\n",
			"Deployment Pinned of application pin did not start: its replicas raised ActorUnschedulableError: The actor is not schedulable: no node has the label.",
		},
		"gang": {
			"ERROR" + at + "Gang scheduling failed for Deployment(name='Wide', app='wide'): the placement group needs 4 GPUs. Skipping replica creation.\n" +
				"ERROR" + at + "Failed to update the deployments ['Wide'].\n",
			"Deployment Wide of application wide did not start: the placement group needs 4 GPUs.",
		},
		"deployment actor": {
			"ERROR" + at + "Failed to create deployment actor 'cache' for Deployment(name='Cart', app='shop'): no such class\nTraceback (most recent call last):\n  File \"deployment_state.py\", line 200, in start\nImportError: no such class\n" +
				"WARNING" + at + "Deployment actor creation failed for Deployment(name='Cart', app='shop'): no such class (attempt 3/3)\nERROR" + at + "The deployments ['Cart'] are UNHEALTHY.\n",
			"Deployment Cart of application shop did not start: its deployment actor raised ImportError: no such class",
		},
		"deployment actor's constructor": {
			"WARNING" + at + "Deployment actor 'cache' for Deployment(name='Cart', app='shop') failed to become ready: Deployment actor 'cache' failed: The actor died because of an error raised in its creation task, \x1b[36mray::Cache.__init__()\x1b[39m (pid=7, ip=10.0.0.1, actor_id=0a)\n" +
				"  File \"/app/cache.py\", line 7, in __init__\n    raise ValueError(\"no table\")\nValueError: no table\n" +
				"ERROR" + at + "Failed to update the deployments ['Cart'].\n",
			"Deployment Cart of application shop did not start: its deployment actor raised ValueError: no table",
		},
		"config": {
			"ERROR" + at + "Unexpected error occurred while applying config for application 'shop': \nTraceback (most recent call last):\n  File \"application_state.py\", line 728, in apply_app_config\nKeyError: 'Cart'\n",
			"Serve application shop could not be deployed: KeyError: 'Cart'",
		},
		"config, refused": {
			"INFO" + at + "Importing and building app 'shop'.\nERROR" + at + "Traceback (most recent call last):\n  File \"application_state.py\", line 715, in apply_app_config\n" +
				"ValueError: Deployment 'Card' does not exist in application 'shop'. Available: ['Cart']\n\nINFO" + at + "Received config\n",
			"Serve application shop could not be deployed: ValueError: Deployment 'Card' does not exist in application 'shop'. Available: ['Cart']",
		},
		"crash": {
			"WARNING" + at + "Actor for Replica(id='z1', deployment='Ends', app='ends') crashed, marking it unhealthy immediately.\n" +
				"WARNING" + at + "Replica Replica(id='z1', deployment='Ends', app='ends') failed health check, stopping it.\n" +
				"ERROR" + at + "The deployments ['Ends'] are UNHEALTHY.\n",
			"Replicas of deployment Ends of application ends crashed",
		},
		"no answer": {
			"WARNING" + at + "Didn't receive health check response for replica Replica(id='t1', deployment='Stuck', app='stuck') after 2.0s, marking it unhealthy.\n" +
				"WARNING" + at + "Replica Replica(id='t1', deployment='Stuck', app='stuck') failed health check, stopping it.\n" +
				"ERROR" + at + "The deployments ['Stuck'] are UNHEALTHY.\n",
			"Replicas of deployment Stuck of application stuck failed their health checks: no answer within 2.0 s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := rareEvents(t, rayevents.Of("SUBMISSION"))
			storeLog(t, dir, "serve/controller_1560.log", c.log)
			r := report(t, load(t, dir, rayevents.Session, nil))
			told := slices.DeleteFunc(r.Findings, func(f *findings.Finding) bool { return f.Kind != findings.Serve })
			says.True(t, len(told) == 1 && told[0].Title == c.title && told[0].Severity == findings.Error &&
				strings.Contains(text(told[0]), "controller 1560"), "%+v", told)
		})
	}
}

// TestRefusedOfSeveral: with several applications a traceback alone does not say whose config Serve refused.
func TestRefusedOfSeveral(t *testing.T) {
	const at = " 2026-11-22 10:07:01,857 controller 1560 -- "
	dir := rareEvents(t, rayevents.Of("SUBMISSION"))
	storeLog(t, dir, "serve/controller_1560.log", "INFO"+at+"Importing and building app 'shop'.\nINFO"+at+"Importing and building app 'blog'.\n"+
		"ERROR"+at+"Traceback (most recent call last):\n  File \"application_state.py\", line 715, in apply_app_config\nValueError: no deployment\n")
	for _, f := range report(t, load(t, dir, rayevents.Session, nil)).Findings {
		says.True(t, f.Kind != findings.Serve, "%+v", f)
	}
}

// TestEngineOfReplica: a replica that refers to what its engine told above failed of that, as its process's log has it.
// An exception with a reason of its own stays, whatever is logged.
func TestEngineOfReplica(t *testing.T) {
	const mark = "(EngineCore_DP0 pid=61) "
	const engine = mark + "Process EngineCore_DP0:\n" + mark + "Traceback (most recent call last):\n" + mark + "  File \"/lib/vllm/core.py\", line 9, in start\n" +
		mark + "    raise ValueError(said)\n" + mark + "ValueError: No available memory for the cache blocks.\n"
	const failed = "Engine core initialization failed. See root cause above. Failed core proc(s): {}"
	const own = "Traceback (most recent call last):\n  File \"/lib/vllm/client.py\", line 7, in wait\nRuntimeError: "
	worker := "worker-" + strings.Repeat("07", 28) + "-01000000-61.err"
	replica := deadActor("ServeReplica:llm:LLMServer", "creationTaskFailureContext", own+failed, "ACTOR_DIED")
	replica[1] = strings.Replace(replica[1], `"stateTransitions": [`, `"stateTransitions": [{"state": "ALIVE", "timestamp": "2026-11-22T10:15:50Z", "workerId": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw==", "nodeId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ=="}, `, 1)
	for said, c := range map[string]struct{ log, want string }{
		failed:              {engine + own + failed + "\n", "ValueError: No available memory for the cache blocks."},
		failed + " ":        {own + failed + "\n", "RuntimeError: " + failed},
		"no model is named": {engine + own + "no model is named\n", "RuntimeError: no model is named"},
	} {
		dir := rareEvents(t, append(rayevents.Of("SUBMISSION"), replica...))
		storeLog(t, dir, worker, c.log)
		storeLog(t, dir, "serve/controller_1560.log", "ERROR 2026-11-22 10:16:01,857 controller 1560 -- Exception in Replica(id='w1', deployment='LLMServer', app='llm'), the replica will be stopped.\n"+own+said+"\n")
		want := "Deployment LLMServer of application llm did not start: its replicas raised " + c.want
		says.True(t,
			slices.ContainsFunc(report(t, load(t, dir, rayevents.Session, nil)).Findings,
				func(f *findings.Finding) bool { return f.Title == want }), "%q: no %q", said, want)
	}
}

// TestEngineOfCheck: a health check that refers to what the replica's engine told above has that as its reason, also if
// it is no exception.
func TestEngineOfCheck(t *testing.T) {
	const dead = "EngineCore encountered an issue. See stack trace (above) for the root cause."
	const at = "WARNING 2026-11-22 10:15:40,857 controller 1560 -- "
	replica := deadActor("ServeReplica:llm:LLMServer", "x", "", "ACTOR_DIED")
	replica[1] = strings.Replace(replica[1], `"stateTransitions": [`, `"stateTransitions": [{"state": "ALIVE", "timestamp": "2026-11-22T10:15:50Z", "workerId": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw==", "nodeId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ=="}, `, 1)
	for log, want := range map[string]string{
		"(EngineCore pid=6) :0:rocdevice.cpp:3675: Queue aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES\n(EngineCore pid=6) Fatal Python error: Aborted\n": "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
		"(EngineCore pid=6) Traceback (most recent call last):\n(EngineCore pid=6)   File \"/v/a.py\", line 9, in step\n(EngineCore pid=6) ValueError: no page\n":   ": ValueError: no page",
		"loading\n": ": EngineDeadError: " + dead,
	} {
		dir := rareEvents(t, append(rayevents.Of("SUBMISSION"), replica[:2]...))
		storeLog(t, dir, "serve/replica_llm_LLMServer_w0.log", trace("ValueError: the prompt of a request is bad"))
		storeLog(t, dir, "worker-"+strings.Repeat("07", 28)+"-01000000-61.err", log+"(APIServer pid=5) ERROR 11-22 10:15:36 [async_llm.py:480] AsyncLLM output_handler failed.\n(APIServer pid=5) EngineDeadError: "+dead+"\n")
		storeLog(t, dir, "serve/controller_1560.log", at+"Health check for Replica(id='w1', deployment='LLMServer', app='llm') failed: Traceback (most recent call last):\n  File \"/v/a.py\", line 7, in check\nEngineDeadError: "+dead+"\n"+
			at+"Replica Replica(id='w1', deployment='LLMServer', app='llm') failed health check, stopping it.\n")
		f := only(report(t, load(t, dir, rayevents.Session, nil)), "^Replicas of deployment LLMServer of application llm failed their health checks")
		must.True(t, f != nil, "%s", log)
		says.True(t, strings.HasSuffix(f.Title, want), "%s", f.Title)
	}
}

// TestDeployedAgain: an application that could not be deployed is no error if it was deployed later.
func TestDeployedAgain(t *testing.T) {
	const at = " 2026-11-22 10:07:01,857 controller 1560 -- "
	failed := "WARNING" + at + "Deploying app 'shop' failed with exception:\nTraceback (most recent call last):\n  File \"build.py\", line 930, in build\nModuleNotFoundError: No module named 'shpo'\n"
	for _, c := range []struct{ started, saved, want string }{
		{"", "", findings.Error}, {"other", "", findings.Error}, {"shop", "", findings.Warning},
		{"", "DEPLOYING", findings.Error}, {"", "RUNNING", findings.Warning},
	} {
		dir := rareEvents(t, rayevents.Of("SUBMISSION"))
		storeLog(t, dir, "serve/controller_1560.log", failed+
			"INFO"+at+"Replica(id='r1', deployment='Cart', app='"+c.started+"') started successfully on node 'n' after 4.1s (PID: 12).\n")
		if c.saved != "" {
			first := layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, "/api/serve/applications/")
			put(t, dir, layout.SnapshotVersionKey(first, time.Unix(0, rayevents.At("10:09:00"))),
				`{"applications": {"shop": {"name": "shop", "status": "`+c.saved+`", "deployments": {}}}}`)
		}
		told := slices.DeleteFunc(report(t, load(t, dir, rayevents.Session, nil)).Findings,
			func(f *findings.Finding) bool { return f.Kind != findings.Serve })
		says.True(t, len(told) == 1 && told[0].Severity == c.want, "then a replica of %q started, and it is %s: %+v",
			c.started, c.saved, told)
	}
}

// TestCrashBeforeFailedStarts: what made a deployment unhealthy is not a replica that could not be started later.
func TestCrashBeforeFailedStarts(t *testing.T) {
	dir := rareEvents(t, rayevents.Of("SUBMISSION"))
	storeLog(t, dir, "serve/controller_1560.log",
		"WARNING 2026-11-22 10:06:01,857 controller 1560 -- Actor for Replica(id='z1', deployment='Ends', app='ends') crashed, marking it unhealthy immediately.\n"+
			"ERROR 2026-11-22 10:06:01,858 controller 1560 -- The deployments ['Ends'] are UNHEALTHY.\n"+
			"ERROR 2026-11-22 10:07:01,857 controller 1560 -- Exception when allocating Replica(id='z2', deployment='Ends', app='ends'):\nTraceback (most recent call last):\n"+
			"  File \"deployment_state.py\", line 1412, in check_ready\nray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n")
	severity := map[string]string{}
	for _, f := range report(t, load(t, dir, rayevents.Session, nil)).Findings {
		severity[f.Title] = f.Severity
	}
	if severity["Replicas of deployment Ends of application ends crashed"] != findings.Error ||
		severity["Deployment Ends of application ends did not start: its replicas raised ActorDiedError: The actor died unexpectedly before finishing this task."] != findings.Warning {
		t.Error(severity)
	}
}

// TestJSONLogs: a recorded session with the logs of Ray's processes in Ray's JSON form has the findings that it has
// with text.
func TestJSONLogs(t *testing.T) {
	for archive, logs := range map[string]string{
		"serve_crash": `serve/controller_\d+\.log`,
		"odd-2.60":    `gcs_server\.out|raylet\.(?:out|err)|python-core-[^/]*\.log|serve/controller_\d+\.log`,
		"far_drained": `gcs_server\.out|raylet\.out`,
		"end_gcs":     `gcs_server\.out|raylet\.out`,
	} {
		t.Run(archive, func(t *testing.T) {
			dir, ref := cluster(t, archive)
			want := report(t, load(t, dir, ref, nil))
			whole := map[string]string{} // a log's chunks, in order
			name := regexp.MustCompile(`^(.*/logs/[0-9a-f]+/(?:` + logs + `))(?:\.@\d+)?$`)
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				m := name.FindStringSubmatch(filepath.ToSlash(path))
				if err != nil || d.IsDir() || m == nil {
					return err
				}
				text, err := os.ReadFile(path)
				whole[m[1]] += string(text)
				return errors.Join(err, os.Remove(path))
			})
			for path, text := range whole {
				err = errors.Join(err, os.WriteFile(path, []byte(inJSON(text)), 0o644))
			}
			must.True(t, err == nil && len(whole) != 0, "%d logs changed, %v", len(whole), err)
			got := report(t, load(t, dir, ref, nil))
			for i := range max(len(got.Findings), len(want.Findings)) {
				must.True(t, i < len(got.Findings) && i < len(want.Findings) &&
					got.Findings[i].Title == want.Findings[i].Title && got.Findings[i].Count == want.Findings[i].Count,
					"finding %d differs: %d in JSON, %d in text", i, len(got.Findings), len(want.Findings))
			}
			if archive == "serve_crash" && !strings.Contains(got.Summary, "feature store unreachable at redis:6379") {
				t.Errorf("%s: %s", got.Outcome, got.Summary)
			}
		})
	}
}

var (
	serveEntry   = regexp.MustCompile(`^(INFO|WARNING|ERROR|DEBUG) (\S+ \S+) (controller) (\d+) -- (.*)$`)
	backendEntry = regexp.MustCompile(`^\[(\S+ \S+) (\w) \d+ \d+\] (?:\((\S+)\) )?(\S+?):(\d+): +(.*?)((?: \w+_id=\w+)*)$`)
)

// inJSON is a log of Ray's as Ray writes it with its formatter JSON, or with RAY_BACKEND_LOG_JSON=1.
func inJSON(log string) string {
	var entries []any
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if m := serveEntry.FindStringSubmatch(line); m != nil {
			entries = append(entries, map[string]any{
				"asctime": m[2], "levelname": m[1], "message": m[5], "filename": "deployment_state.py", "lineno": 1,
				"component_name": m[3], "component_id": m[4],
			})
		} else if m := backendEntry.FindStringSubmatch(line); m != nil {
			number, _ := strconv.Atoi(m[5]) // the expression matched digits
			entry := map[string]any{"asctime": m[1], "levelname": m[2], "message": m[6], "component": m[3],
				"filename": m[4], "lineno": number}
			for _, field := range strings.Fields(m[7]) {
				name, value, _ := strings.Cut(field, "=")
				entry[name] = value
			}
			entries = append(entries, entry)
		} else if before, ok := last(entries).(map[string]any); ok && before["component_name"] != nil {
			text, _ := before["exc_text"].(string)
			before["exc_text"] = strings.TrimPrefix(text+"\n"+line, "\n")
		} else {
			entries = append(entries, line)
		}
	}
	var text strings.Builder
	for _, e := range entries {
		if line, ok := e.(string); ok {
			text.WriteString(line + "\n")
			continue
		}
		object, _ := json.Marshal(e) // of texts and numbers
		text.Write(append(object, '\n'))
	}
	return text.String()
}

func last(entries []any) any {
	if len(entries) == 0 {
		return nil
	}
	return entries[len(entries)-1]
}

// TestDeployedLater: a deployment that failed in the seconds after a job's end is nothing that came before it, if it
// was made only then.
func TestDeployedLater(t *testing.T) {
	const died = "INFO 2026-11-22 10:15:56,100 controller 7 -- Deploying new app 'shop'.\n" +
		"ERROR 2026-11-22 10:16:04,857 controller 7 -- Exception in Replica(id='w1', deployment='Cart', app='shop'), the replica will be stopped.\n" +
		"Traceback (most recent call last):\n  File \"/app/cart.py\", line 3, in __init__\n    raise ValueError(\"no prices\")\nValueError: no prices\n"
	for made, want := range map[string]bool{"10:15:50": true, "10:16:02": false} {
		replica := deadActor("ServeReplica:shop:Cart", "creationTaskFailureContext", "ValueError: no prices", "ACTOR_DIED")[:2]
		replica[1] = strings.ReplaceAll(replica[1], `{"state": "DEAD", "timestamp": "2026-11-22T10:15:55Z"`, fmt.Sprintf(
			`{"state": "PENDING_CREATION", "timestamp": "2026-11-22T%sZ"}, {"state": "DEAD", "timestamp": "2026-11-22T10:16:05Z"`, made))
		dir := submissionWithLog(t, 1, "asked the shop\n", append(replica, driverOf(1, "raysubmit_bad"))...)
		storeLog(t, dir, "serve/controller_7.log", died)
		_, chain := badJob(t, dir)
		var titles []string
		for _, f := range chain {
			titles = append(titles, f.Title)
		}
		if told := strings.Contains(strings.Join(titles, "; "), "no prices"); told != want {
			t.Errorf("made at %s: told %t, want %t: %q", made, told, want, titles)
		}
	}
}
