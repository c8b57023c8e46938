package moment

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Ray up to 2.60 sends no events about submissions. Their outcome is derived from other sources: the events of the
// supervisor actor and the driver, the lines in events/event_JOBS.log, the supervisor's log and the submission's own
// log. If there are events about a submission, these sources give what the events leave out: its definition, or its
// end.

const (
	supervisorClass = "JobSupervisor"
	// SupervisorActor, with the submission's ID behind it, is the name of the actor that starts a submission's driver.
	// It asks for the resources that the submission asked for.
	SupervisorActor = "_ray_internal_job_actor_"
	// defaultAgentPort is Ray's dashboard agent's.
	defaultAgentPort = 52365
)

// jobCache caches the evidence about submissions.
type jobCache struct {
	evidence shared.Value[map[string]*evidence]
	facts    sync.Map // submission ID → *shared.Value[logFacts]
}

// evidence is what is known about one submission without reading its logs.
type evidence struct {
	own         *entities.Submission // from its own events, if its Ray sends them
	supervisors []*entities.Actor    // several: it was deleted, and its ID submitted again
	supervisor  *entities.Actor      // the one that counts at the moment, see at
	again       bool                 // it began at least twice: the first submission with its ID was deleted
	earlier     []jobEvents          // of submissions that were deleted, the oldest first
	overtaken   bool                 // another submission with its ID began after the moment
	jobEvents                        // of the last one or, see at, of the one at the moment
}

// jobEvents is what event_JOBS.log says about one submission. Its times (Unix ns; 0: not known) are whole seconds.
type jobEvents struct {
	started, completed int64
	status             string // the status with which it completed
	failure            string // why its job manager let it fail; "" if it did not
}

// jobEvidence returns what the session has of each submission besides saved rows and drivers, by the submission's ID,
// whatever the moment. A submission of which there is only a log has an empty evidence.
func (m *Moment) jobEvidence(ctx context.Context) (map[string]*evidence, error) {
	return Cached[jobCache](m).evidence.GetFor(ctx, StateOf(m.Session),
		func(ctx context.Context) (map[string]*evidence, error) {
			found := map[string]*evidence{}
			evidenceOf := func(id string) *evidence {
				if found[id] == nil {
					found[id] = &evidence{}
				}
				return found[id]
			}
			for i := range m.Session.Submissions {
				s := &m.Session.Submissions[i]
				evidenceOf(s.ID).own = s
			}
			for i := range m.Session.Actors {
				a := &m.Session.Actors[i]
				if id, ok := strings.CutPrefix(a.Name, SupervisorActor); ok && a.Class == supervisorClass {
					e := evidenceOf(id)
					e.supervisors, e.again = append(e.supervisors, a), len(e.supervisors) > 0
				}
			}
			for id := range m.LogNames().Jobs {
				evidenceOf(id)
			}
			atEnd := *m
			atEnd.At = AtEnd
			events, err := atEnd.ClusterEvents(ctx)
			if err != nil {
				return nil, err
			}
			for _, event := range events {
				if id := event.Object("custom_fields").String("submission_id"); event.String("source_type") == "JOBS" &&
					id != "" {
					evidenceOf(id).addEvent(id, event)
				}
			}
			return found, nil
		})
}

// at returns the evidence with the last supervisor that had begun at the moment, or else the first one, and the same of
// what event_JOBS.log says.
func (e evidence) at(m *Moment) *evidence {
	began := func(a *entities.Actor) int64 {
		if len(a.Transitions) == 0 {
			return 0
		}
		return a.Transitions[0].Time
	}
	for i := len(e.earlier) - 1; i >= 0 && !m.isPast(e.started); i-- {
		e.jobEvents, e.overtaken, e.again = e.earlier[i], true, i > 0
	}
	inOrder := func(a, b *entities.Actor) int { return cmp.Compare(began(a), began(b)) }
	for _, a := range slices.SortedStableFunc(slices.Values(e.supervisors), inOrder) {
		if e.supervisor == nil || m.isPast(began(a)) {
			e.supervisor = a
		}
	}
	return &e
}

