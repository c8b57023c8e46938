package dashboard

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Ray up to 2.60 sends no events of submissions. What became of one is put together from what it leaves behind: the events of its
// supervisor actor and its driver, the lines about it in events/event_JOBS.log, its supervisor's log and its own.

const (
	supervisorClass = "JobSupervisor"
	supervisorActor = "_ray_internal_job_actor_" // + submission ID is the supervisor's name
	// defaultAgentPort is Ray's dashboard agent's.
	defaultAgentPort = 52365
)

// submissionEvidence is what was found about one submission without reading its logs.
type submissionEvidence struct {
	told       *session.Submission // its own events, of a Ray that sends them
	supervisor *session.Actor
	started    int64 // Unix ns, from event_JOBS.log, which has whole seconds
	completed  int64
	status     string // that it completed with
}

// submissionEvidence collects what tells of submissions, by their IDs.
func (d *Dashboard) submissionEvidence(r *Request) (map[string]*submissionEvidence, error) {
	return d.derived.get(r.Session).submissions.get(func() (map[string]*submissionEvidence, error) {
		found := map[string]*submissionEvidence{}
		of := func(id string) *submissionEvidence {
			if found[id] == nil {
				found[id] = &submissionEvidence{}
			}
			return found[id]
		}
		for i := range r.Session.Submissions {
			s := &r.Session.Submissions[i]
			of(s.ID).told = s
		}
		for i := range r.Session.Actors {
			a := &r.Session.Actors[i]
			if id, ok := strings.CutPrefix(a.Name, supervisorActor); ok && a.Class == supervisorClass {
				of(id).supervisor = a
			}
		}
		for id := range d.logNames(r.Session).jobs {
			of(id)
		}
		whole := *r
		whole.At = 0
		events, err := d.clusterEvents(&whole)
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			if id := event.Object("custom_fields").String("submission_id"); event.String("source_type") == "JOBS" && id != "" {
				of(id).learn(event)
			}
		}
		return found, nil
	})
}

var completedLine = regexp.MustCompile(`^Completed a ray job .* with a status ([A-Z]+)`)

// learn takes what a line of event_JOBS.log says (JobManager in ray/dashboard/modules/job/job_manager.py).
func (e *submissionEvidence) learn(event *pyjson.Object) {
	at := event.Int("timestamp") * int64(time.Second)
	message := event.String("message")
	if strings.HasPrefix(message, "Started a ray job") {
		e.started = at
	} else if m := completedLine.FindStringSubmatch(message); m != nil {
		e.completed, e.status = at, m[1]
	}
}

// submissionIDs are all submissions that anything tells of, in order of their names.
func (b *jobBuilder) submissionIDs() []string {
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
	// maxLogsRead bounds for how many submissions one request reads logs: it costs some requests to the store each. The others are
	// shown by their events alone, the exit code and the fractions of seconds are missing.
	maxLogsRead = 500
	// logReaders is how many submissions' logs are read at a time.
	logReaders = 16
)

// newSubmissions makes rows of submissions from their evidence; those that were not there at the moment asked for have none.
func (b *jobBuilder) newSubmissions(ctx context.Context, ids []string) (map[string]*pyjson.Object, error) {
	rows := make([]*pyjson.Object, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(logReaders)
	for i, id := range ids {
		g.Go(func() (err error) {
			var facts jobFacts
			if i < maxLogsRead {
				if facts, err = b.d.jobFacts(ctx, b.r, id, b.zone); err != nil {
					return err
				}
			}
			rows[i] = b.newSubmission(id, facts)
			return nil
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

// newSubmission makes one row; nil if the submission was not there at the moment asked for.
func (b *jobBuilder) newSubmission(id string, facts jobFacts) *pyjson.Object {
	e := b.evidence[id]
	if e == nil {
		e = &submissionEvidence{}
	}
	if e.told != nil {
		return b.toldSubmission(e.told)
	}
	out := b.outcome(id, e, facts)
	if b.r.At != 0 && out.started > b.r.At {
		return nil
	}
	row := newJobRow()
	row.Set("type", typeSubmission)
	row.Set("submission_id", id)
	row.Set("status", out.status)
	row.Set("entrypoint", out.entrypoint)
	row.Set("message", out.message)
	row.Set("error_type", out.errorType)
	row.Set("start_time", toMs(out.started))
	if out.ended != 0 {
		row.Set("end_time", toMs(out.ended))
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

// setDriver writes what a submission's driver tells.
func (b *jobBuilder) setDriver(row *pyjson.Object, j *session.Job) {
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

// agentAddress is where the agent of a driver's node listened.
func (b *jobBuilder) agentAddress(node string) any {
	raylet := b.nodes.node(node).Object("raylet")
	ip := raylet.String("nodeManagerAddress")
	if ip == "" {
		return nil
	}
	port := raylet.Int("dashboardAgentListenPort")
	if port == 0 {
		port = defaultAgentPort
	}
	return "http://" + ip + ":" + strconv.FormatInt(port, 10)
}

// toldSubmission makes a row from a submission's own events; nil if it was not there at the moment asked for.
func (b *jobBuilder) toldSubmission(s *session.Submission) *pyjson.Object {
	row := newJobRow()
	row.Set("type", typeSubmission)
	row.Set("submission_id", s.ID)
	row.Set("entrypoint", s.Entrypoint)
	row.Set("metadata", stringMap(s.Metadata))
	row.Set("runtime_env", parseRuntimeEnv(s.RuntimeEnv))
	row.Set("status", pending)
	for i, t := range s.Transitions {
		if !b.past(t.Time) {
			if i == 0 {
				return nil
			}
			break
		}
		if i == 0 {
			row.Set("start_time", toMs(t.Time))
		}
		setTold(row, t)
	}
	if j := b.drivers[s.ID]; j != nil {
		row.Set("job_id", j.ID.String())
		row.Set("driver_info", b.driverInfo(j))
	}
	return row
}

func setTold(row *pyjson.Object, t session.SubmissionTransition) {
	row.Set("status", t.State)
	row.Set("message", nullable(t.Message))
	row.Set("error_type", nullable(t.ErrorType))
	if terminal(t.State) {
		row.Set("end_time", toMs(t.Time))
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

// overlaySubmission gives a submission's snapshot the state that events and logs tell, if the snapshot does not show its end; row is nil
// if it was not there at the moment asked for.
func (b *jobBuilder) overlaySubmission(snapshot, row *pyjson.Object) *pyjson.Object {
	switch {
	case b.settled(snapshot) || row != nil && row.String("status") == snapshot.String("status"):
		return snapshot
	case row == nil && b.unheardOf(snapshot.String("submission_id")) && b.past(snapshot.Int("start_time")*int64(time.Millisecond)):
		return snapshot
	case row == nil:
		return nil
	}
	merged := snapshot.Clone()
	for _, c := range []string{"status", "message", "error_type", "end_time", "driver_exit_code"} {
		merged.Set(c, row.Get(c))
	}
	for _, c := range []string{"job_id", "driver_info", "driver_agent_http_address", "driver_node_id"} {
		if v := row.Get(c); v != nil && merged.Get(c) == nil {
			merged.Set(c, v)
		}
	}
	return merged
}

// settled says whether a snapshot's row needs no more evidence.
func (b *jobBuilder) settled(snapshot *pyjson.Object) bool {
	return terminal(snapshot.String("status")) && b.believed
}

// unheardOf says whether nothing but a snapshot tells of a submission.
func (b *jobBuilder) unheardOf(id string) bool { return b.evidence[id] == nil && b.drivers[id] == nil }
