package jobs

import (
	"cmp"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// outcome is the result of a submission.
type outcome struct {
	status         string
	message        any
	errorType      any
	exitCode       any
	entrypoint     any
	started, ended int64 // Unix ns
	node           rayid.Node
}

// statusMessages are Ray's messages of a status without further details (JobInfo in ray/dashboard/modules/job/common.py).
var statusMessages = map[string]string{
	moment.Pending: "Job has not started yet.", running: "Job is currently running.", succeeded: "Job finished successfully.",
	stopped: "Job was intentionally stopped.", failed: "Job failed.",
}

// outcome derives the outcome from a submission's evidence. The exit code that its supervisor wrote counts most, then the status that the
// job manager wrote. A driver that ended without either is shown as Ray shows any ended driver.
func (b *builder) outcome(id string, e *evidence, facts logFacts) outcome {
	o := outcome{status: moment.Pending, node: facts.node, started: e.started}
	b.supervised(&o, e.supervisor)
	driverEnded := b.driven(&o, b.drivers[id])
	if facts.started != 0 {
		o.started = facts.started
	}
	if facts.entrypoint != "" {
		o.entrypoint = facts.entrypoint
		if e.supervisor == nil && b.past(o.started) {
			o.status = running // only its log shows that it ran
		}
	}
	switch {
	case facts.exited && b.past(facts.ended):
		o.exit(facts)
		return o
	case e.status != "" && b.past(e.completed):
		o.status = e.status
		if o.ended == 0 {
			o.ended = max(driverEnded, e.completed)
		}
		if e.failure != "" {
			o.message, o.errorType = e.failure, reply.Nullable(failureType(e.failure))
			return o
		}
	case driverEnded != 0:
		o.status, o.ended, o.message = succeeded, driverEnded, "The driver ended; its exit code was not recorded."
		return o
	case o.ended != 0:
		o.status, o.message = failed, "The job supervisor ended; how the job ended was not recorded."
		return o
	}
	o.message = reply.Nullable(statusMessages[o.status])
	return o
}

// exit completes the outcome of a job whose exit code is known, as the supervisor reports it to Ray.
func (o *outcome) exit(facts logFacts) {
	o.exitCode, o.ended = facts.exitCode, facts.ended
	if facts.exitCode == 0 {
		o.status, o.message = succeeded, statusMessages[succeeded]
		return
	}
	o.status, o.errorType, o.message = failed, "JOB_ENTRYPOINT_COMMAND_ERROR", facts.failure()
}

// failureTypes are the types of error of what a job manager says about a submission that it let fail, by the beginnings of its sentences
// (_monitor_job_internal in ray/dashboard/modules/job/job_manager.py).
var failureTypes = map[string]string{
	"runtime_env setup failed: ":                    "RUNTIME_ENV_SETUP_FAILURE",
	"Job supervisor actor could not be scheduled: ": "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
	"Job supervisor actor died: ":                   "JOB_SUPERVISOR_ACTOR_DIED",
	"Unexpected error occurred: ":                   "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE",
}

// failureType is the type of error of such a sentence; "" if it is another one.
func failureType(failure string) string {
	for begins, kind := range failureTypes {
		if strings.HasPrefix(failure, begins) {
			return kind
		}
	}
	return ""
}

// past says whether t is not after the requested moment.
func (b *builder) past(t int64) bool { return b.r.At == 0 || t <= b.r.At }

// supervised takes the state of the supervisor actor: pending until it is alive, over when it is dead.
func (b *builder) supervised(o *outcome, a *entities.Actor) {
	if a == nil || len(a.Transitions) == 0 {
		return
	}
	o.started = a.Transitions[0].Time
	state, existed := moment.ActorAt(a, b.r.At)
	if !existed {
		return
	}
	if state.Started != 0 {
		o.status = running
	}
	o.ended = state.Ended
	o.node = state.Node // nil if it never ran: Ray then names no node, whoever wrote the log
}

// driven takes the state of the driver, and returns when it ended (0: not yet).
func (b *builder) driven(o *outcome, j *entities.Job) int64 {
	if j == nil {
		return 0
	}
	state, _ := moment.DriverAt(j, b.r.At)
	o.status, o.entrypoint, o.node = running, j.Entrypoint, j.DriverNode
	o.started = cmp.Or(o.started, state.Started)
	return state.Ended
}