// addEvent takes over what an event of event_JOBS.log says about the submission with an ID (JobManager in
// ray/dashboard/modules/job/job_manager.py).
func (e *evidence) addEvent(id string, event *pyjson.Object) {
	at := TimeIn(event, "timestamp", time.Second)
	message := event.String("message")
	if strings.HasPrefix(message, "Started a ray job") {
		if e.started != 0 {
			e.again, e.earlier = true, append(e.earlier, e.jobEvents)
		}
		if e.started = max(e.started, at); at >= e.completed { // it was deleted, and its ID submitted again
			e.completed, e.status, e.failure = 0, "", ""
		}
	} else if at < e.started {
		return // of an earlier submission with the ID
	} else if said, ok := strings.CutPrefix(message, "Completed a ray job "+id+" with a status "); ok {
		if status, why, _ := strings.Cut(said, "."); jobstatus.Ended(status) {
			e.completed, e.status, e.failure = at, status, strings.TrimPrefix(why, " ")
		}
	}
}

// maxLogsRead limits for how many submissions logs are read for one list, because each costs some requests to the
// store. The others are shown by their events alone, without the exit code and fractions of seconds.
const maxLogsRead = 500

// jobsByEvents returns submissions by ID, as their events and logs show them, without saved rows. Those that did not
// exist at the moment are left out. It reads the logs of the first maxLogsRead of the IDs.
func (b *jobBuilder) jobsByEvents(ctx context.Context, ids []string) (map[string]*Job, error) {
	jobs, err := ReadEach(ctx, "the logs of submission ", ids,
		func(ctx context.Context, i int, id string) (_ *Job, err error) {
			e, facts := cmp.Or(b.evidence[id], &evidence{}).at(b.m), logFacts{}
			if i < maxLogsRead && !e.hasEnd() {
				if facts, err = b.m.logFactsOf(ctx, id, b.zone); err != nil {
					return nil, err
				}
			}
			return b.jobByEvents(id, e, facts), nil
		})
	byID := make(map[string]*Job, len(ids))
	for i, id := range ids {
		if jobs[i] != nil {
			byID[id] = jobs[i]
		}
	}
	return byID, err
}

// jobByEvents returns a submission as its own events show it. What these lack is taken from its driver and logs. It is
// nil if the submission did not exist at the moment.
func (b *jobBuilder) jobByEvents(id string, e *evidence, facts logFacts) *Job {
	other := b.byDriverAndLogs(id, e, facts)
	if e.own == nil {
		return other
	}
	own := b.byOwnEvents(e.own)
	if own == nil || other == nil {
		return own
	}
	if own.Entrypoint == "" { // its definition was lost
		own.Entrypoint, own.Metadata, own.RuntimeEnv = other.Entrypoint, other.Metadata, other.RuntimeEnv
	}
	if !e.hasEnd() && jobstatus.Ended(other.Status) {
		own.copyEnd(other)
	}
	return own
}

// hasEnd reports whether the submission's own events contain its end.
func (e *evidence) hasEnd() bool {
	if e.own == nil || len(e.own.Transitions) == 0 {
		return false
	}
	return jobstatus.Ended(e.own.Transitions[len(e.own.Transitions)-1].State)
}

// byDriverAndLogs returns a submission as its driver, its logs and event_JOBS.log show it, without its own events; nil
// if it did not exist at the moment.
func (b *jobBuilder) byDriverAndLogs(id string, e *evidence, facts logFacts) *Job {
	j := &Job{SubmissionID: id, Newer: true} // no saved row is read
	j.setDrivers(b.drivers[id])
	b.setOutcome(j, e, facts)
	if !b.m.isPast(j.Start) {
		return nil
	}
	j.Start, j.End = wholeMillis(j.Start), wholeMillis(j.End)
	if d := j.Driver; d != nil {
		j.RuntimeEnv, j.Metadata = d.RuntimeEnv, map[string]string{}
		for k, v := range d.Metadata {
			if !RayMetadata(k) {
				j.Metadata[k] = v
			}
		}
	}
	if node := b.nodes.ByID[j.Node.String()]; node != nil && node.IP != "" {
		port := cmp.Or(node.Saved.Object("raylet").Int("dashboardAgentListenPort"), defaultAgentPort)
		j.AgentAddress = "http://" + node.IP + ":" + strconv.FormatInt(port, 10)
	}
	return j
}

