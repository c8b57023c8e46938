package moment

import (
	"cmp"
	"strings"

	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// statusMessages are Ray's messages of a status without further details (JobInfo in ray/dashboard/modules/job/common.py).
var statusMessages = map[string]string{
	Pending: "Job has not started yet.", Running: "Job is currently running.", Succeeded: "Job finished successfully.",
	Stopped: "Job was intentionally stopped.", Failed: "Job failed.",
}

// decide derives the outcome of a submission from its evidence. The exit code that its supervisor wrote counts most, then the status that the
// job manager wrote. A driver that ended without either is shown as Ray shows any ended driver.
func (b *jobBuilder) decide(j *Job, e *evidence, facts logFacts) {
	j.Status, j.Node, j.Start = Pending, facts.node, e.started
	b.supervised(j, e.supervisor)
	driverEnded := b.driven(j)
	j.Start = cmp.Or(facts.started, j.Start)
	if facts.entrypoint != "" {
		j.Entrypoint = facts.entrypoint
		if e.supervisor == nil && b.m.existed(j.Start) {
			j.Status = Running // only its log shows that it ran
		}
	}
	switch {
	case facts.exited && b.m.existed(facts.ended):
		j.exit(facts)
		return
	case e.status != "" && b.m.existed(e.completed):
		j.Status, j.End = e.status, cmp.Or(j.End, max(driverEnded, e.completed))
		if e.failure != "" {
			j.Message, j.ErrorType = e.failure, failureType(e.failure)
			return
		}
	case driverEnded != 0:
		j.Status, j.End, j.Message = Succeeded, driverEnded, "The driver ended; its exit code was not recorded."
		return
	case j.End != 0:
		j.Status, j.Message = Failed, "The job supervisor ended; how the job ended was not recorded."
		return
	}
	j.Message = statusMessages[j.Status]
}

// exit completes the outcome of a job whose exit code is known, as the supervisor reports it to Ray.
func (j *Job) exit(facts logFacts) {
	j.ExitCode, j.End = facts.exitCode, facts.ended
	if facts.exitCode == 0 {
		j.Status, j.Message = Succeeded, statusMessages[Succeeded]
		return
	}
	j.Status, j.ErrorType, j.Message = Failed, "JOB_ENTRYPOINT_COMMAND_ERROR", facts.failure()
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

// supervised takes the state of the supervisor actor: pending until it is alive, over when it is dead.
func (b *jobBuilder) supervised(j *Job, a *entities.Actor) {
	if a == nil || len(a.Transitions) == 0 {
		return
	}
	j.Start = a.Transitions[0].Time
	state, existed := ActorAt(a, b.m.At)
	if !existed {
		return
	}
	if state.Started != 0 {
		j.Status = Running
	}
	j.End = state.Ended
	j.Node = state.Node // nil if it never ran: Ray then names no node, whoever wrote the log
}

// driven takes the state of the driver, and returns when it ended (0: not yet).
func (b *jobBuilder) driven(j *Job) int64 {
	d := j.Driver
	if d == nil {
		return 0
	}
	state, _ := DriverAt(d, b.m.At)
	j.Status, j.Entrypoint, j.Node, j.Start = Running, d.Entrypoint, d.DriverNode, cmp.Or(j.Start, state.Started)
	return state.Ended
}
