package jobs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
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

// cache keeps the evidence about submissions.
type cache struct {
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

// evidenceOf collects the evidence about submissions, by their IDs.
func evidenceOf(r *request.Request) (map[string]*evidence, error) {
	return moment.Kept[cache](&r.Moment).evidence.GetFor(r.Context(), moment.Version(r.Session), func(ctx context.Context) (map[string]*evidence, error) {
		found := map[string]*evidence{}
		of := func(id string) *evidence {
			if found[id] == nil {
				found[id] = &evidence{}
			}
			return found[id]
		}
		for i := range r.Session.Submissions {
			s := &r.Session.Submissions[i]
			of(s.ID).own = s
		}
		for i := range r.Session.Actors {
			a := &r.Session.Actors[i]
			if id, ok := strings.CutPrefix(a.Name, supervisorActor); ok && a.Class == supervisorClass {
				of(id).supervisor = a
			}
		}
		for id := range r.LogNames().Jobs {
			of(id)
		}
		whole := r.With(ctx)
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

// submissionIDs returns the IDs of all known submissions, sorted.
func (b *builder) submissionIDs() []string {
	ids := map[string]bool{}
	for id := range b.drivers {
		ids[id] = true
	}
	for id := range b.evidence {
		ids[id] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

const (
	// maxLogsRead limits for how many submissions one request reads logs, because each costs some requests to the store. The others are shown by
	// their events alone, without the exit code and fractions of seconds.
	maxLogsRead = 500
	// logReaders is how many submissions' logs are read at a time.
	logReaders = 16
)

// newSubmissions makes rows of submissions from their evidence. Submissions that did not exist at the requested moment have no row.
func (b *builder) newSubmissions(ctx context.Context, ids []string) (map[string]*pyjson.Object, error) {
	rows := make([]*pyjson.Object, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(logReaders)
	for i, id := range ids {
		g.Go(func() (err error) {
			var facts logFacts
			return guard.Do("the logs of submission "+id, func() (err error) {
				if i < maxLogsRead && !b.evidence[id].hasEnd() {
					if facts, err = factsOf(ctx, b.r, id, b.zone); err != nil {
						return err
					}
				}
				rows[i] = b.newSubmission(id, facts)
				return nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	byID := make(map[string]*pyjson.Object, len(ids))
	for i, id := range ids {
		if rows[i] != nil {
			byID[id] = rows[i]
		}
	}
	return byID, nil
}

// newSubmission makes one row; nil if the submission did not exist at the requested moment.
func (b *builder) newSubmission(id string, facts logFacts) *pyjson.Object {
	e := b.evidence[id]
	if e == nil {
		e = &evidence{}
	}
	row := b.fromOthers(id, e, facts)
	if e.own == nil {
		return row
	}
	own := b.fromOwnEvents(e.own)
	if own == nil || row == nil {
		return own
	}
	if own.String("entrypoint") == "" { // its definition was lost
		take(own, row, "entrypoint", "metadata", "runtime_env")
	}
	if !e.hasEnd() && Terminal(row.String("status")) {
		take(own, row, outcomeColumns...)
	}
	return own
}

// outcomeColumns say how a submission ended.
var outcomeColumns = []string{"status", "message", "error_type", "end_time", "driver_exit_code"}

// take sets columns of one row to those of another.
func take(to, from *pyjson.Object, columns ...string) {
	for _, c := range columns {
		to.Set(c, from.Get(c))
	}
}

// hasEnd says whether the submission's own events contain its end.
func (e *evidence) hasEnd() bool {
	if e == nil || e.own == nil || len(e.own.Transitions) == 0 {
		return false
	}
	return Terminal(e.own.Transitions[len(e.own.Transitions)-1].State)
}

// fromOthers makes a row without the submission's own events; nil if the submission did not exist at the requested moment.
func (b *builder) fromOthers(id string, e *evidence, facts logFacts) *pyjson.Object {
	out := b.outcome(id, e, facts)
	if b.r.At != 0 && out.started > b.r.At {
		return nil
	}
	row := newRow()
	row.Set("type", TypeSubmission)
	row.Set("submission_id", id)
	row.Set("status", out.status)
	row.Set("entrypoint", out.entrypoint)
	row.Set("message", out.message)
	row.Set("error_type", out.errorType)
	row.Set("start_time", moment.Milliseconds(out.started))
	if out.ended != 0 {
		row.Set("end_time", moment.Milliseconds(out.ended))
	}
	row.Set("metadata", pyjson.Obj())
	row.Set("runtime_env", pyjson.Obj())
	b.setDriver(row, b.drivers[id])
	if !out.node.Nil() {
		row.Set("driver_node_id", out.node.String())
		row.Set("driver_agent_http_address", b.agentAddress(out.node.String()))
	}
	row.Set("driver_exit_code", out.exitCode)
	return row
}

// setDriver sets the fields that come from a submission's driver.
func (b *builder) setDriver(row *pyjson.Object, j *entities.Job) {
	if j == nil {
		return
	}
	row.Set("job_id", j.ID.String())
	row.Set("driver_info", b.driverInfo(j))
	row.Set("runtime_env", parseRuntimeEnv(j.RuntimeEnv))
	metadata := map[string]string{}
	for k, v := range j.Metadata {
		if k != submissionKey && k != jobNameKey { // those two are Ray's own
			metadata[k] = v
		}
	}
	row.Set("metadata", metadata)
}

// agentAddress returns the address of the agent on a driver's node.
func (b *builder) agentAddress(node string) any {
	raylet := b.nodes.Node(node).Object("raylet")
	ip := raylet.String("nodeManagerAddress")
	if ip == "" {
		return nil
	}
	port := raylet.Int("dashboardAgentListenPort")
	port = cmp.Or(port, defaultAgentPort)
	return "http://" + ip + ":" + strconv.FormatInt(port, 10)
}

// fromOwnEvents makes a row from a submission's own events; nil if the submission did not exist at the requested moment.
func (b *builder) fromOwnEvents(s *entities.Submission) *pyjson.Object {
	row := newRow()
	row.Set("type", TypeSubmission)
	row.Set("submission_id", s.ID)
	row.Set("entrypoint", s.Entrypoint)
	row.Set("metadata", reply.StringMap(s.Metadata))
	row.Set("runtime_env", parseRuntimeEnv(s.RuntimeEnv))
	row.Set("status", moment.Pending)
	for i, t := range s.Transitions {
		if !b.past(t.Time) {
			if i == 0 {
				return nil
			}
			break
		}
		if i == 0 {
			row.Set("start_time", moment.Milliseconds(t.Time))
		}
		setTransition(row, t)
	}
	if j := b.drivers[s.ID]; j != nil {
		row.Set("job_id", j.ID.String())
		row.Set("driver_info", b.driverInfo(j))
	}
	return row
}

func setTransition(row *pyjson.Object, t entities.SubmissionTransition) {
	row.Set("status", t.State)
	row.Set("message", reply.Nullable(t.Message))
	row.Set("error_type", reply.Nullable(t.ErrorType))
	if Terminal(t.State) {
		row.Set("end_time", moment.Milliseconds(t.Time))
	}
	if !t.DriverNode.Nil() {
		row.Set("driver_node_id", t.DriverNode.String())
	}
	if t.AgentAddress != "" {
		row.Set("driver_agent_http_address", t.AgentAddress)
	}
	if t.HasExitCode {
		row.Set("driver_exit_code", t.ExitCode)
	}
}

// overlaySubmission sets in a submission's snapshot the state that events and logs show, if the snapshot does not show its end; row is nil if the
// submission did not exist at the requested moment.
func (b *builder) overlaySubmission(snapshot, row *pyjson.Object) *pyjson.Object {
	switch {
	case b.isFinal(snapshot) || row != nil && row.String("status") == snapshot.String("status"):
		return snapshot
	case row == nil && b.onlyInSnapshot(snapshot.String("submission_id")) && b.past(snapshot.Int("start_time")*int64(time.Millisecond)):
		return snapshot
	case row == nil:
		return nil
	}
	merged := snapshot.Clone()
	take(merged, row, outcomeColumns...)
	for _, c := range []string{"job_id", "driver_info", "driver_agent_http_address", "driver_node_id"} {
		if v := row.Get(c); v != nil && merged.Get(c) == nil {
			merged.Set(c, v)
		}
	}
	return merged
}

// isFinal says whether a snapshot's row needs no more evidence.
func (b *builder) isFinal(snapshot *pyjson.Object) bool {
	return Terminal(snapshot.String("status")) && b.believed
}

// onlyInSnapshot says whether a submission is known only from a snapshot.
func (b *builder) onlyInSnapshot(id string) bool {
	return b.evidence[id] == nil && b.drivers[id] == nil
}