// byOwnEvents returns a submission as its own events show it; nil if it did not exist at the moment.
func (b *jobBuilder) byOwnEvents(s *entities.Submission) *Job {
	j := &Job{SubmissionID: s.ID, Entrypoint: s.Entrypoint, Metadata: s.Metadata, RuntimeEnv: s.RuntimeEnv,
		Newer: true}
	j.setDrivers(b.drivers[s.ID])
	j.Status = jobstatus.Pending
	for i, t := range s.Transitions {
		if !b.m.isPast(t.Time) {
			if i == 0 {
				return nil
			}
			break
		}
		j.Status, j.Message, j.ErrorType = t.State, t.Message, t.ErrorType
		ended := jobstatus.Ended(t.State)
		if j.End != 0 && !ended { // it was deleted, and its ID submitted again
			j.Start, j.End, j.ExitCode = 0, 0, nil
		}
		j.Start = cmp.Or(j.Start, wholeMillis(t.Time))
		if ended {
			j.End = wholeMillis(t.Time)
		}
		if !t.DriverNode.Nil() {
			j.Node = t.DriverNode
		}
		j.AgentAddress = cmp.Or(t.AgentAddress, j.AgentAddress)
		if t.HasExitCode {
			j.ExitCode = t.ExitCode
		}
	}
	return j
}

// statusMessages are Ray's messages of a status without further details (JobInfo in
// ray/dashboard/modules/job/common.py).
var statusMessages = map[string]string{
	jobstatus.Pending: "Job has not started yet.", jobstatus.Running: "Job is currently running.",
	jobstatus.Succeeded: "Job finished successfully.", jobstatus.Stopped: "Job was intentionally stopped.",
	jobstatus.Failed: "Job failed.",
}

// EndNotRecorded is the message of a submission of which only the end of its driver is known.
const EndNotRecorded = "The driver ended; its exit code was not recorded."

// setOutcome derives from its evidence how a submission that is not known by its own events began and ended. The exit
// code that its supervisor logged counts most, then the status that Ray's job manager wrote. If there is neither, a
// driver that ended counts as successful, as Ray shows any driver that ended, unless the submission went on after it.
func (b *jobBuilder) setOutcome(j *Job, e *evidence, facts logFacts) {
	j.Status, j.Node, j.Start = jobstatus.Pending, facts.node, e.started
	b.setBySupervisor(j, e.supervisor)
	driverEnded := b.setByDriver(j, e)
	logBegins := !b.isEarlier(facts.started, e)
	if logBegins {
		j.Start = cmp.Or(facts.started, j.Start)
	}
	if facts.entrypoint != "" {
		j.Entrypoint = facts.entrypoint
		if e.supervisor == nil && b.m.isPast(j.Start) {
			j.Status = jobstatus.Running // only its log shows that it ran
		}
	}
	if facts.ended == 0 && !e.overtaken { // an older Ray does not log when
		facts.ended = cmp.Or(e.completed, j.End, driverEnded)
	}
	switch {
	case facts.exited && !b.isEarlier(facts.ended, e) && b.hasEnded(facts.ended):
		j.setExit(facts)
		return
	case e.status != "" && b.m.isPast(e.completed):
		j.Status, j.End = e.status, cmp.Or(j.End, max(driverEnded, e.completed))
		if e.failure != "" {
			j.Message, j.ErrorType = e.failure, failureType(e.failure)
			return
		}
	case facts.refused != "" && logBegins && b.m.isPast(j.Start):
		j.Status, j.End, j.Message, j.ErrorType = jobstatus.Failed, j.Start, facts.refused,
			"JOB_SUPERVISOR_ACTOR_START_FAILURE"
		return
	case driverEnded != 0 && !b.stillRuns(j.SubmissionID, e, facts):
		j.Status, j.End, j.Message = jobstatus.Succeeded, driverEnded, EndNotRecorded
		return
	case j.End != 0:
		j.Status, j.Message = jobstatus.Failed, "The job supervisor ended; how the job ended was not recorded."
		return
	}
	j.Message = statusMessages[j.Status]
}

