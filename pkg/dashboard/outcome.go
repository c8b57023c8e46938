package dashboard

import (
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// outcome is what became of a submission.
type outcome struct {
	status         string
	message        any
	errorType      any
	exitCode       any
	entrypoint     any
	started, ended int64 // Unix ns
	node           rayid.Node
}

// statusMessages are what Ray says of a status where nothing more is known (JobInfo in ray/dashboard/modules/job/common.py).
var statusMessages = map[string]string{
	pending: "Job has not started yet.", running: "Job is currently running.", succeeded: "Job finished successfully.",
	stopped: "Job was intentionally stopped.", failed: "Job failed.",
}

// outcome weighs a submission's evidence. What its supervisor wrote of the exit code counts most, then what the job manager wrote of its
// status; a driver that ended without either is shown as Ray shows any driver that ended.
func (b *jobBuilder) outcome(id string, e *submissionEvidence, facts jobFacts) outcome {
	o := outcome{status: pending, node: facts.node, started: e.started}
	b.supervised(&o, e.supervisor)
	driverEnded := b.driven(&o, b.drivers[id])
	if facts.started != 0 {
		o.started = facts.started
	}
	if facts.entrypoint != "" {
		o.entrypoint = facts.entrypoint
		if e.supervisor == nil && b.past(o.started) {
			o.status = running // nothing but its log tells that it ran
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
	case driverEnded != 0:
		o.status, o.ended, o.message = succeeded, driverEnded, "The driver ended; its exit code was not recorded."
		return o
	case o.ended != 0:
		o.status, o.message = failed, "The job supervisor ended; how the job ended was not recorded."
		return o
	}
	o.message = nullable(statusMessages[o.status])
	return o
}

// exit completes the outcome of a job whose exit code is known, as the supervisor tells it to Ray.
func (o *outcome) exit(facts jobFacts) {
	o.exitCode, o.ended = facts.exitCode, facts.ended
	if facts.exitCode == 0 {
		o.status, o.message = succeeded, statusMessages[succeeded]
		return
	}
	o.status, o.errorType, o.message = failed, "JOB_ENTRYPOINT_COMMAND_ERROR", facts.failure()
}

// past says whether something that happened at t had happened at the moment asked for.
func (b *jobBuilder) past(t int64) bool { return b.r.At == 0 || t <= b.r.At }

// supervised takes what the supervisor actor tells: pending until it is alive, over when it is dead.
func (b *jobBuilder) supervised(o *outcome, a *session.Actor) {
	if a == nil || len(a.Transitions) == 0 {
		return
	}
	o.started = a.Transitions[0].Time
	state, existed := actorAt(a, b.r.At)
	if !existed {
		return
	}
	if state.started != 0 {
		o.status = running
	}
	o.ended = state.ended
	if !state.node.Nil() {
		o.node = state.node
	}
}

// driven takes what the driver tells, and says when it ended (0: not yet).
func (b *jobBuilder) driven(o *outcome, j *session.Job) int64 {
	if j == nil {
		return 0
	}
	state, _ := driverAt(j, b.r.At)
	o.status, o.entrypoint, o.node = running, j.Entrypoint, j.DriverNode
	if o.started == 0 {
		o.started = state.started
	}
	return state.ended
}
