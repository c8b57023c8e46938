package findings_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestIdleAtTheEnd: a driver that does nothing of Ray's when its session ends has its last line in the title. It may
// stay for what it serves only if its log tells of Serve; what another job serves, or asks the autoscaler for, does not
// explain it.
func TestIdleAtTheEnd(t *testing.T) {
	const (
		connected = running + "2026-11-22 10:15:31,000\tINFO worker.py:2029 -- Connected to Ray cluster.\n"
		serves    = "INFO 2026-11-22 10:15:40,000 serve 7 -- Started Serve in namespace \"serve\".\n"
		noGPU     = "\x1b[33m(autoscaler +5s)\x1b[0m Error: No available node types can fulfill resource request {'GPU': 1.0}. Add suitable node types.\n"
	)
	controller := deadActor("ServeController", "x", "", "x")[:1]
	for name, c := range map[string]struct {
		log, title, severity string
		events               []string
	}{
		"its last line":        {connected + "wrote 12 shards\nexport is complete\n", "did; the last it printed: export is complete", findings.Error, controller},
		"it waits":             {connected + "wrote 12 shards\nwaiting for the lock\n", "did; the last it printed: waiting for the lock", findings.Error, nil},
		"it printed nothing":   {connected, "had not ended when the cluster did", findings.Error, controller},
		"it serves":            {connected + serves + "ready\n", "did; the last it printed: ready", findings.Warning, controller},
		"it made Serve":        {connected + "ready\n", "did; the last it printed: ready", findings.Warning, []string{strings.ReplaceAll(controller[0], "AAAAAQ==", "AAAAAg==")}},
		"another job has none": {connected + "export is complete\n" + noGPU, "did; the last it printed: export is complete", findings.Error, lackingGPU()},
	} {
		t.Run(name, func(t *testing.T) {
			dir := rareEvents(t, append(append(c.events, driverOf(2, open), driverOf(3, "raysubmit_chat")), aliveNodes()...))
			storeLog(t, dir, "job-driver-raysubmit_open.log", c.log)
			storeLog(t, dir, "serve/controller_1560.log",
				"WARNING 2026-11-22 10:16:01,857 controller 1560 -- Deployment 'Llm' in application 'chat' has 1 replicas that have taken more than 30s to initialize.\n")
			put(t, dir, layout.MetadataKey(layout.DefaultRoot, rayevents.Session, layout.End), `{"end": "2026-11-22T10:21:00Z"}`)
			for _, f := range report(t, load(t, dir, rayevents.Session, nil)).Findings {
				if f.Kind == findings.Unended && f.SubmissionID == open {
					says.True(t, strings.HasSuffix(f.Title, c.title) && f.Severity == c.severity, "%s: %s", f.Severity, f.Title)
					return
				}
			}
			t.Error("no finding is about the job's end")
		})
	}
}

// lackingGPU returns the events of a task of the job 00000001 that waits for a GPU.
func lackingGPU() []string {
	task := runningTask("embed")
	task[0] = strings.Replace(task[0], `{"CPU": 1.0}`, `{"GPU": 1.0}`, 1)
	task[1] = strings.Replace(task[1], `"RUNNING"`, `"PENDING_NODE_ASSIGNMENT"`, 1)
	return task
}

// TestEndedInConstructor: of an actor whose process ended itself in the constructor, and that Ray does not start again,
// only the GCS's log names the process; the title has what it printed last.
func TestEndedInConstructor(t *testing.T) {
	const dead = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file."
	worker, actor := fmt.Sprintf("%056x", 5), hex.EncodeToString([]byte("PoolActoryyy\x00\x00\x00\x01"))
	for failed, want := range map[string]string{actor: "; the last it printed: listener does not know of SALESDB", strings.Repeat("0", 32): ""} {
		dir := submissionWithLog(t, 1, trace("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."),
			append(deadActor("PoolActor", "actorDiedErrorContext", dead, "ACTOR_DIED"), driverOf(1, "raysubmit_bad"))...)
		storeLog(t, dir, "gcs_server.out", "[2026-11-22 10:15:55,000 I 30 30] (gcs_server) gcs_actor_manager.cc:1515: Actor is failed on worker "+
			worker+" at node "+strings.Repeat("01", 28)+", need_reschedule = 0, death context type = ActorDiedErrorContext, remaining_restarts = 0, job_id=01000000 actor_id="+failed+"\n")
		storeLog(t, dir, "worker-"+worker+"-00000001-7.err", "listener does not know of SALESDB\n")
		_, chain := badJob(t, dir)
		title := chain[len(chain)-1].Title
		says.True(t, strings.HasPrefix(title, "Actor PoolActor died unexpectedly: ") && strings.HasSuffix(title, want) &&
			(want != "") == strings.Contains(title, "SALESDB"), "%s", title)
	}
}

// TestReplicaEndedInConstructor: a deployment whose replica's process ended itself in the constructor has in the title
// what that process printed last.
func TestReplicaEndedInConstructor(t *testing.T) {
	const class, dead = "ServeReplica:r:Router", "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: End of file."
	worker, node := fmt.Sprintf("%056x", 5), strings.Repeat("01", 28)
	dir := submissionWithLog(t, 1, "r is not there\n", deadActor(class, "actorDiedErrorContext", dead, "ACTOR_DIED")[:2]...)
	storeLog(t, dir, "gcs_server.out", "[2026-11-22 10:15:55,000 W 30 30] (gcs_server) gcs_worker_manager.cc:70: Reporting worker exit, worker id = "+worker+
		", node id = "+node+", address = 10.0.0.1, exit_type = SYSTEM_ERROR, exit_detail = End of file.\n"+
		"[2026-11-22 10:15:55,000 I 30 30] (gcs_server) gcs_actor_manager.cc:1515: Actor is failed on worker "+worker+" at node "+node+
		", need_reschedule = 0, death context type = ActorDiedErrorContext, job_id=01000000 actor_id="+hex.EncodeToString([]byte(class[:12]+"\x00\x00\x00\x01"))+"\n")
	storeLog(t, dir, "worker-"+worker+"-00000001-7.err", "no seat left on licence server lic-eu\n")
	storeLog(t, dir, "serve/controller_1560.log",
		"ERROR 2026-11-22 10:15:56,080 controller 1560 -- Exception in Replica(id='95d2xri5', deployment='Router', app='r'), the replica will be stopped.\n"+
			"Traceback (most recent call last):\n  File \"deployment_state.py\", line 1412, in check_ready\n"+
			"ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: "+class+"\n"+dead+"\n")
	const want = "Deployment Router of application r did not start: the process of its replica ended in the constructor: "
	r := report(t, load(t, dir, rayevents.Session, nil))
	f := only(r, "^"+want)
	says.True(t, f != nil && strings.HasSuffix(f.Title, "; the last it printed: no seat left on licence server lic-eu"), "%+v", f)
}
