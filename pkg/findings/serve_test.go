package findings_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// TestServeController: what Serve's controller logs about replicas becomes one finding, about what happened first.
func TestServeController(t *testing.T) {
	const at = " 2026-11-22 10:07:01,857 controller 1560 -- "
	for name, c := range map[string]struct{ log, title string }{
		"environment": {
			"ERROR" + at + "Exception when allocating Replica(id='x1', deployment='BadEnv', app='bad'): Failed to set up runtime environment.\n" +
				"[Node 10.0.0.1] pip failed:\nERROR: x.whl is not a valid wheel filename.\nTraceback (most recent call last):\n  File \"deployment_state.py\", line 1425, in check_ready\n" +
				"ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\n[Node 10.0.0.1] pip failed:\nERROR: x.whl is not a valid wheel filename.\n" +
				"ERROR" + at + "Failed to update the deployments ['BadEnv'].\n",
			"Deployment BadEnv of application bad did not start: its replicas raised RuntimeEnvSetupError: ERROR: x.whl is not a valid wheel filename.",
		},
		"environment of the application": {
			"WARNING" + at + "Runtime env setup for app 'bad' failed:\nTraceback (most recent call last):\n  File \"application_state.py\", line 930, in _reconcile\n" +
				"ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\n[Node 10.0.0.1] pip failed:\nERROR: x.whl is not a valid wheel filename.\n",
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
				"ray.exceptions.ActorUnschedulableError: The actor is not schedulable: no node has the label.\nERROR" + at + "Failed to update the deployments ['Pinned'].\n",
			"Deployment Pinned of application pin did not start: its replicas raised ActorUnschedulableError: The actor is not schedulable: no node has the label.",
		},
		"gang": {
			"ERROR" + at + "Gang scheduling failed for Deployment(name='Wide', app='wide'): the placement group needs 4 GPUs. Skipping replica creation.\n" +
				"ERROR" + at + "Failed to update the deployments ['Wide'].\n",
			"Deployment Wide of application wide did not start: the placement group needs 4 GPUs.",
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
			if len(told) != 1 || told[0].Title != c.title || told[0].Severity != findings.Error || !strings.Contains(text(told[0]), "controller 1560") {
				t.Errorf("%+v", told)
			}
		})
	}
}

// TestCrashBeforeFailedStarts: what made a deployment unhealthy is not a replica that could not be started later.
func TestCrashBeforeFailedStarts(t *testing.T) {
	dir := rareEvents(t, rayevents.Of("SUBMISSION"))
	storeLog(t, dir, "serve/controller_1560.log", "WARNING 2026-11-22 10:06:01,857 controller 1560 -- Actor for Replica(id='z1', deployment='Ends', app='ends') crashed, marking it unhealthy immediately.\n"+
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
