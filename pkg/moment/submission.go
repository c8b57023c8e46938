package moment

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Ray up to 2.60 sends no events about submissions. Their outcome is derived from other sources: the events of the supervisor actor and the driver,
// the lines in events/event_JOBS.log, the supervisor's log and the submission's own log. If there are events about a submission, these sources give
// what the events leave out: its definition, or its end.

const (
	supervisorClass = "JobSupervisor"
	supervisorActor = "_ray_internal_job_actor_" // + submission ID is the supervisor's name
	// defaultAgentPort is Ray's dashboard agent's.
	defaultAgentPort = 52365
)

// keptJobs keeps the evidence about submissions.
type keptJobs struct {
	evidence shared.Value[map[string]*evidence]
	facts    sync.Map // submission ID → *shared.Value[logFacts]
}

// evidence is what is known about one submission without reading its logs.
type evidence struct {
	own        *entities.Submission // from its own events, if its Ray sends them
	supervisor *entities.Actor
	started    int64 // Unix ns, from event_JOBS.log, which has whole seconds
	completed  int64
	status     string // the status with which it completed
	failure    string // why its job manager let it fail; "" if it did not
}

// jobEvidence collects the evidence about submissions, by their IDs.
func (m *Moment) jobEvidence(ctx context.Context) (map[string]*evidence, error) {
	return Kept[keptJobs](m).evidence.GetFor(ctx, Version(m.Session), func(ctx context.Context) (map[string]*evidence, error) {
		found := map[string]*evidence{}
		of := func(id string) *evidence {
			if found[id] == nil {
				found[id] = &evidence{}
			}
			return found[id]
		}
		for i := range m.Session.Submissions {
			s := &m.Session.Submissions[i]
			of(s.ID).own = s
		}
		for i := range m.Session.Actors {
			a := &m.Session.Actors[i]
			if id, ok := strings.CutPrefix(a.Name, supervisorActor); ok && a.Class == supervisorClass {
				of(id).supervisor = a
			}
		}
		for id := range m.LogNames().Jobs {
			of(id)
		}
		whole := *m
		whole.At = 0
		events, err := whole.ClusterEvents(ctx)
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			if id := event.Object("custom_fields").String("submission_id"); event.String("source_type") == "JOBS" && id != "" {
				of(id).learn(id, event)
			}
		}
		return found, nil
	})
}

// learn reads what a line of event_JOBS.log says about a submission (JobManager in ray/dashboard/modules/job/job_manager.py).
func (e *evidence) learn(id string, event *pyjson.Object) {
	at := event.Int("timestamp") * int64(time.Second)
	message := event.String("message")
	if strings.HasPrefix(message, "Started a ray job") {
		e.started = at
	} else if said, ok := strings.CutPrefix(message, "Completed a ray job "+id+" with a status "); ok {
		if status, why, _ := strings.Cut(said, "."); Terminal(status) {
			e.completed, e.status, e.failure = at, status, strings.TrimPrefix(why, " ")
		}
	}
}

const (
	// maxLogsRead limits for how many submissions logs are read for one list, because each costs some requests to the store. The others are shown by
	// their events alone, without the exit code and fractions of seconds.
	maxLogsRead = 500
	// logReaders is how many submissions' logs are read at a time.
	logReaders = 16
)

// told returns what is told of submissions besides saved rows. Those that did not exist at the moment are left out.
func (b *jobBuilder) told(ctx context.Context, ids []string) (map[string]*Job, error) {
	jobs := make([]*Job, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(logReaders)
	for i, id := range ids {
		g.Go(func() error {
			return guard.Do("the logs of submission "+id, func() (err error) {
				e, facts := b.evidence[id], logFacts{}
				if e == nil {
					e = &evidence{}
				}
				if i < maxLogsRead && !e.hasEnd() {
					if facts, err = b.m.logFactsOf(ctx, id, b.zone); err != nil {
						return err
					}
				}
				jobs[i] = b.toldOf(id, e, facts)
				return nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	byID := make(map[string]*Job, len(ids))
	for i, id := range ids {
		if jobs[i] != nil {
			byID[id] = jobs[i]
		}
	}
	return byID, nil
}

// toldOf returns what a submission's own events tell, and what they leave out from the others; nil if it did not exist at the moment.
func (b *jobBuilder) toldOf(id string, e *evidence, facts logFacts) *Job {
	others := b.fromOthers(id, e, facts)
	if e.own == nil {
		return others
	}
	own := b.fromOwnEvents(e.own)
	if own == nil || others == nil {
		return own
	}
	if own.Entrypoint == "" { // its definition was lost
		own.Entrypoint, own.Metadata, own.RuntimeEnv = others.Entrypoint, others.Metadata, others.RuntimeEnv
	}
	if !e.hasEnd() && Terminal(others.Status) {
		own.endAs(others)
	}
	return own
}

// hasEnd says whether the submission's own events contain its end.
func (e *evidence) hasEnd() bool {
	return e.own != nil && len(e.own.Transitions) > 0 && Terminal(e.own.Transitions[len(e.own.Transitions)-1].State)
}

// fromOthers returns a submission without its own events; nil if it did not exist at the moment.
func (b *jobBuilder) fromOthers(id string, e *evidence, facts logFacts) *Job {
	j := &Job{SubmissionID: id, Driver: b.drivers[id], Newer: true}
	b.decide(j, e, facts)
	if !b.m.existed(j.Start) {
		return nil
	}
	j.Start, j.End = millis(j.Start), millis(j.End)
	if d := j.Driver; d != nil {
		j.ID, j.RuntimeEnv, j.Metadata = d.ID.String(), d.RuntimeEnv, map[string]string{}
		for k, v := range d.Metadata {
			if k != submissionKey && k != jobNameKey { // those two are Ray's own
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

// fromOwnEvents returns a submission from its own events; nil if it did not exist at the moment.
func (b *jobBuilder) fromOwnEvents(s *entities.Submission) *Job {
	j := &Job{SubmissionID: s.ID, Entrypoint: s.Entrypoint, Metadata: s.Metadata, RuntimeEnv: s.RuntimeEnv, Driver: b.drivers[s.ID], Newer: true}
	if j.Driver != nil {
		j.ID = j.Driver.ID.String()
	}
	j.Status = Pending
	for i, t := range s.Transitions {
		if !b.m.existed(t.Time) {
			if i == 0 {
				return nil
			}
			break
		}
		j.Status, j.Message, j.ErrorType, j.Start = t.State, t.Message, t.ErrorType, cmp.Or(j.Start, millis(t.Time))
		if Terminal(t.State) {
			j.End = millis(t.Time)
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