// isEarlier reports whether what happened at a time (Unix ns; 0: it is not known when) was before the submission began:
// it is of another one with its ID, which was deleted. If there was none, the clock of another node is behind.
func (b *jobBuilder) isEarlier(t int64, e *evidence) bool {
	return e.again && t != 0 && t < e.started && b.m.isPast(e.started)
}

// hasEnded reports whether what ended at a time (Unix ns; 0: it is not known when) had ended at the moment.
func (b *jobBuilder) hasEnded(t int64) bool { return b.m.isPast(t) && (t != 0 || b.m.At == AtEnd) }

// stillRuns reports whether a submission whose driver had ended still ran at the moment, because its entrypoint may run
// more programs. Something that happened to the submission later shows that, or a supervisor that lived at the moment,
// if the moment is now or if it is known that the supervisor died later.
func (b *jobBuilder) stillRuns(id string, e *evidence, facts logFacts) bool {
	after := func(t int64) bool { return !b.m.isPast(t) }
	switch {
	case b.laterDriver[id], facts.exited && after(facts.ended), after(e.completed):
		return true
	case e.supervisor == nil:
		return false
	}
	now, _ := ActorAt(e.supervisor, b.m.At)
	last, _ := ActorAt(e.supervisor, AtEnd)
	return now.State == Alive && (b.runs || last.State == Dead)
}

// setExit sets the outcome of a job whose exit code is known, as the supervisor reports it to Ray.
func (j *Job) setExit(facts logFacts) {
	j.ExitCode, j.End = facts.exitCode, facts.ended
	if facts.exitCode == 0 {
		j.Status, j.Message = jobstatus.Succeeded, statusMessages[jobstatus.Succeeded]
		return
	}
	j.Status, j.ErrorType, j.Message = jobstatus.Failed, "JOB_ENTRYPOINT_COMMAND_ERROR", facts.failure()
}

// failureTypes are the types of error of what a job manager says about a submission that it let fail, by the beginnings
// of its sentences (_monitor_job_internal in ray/dashboard/modules/job/job_manager.py).
var failureTypes = map[string]string{
	"runtime_env setup failed: ":                    "RUNTIME_ENV_SETUP_FAILURE",
	"Job supervisor actor could not be scheduled: ": "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
	"Job supervisor actor died: ":                   "JOB_SUPERVISOR_ACTOR_DIED",
	"Unexpected error occurred: ":                   "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE",
}

// failureType returns Ray's type of error for such a sentence; "" if it begins in another way.
func failureType(failure string) string {
	for begins, kind := range failureTypes {
		if strings.HasPrefix(failure, begins) {
			return kind
		}
	}
	return ""
}

// setBySupervisor sets the submission's status, node and times by its supervisor actor: the submission is pending until
// the actor is alive, and over when it is dead. It does nothing if a is nil or has no events.
func (b *jobBuilder) setBySupervisor(j *Job, a *entities.Actor) {
	if a == nil || len(a.Transitions) == 0 {
		return
	}
	j.Start = a.Transitions[0].Time
	state, existed := ActorAt(a, b.m.At)
	if !existed {
		return
	}
	if state.Started != 0 {
		j.Status = jobstatus.Running
	}
	j.End = state.Ended
	j.Node = state.Node // nil if it never ran: Ray then names no node, whoever wrote the log
}

// setByDriver sets the status, node and start of a submission by its last driver, and returns when that driver ended
// (Unix ns; 0: not yet, or there is none).
func (b *jobBuilder) setByDriver(j *Job, e *evidence) int64 {
	d := j.Driver
	if d == nil {
		return 0
	}
	state, _ := DriverAt(d, b.m.At)
	if b.isEarlier(state.Ended, e) {
		return 0
	}
	j.Status, j.Entrypoint, j.Node = jobstatus.Running, d.Entrypoint, d.DriverNode
	j.Start = cmp.Or(j.Start, state.Started)
	return state.Ended
}
