package sessiongen

import (
	"fmt"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// task is one generated task; its attempts differ in time alone.
type task struct {
	id       rayid.Task
	actor    *rayid.Actor // nil for a normal task
	job      rayid.Job
	function string
	node     int // that runs it
	slot     int
	number   int
}

func (g *generator) makeTask(i int) {
	at := 5_000_000 + int(float64(g.span-10_000_000)*float64(i)/float64(g.o.Tasks))
	t := task{number: i, job: g.jobs[i%g.o.Jobs], node: g.random.IntN(g.o.Nodes), slot: g.random.IntN(workersPerNode)}
	took := 500 + g.random.IntN(2_000_000)
	g.fill(t.id[:8])
	if i%10 == 3 {
		a := &g.actors[g.random.IntN(len(g.actors))]
		t.actor, t.job, t.node, t.slot = &a.id, g.jobs[a.job], a.node, a.slot
		copy(t.id[8:], a.id[:])
	} else {
		copy(t.id[8:], []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
		copy(t.id[rayid.TaskSize-rayid.JobSize:], t.job[:])
	}
	t.function = fmt.Sprintf("stage_%d", g.random.IntN(functions))
	attempts := 1
	if i%20 == 11 {
		attempts = 2
	}
	for n := range attempts {
		fails := i%50 == 7 || n < attempts-1
		g.makeAttempt(&t, n, at+n*(took+3000), took, fails)
	}
}

// makeAttempt writes what the owner (on the first node) and the executing worker tell of one attempt.
func (g *generator) makeAttempt(t *task, attempt, at, took int, fails bool) {
	const owner = 0
	job, id, node, pid := b64(t.job[:]), b64(t.id[:]), g.nodes[t.node], 2000+t.slot
	worker := g.workers[t.node][t.slot]
	g.define(t, attempt, at)
	g.add(&t.job, owner, "TASK_LIFECYCLE_EVENT", "CORE_WORKER", at+950,
		`"taskLifecycleEvent":{"taskId":"%s","stateTransitions":[{"state":"PENDING_ARGS_AVAIL","timestamp":"%s"},{"state":"PENDING_NODE_ASSIGNMENT","timestamp":"%s"},{"state":"SUBMITTED_TO_WORKER","timestamp":"%s"}],"nodeId":"%s","workerId":"%s","workerPid":%d,"jobId":"%s","taskAttempt":%d}`,
		id, stamp(at), stamp(at+120), stamp(at+900), b64(node[:]), b64(worker[:]), pid, job, attempt)
	log := fmt.Sprintf("/tmp/ray/%s/logs/worker-%s-%s-%d", g.session, worker, t.job, pid)
	g.add(&t.job, t.node, "TASK_LIFECYCLE_EVENT", "CORE_WORKER", at+1500,
		`"taskLifecycleEvent":{"taskId":"%s","stateTransitions":[{"state":"RUNNING","timestamp":"%s"}],"workerPid":%d,"jobId":"%s","taskAttempt":%d,"nodeId":"","workerId":"","taskLogInfo":{"stdoutFile":"%s.out","stderrFile":"%s.err","stdoutStart":"%d","stderrStart":"0","stdoutEnd":"0","stderrEnd":"0"}}`,
		id, stamp(at+1500), pid, job, attempt, log, log, t.number*40)
	state, failure := "FINISHED", ""
	if fails {
		state = "FAILED"
		failure = fmt.Sprintf(`,"rayErrorInfo":{"errorType":"TASK_EXECUTION_EXCEPTION","errorMessage":"Traceback (most recent call last):\n  File \"bench.py\", line %d, in %s\nValueError: synthetic failure %d"}`,
			t.number%200, t.function, t.number)
		if g.o.OutOfMemory && t.number%1000 == 7 {
			failure = `,"rayErrorInfo":{"errorType":"OUT_OF_MEMORY","errorMessage":"Task was killed due to the node running low on memory."}`
		}
	}
	end := at + 1500 + took
	g.add(&t.job, owner, "TASK_LIFECYCLE_EVENT", "CORE_WORKER", end,
		`"taskLifecycleEvent":{"taskId":"%s","stateTransitions":[{"state":"%s","timestamp":"%s"}],"jobId":"%s","taskAttempt":%d,"nodeId":"","workerId":"","workerPid":0%s}`,
		id, state, stamp(end), job, attempt, failure)
	from := Start.UnixNano() + int64(at)*1000
	to := from + int64(took)*1000
	g.add(&t.job, t.node, "TASK_PROFILE_EVENT", "CORE_WORKER", end,
		`"taskProfileEvents":{"taskId":"%s","jobId":"%s","profileEvents":{"componentType":"worker","componentId":"%s","nodeIpAddress":"10.0.0.%d","events":[`+
			`{"startTime":"%d","endTime":"%d","extraData":"{}","eventName":"task:deserialize_arguments"},`+
			`{"startTime":"%d","endTime":"%d","extraData":"{}","eventName":"task:execute"},`+
			`{"startTime":"%d","endTime":"%d","extraData":"{\"name\": \"%s\", \"task_id\": \"%s\"}","eventName":"task::%s"}]},"attemptNumber":%d}`,
		id, job, b64(worker[:]), t.node+1, from+1_500_000, from+1_600_000, from+1_600_000, to+1_600_000, from+1_500_000,
		to+1_700_000,
		t.function, t.id, t.function, attempt)
}

func (g *generator) define(t *task, attempt, at int) {
	const nilGroup = "////////////////////////"
	driver := rayid.Task{}
	for i := range driver {
		driver[i] = 0xff
	}
	copy(driver[rayid.TaskSize-rayid.JobSize:], t.job[:])
	if t.actor != nil {
		g.add(&t.job, 0, "ACTOR_TASK_DEFINITION_EVENT", "CORE_WORKER", at,
			`"actorTaskDefinitionEvent":{"taskId":"%s","actorFunc":{"pythonFunctionDescriptor":{"moduleName":"bench","className":"Worker","functionName":"%s","functionHash":""}},"actorTaskName":"Worker.%s","jobId":"%s","actorId":"%s","parentTaskId":"%s","placementGroupId":"%s","serializedRuntimeEnv":"{}","isDetachedActor":false,"taskAttempt":%d,"language":"PYTHON","requiredResources":{},"refIds":{},"labelSelector":{}}`,
			b64(t.id[:]), t.function, t.function, b64(t.job[:]), b64(t.actor[:]), b64(driver[:]), nilGroup, attempt)
		return
	}
	g.add(&t.job, 0, "TASK_DEFINITION_EVENT", "CORE_WORKER", at,
		`"taskDefinitionEvent":{"taskId":"%s","taskFunc":{"pythonFunctionDescriptor":{"moduleName":"bench","functionName":"%s","functionHash":"092bb7a6e9684fde9994170d93fe8365","className":""}},"taskName":"%s","requiredResources":{"CPU":1.0},"jobId":"%s","parentTaskId":"%s","placementGroupId":"%s","serializedRuntimeEnv":"{}","taskAttempt":%d,"taskType":"NORMAL_TASK","language":"PYTHON","refIds":{},"labelSelector":{},"isDetachedActor":false}`,
		b64(t.id[:]), t.function, t.function, b64(t.job[:]), b64(driver[:]), nilGroup, attempt)
}
