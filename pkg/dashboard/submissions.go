package dashboard

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Ray up to 2.60 sends no events of submissions. What became of one is put together from what it leaves behind: the events of its
// supervisor actor and its driver, the lines about it in events/event_JOBS.log, its supervisor's log and its own.

const (
	supervisorClass  = "JobSupervisor"
	supervisorPrefix = "_ray_internal_job_actor_" // + submission ID is the supervisor's name
	jobLogPrefix     = "job-driver-"              // + submission ID + .log is the submission's own log
	jobLogSuffix     = ".log"
	// defaultAgentPort is Ray's dashboard agent's.
	defaultAgentPort = 52365
)

// submissionEvidence is everything found about one submission.
type submissionEvidence struct {
	told       *session.Submission // its own events, of a Ray that sends them
	supervisor *session.Actor
	started    int64 // Unix ns, from event_JOBS.log, which has whole seconds
	completed  int64
	status     string // that it completed with
	logNode    rayid.Node
	hasLog     bool
}

// submissionEvidence collects what tells of submissions, by their IDs.
func (d *Dashboard) submissionEvidence(r *Request) (map[string]*submissionEvidence, error) {
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
		if id, ok := strings.CutPrefix(a.Name, supervisorPrefix); ok && a.Class == supervisorClass {
			of(id).supervisor = a
		}
	}
	for _, node := range r.Session.Logs.Nodes() {
		for _, path := range r.Session.Logs.Paths(node) {
			if id, ok := strings.CutPrefix(path, jobLogPrefix); ok && strings.HasSuffix(id, jobLogSuffix) {
				e := of(strings.TrimSuffix(id, jobLogSuffix))
				e.logNode, e.hasLog = node, true
			}
		}
	}
	events, err := d.clusterEvents(r)
	if err != nil {
		return nil, err
	}
	for _, event := range events {
		if id := event.Object("custom_fields").String("submission_id"); event.String("source_type") == "JOBS" && id != "" {
			of(id).learn(event)
		}
	}
	return found, nil
}

var completedLine = regexp.MustCompile(`^Completed a ray job .* with a status ([A-Z]+)`)

// learn takes what a line of event_JOBS.log says (JobManager in ray/dashboard/modules/job/job_manager.py).
func (e *submissionEvidence) learn(event *pyjson.Object) {
	at := event.Int("timestamp") * int64(time.Second)
	switch message := event.String("message"); {
	case strings.HasPrefix(message, "Started a ray job"):
		e.started = at
	default:
		if m := completedLine.FindStringSubmatch(message); m != nil {
			e.completed, e.status = at, m[1]
		}
	}
}

// newSubmission makes the row of a submission from its evidence; existed says whether it was there at the moment asked for.
func (b *jobBuilder) newSubmission(ctx context.Context, id string) (row *pyjson.Object, existed bool, err error) {
	e := b.evidence[id]
	if e == nil {
		e = &submissionEvidence{}
	}
	if e.told != nil {
		row, existed = b.toldSubmission(e.told)
		return row, existed, nil
	}
	out, err := b.outcome(ctx, id, e)
	if err != nil || b.r.At != 0 && out.started > b.r.At {
		return nil, false, err
	}
	row = newJobRow()
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
	return row, true, nil
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

// toldSubmission makes a row from a submission's own events.
func (b *jobBuilder) toldSubmission(s *session.Submission) (*pyjson.Object, bool) {
	row := newJobRow()
	row.Set("type", typeSubmission)
	row.Set("submission_id", s.ID)
	row.Set("entrypoint", s.Entrypoint)
	row.Set("metadata", stringMap(s.Metadata))
	row.Set("runtime_env", parseRuntimeEnv(s.RuntimeEnv))
	row.Set("status", pending)
	for i, t := range s.Transitions {
		if b.r.At != 0 && t.Time > b.r.At {
			if i == 0 {
				return nil, false
			}
			break
		}
		if i == 0 {
			row.Set("start_time", toMs(t.Time))
		}
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
	if j := b.drivers[s.ID]; j != nil {
		row.Set("job_id", j.ID.String())
		row.Set("driver_info", b.driverInfo(j))
	}
	return row, true
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

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

// outcome weighs a submission's evidence.
func (b *jobBuilder) outcome(ctx context.Context, id string, e *submissionEvidence) (outcome, error) {
	o := outcome{status: pending, node: e.logNode, started: e.started}
	b.supervised(&o, e.supervisor)
	driverEnded := b.driven(&o, b.drivers[id])
	if err := b.readJobLog(ctx, id, e, &o); err != nil {
		return o, err
	}
	end, err := b.exitLine(ctx, id)
	if err != nil {
		return o, err
	}
	switch {
	case end.found && b.past(end.time):
		return o, b.exited(ctx, id, e, &o, end)
	case e.status != "" && b.past(e.completed):
		o.status = e.status
		if o.ended == 0 {
			o.ended = max(driverEnded, e.completed)
		}
	case driverEnded != 0:
		// Ray calls every driver that ended succeeded; nothing here says otherwise.
		o.status, o.ended, o.message = succeeded, driverEnded, "The driver ended; its exit code was not recorded."
		return o, nil
	case o.ended != 0:
		o.status, o.message = failed, "The job supervisor ended; how the job ended was not recorded."
		return o, nil
	}
	o.message = nullable(statusMessages[o.status])
	return o, nil
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

var (
	logTime       = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\t`)
	entrypoint    = regexp.MustCompile(`(?m)^Running entrypoint for job [^:]*: (.*)$`)
	exitedWith    = regexp.MustCompile(`entrypoint command exited with code (-?\d+)`)
	timestampNs   = regexp.MustCompile(`timestamp_ns=(\d+)`)
	jobHeadBytes  = int64(4 << 10) // of a job's log that tell its start and entrypoint
	failureLines  = 10             // of a job's log that Ray quotes when it failed
	failureLength = 20_000         // characters of them
)

// readJobLog takes start and entrypoint from the head of the job's log, which the job manager writes.
func (b *jobBuilder) readJobLog(ctx context.Context, id string, e *submissionEvidence, o *outcome) error {
	if !e.hasLog {
		return nil
	}
	f, err := b.r.Session.Logs.Open(ctx, e.logNode, jobLogPrefix+id+jobLogSuffix)
	if err != nil {
		return err
	}
	head, err := f.ReadRange(ctx, 0, jobHeadBytes)
	if err != nil {
		return err
	}
	if m := logTime.FindSubmatch(head); m != nil {
		zone, err := clusterZone(b.r)
		if err != nil {
			return err
		}
		if t, err := time.ParseInLocation("2006-01-02 15:04:05.000", string(m[1])+"."+string(m[2]), zone); err == nil {
			o.started = t.UnixNano()
		}
	}
	if m := entrypoint.FindSubmatch(head); m != nil && o.entrypoint == nil {
		o.entrypoint = string(m[1])
		if o.status == pending && b.past(o.started) {
			o.status = running
		}
	}
	return nil
}

// exit is what a supervisor's log says of its job's end.
type exit struct {
	found bool
	code  int
	time  int64 // Unix ns
}

// exitLine looks for the end in the supervisor's log (run in ray/dashboard/modules/job/job_supervisor.py).
func (b *jobBuilder) exitLine(ctx context.Context, id string) (exit, error) {
	path := "jobs/supervisor-" + id + ".log"
	for _, node := range b.r.Session.Logs.Nodes() {
		if !slices.Contains(b.r.Session.Logs.Paths(node), path) {
			continue
		}
		f, err := b.r.Session.Logs.Open(ctx, node, path)
		if err != nil {
			return exit{}, err
		}
		start, err := f.TailStart(ctx, f.Size(), 50)
		if err != nil {
			return exit{}, err
		}
		tail, err := f.ReadRange(ctx, start, f.Size())
		if err != nil {
			return exit{}, err
		}
		for line := range strings.SplitSeq(string(tail), "\n") {
			if m := exitedWith.FindStringSubmatch(line); m != nil {
				e := exit{found: true}
				e.code, _ = strconv.Atoi(m[1])
				if t := timestampNs.FindStringSubmatch(line); t != nil {
					e.time, _ = strconv.ParseInt(t[1], 10, 64)
				}
				return e, nil
			}
		}
	}
	return exit{}, nil
}

// exited completes the outcome of a job whose exit code is known, as the supervisor told it to Ray.
func (b *jobBuilder) exited(ctx context.Context, id string, e *submissionEvidence, o *outcome, x exit) error {
	o.exitCode, o.ended = x.code, x.time
	if x.code == 0 {
		o.status, o.message = succeeded, "Job finished successfully."
		return nil
	}
	o.status, o.errorType = failed, "JOB_ENTRYPOINT_COMMAND_ERROR"
	message := "Job entrypoint command failed with exit code " + strconv.Itoa(x.code)
	tail, err := b.logTail(ctx, id, e)
	if err != nil {
		return err
	}
	if tail == "" {
		o.message = message + ". No logs available."
	} else {
		o.message = message + ", last available logs (truncated to 20,000 chars):\n" + tail
	}
	return nil
}

func (b *jobBuilder) logTail(ctx context.Context, id string, e *submissionEvidence) (string, error) {
	if !e.hasLog {
		return "", nil
	}
	f, err := b.r.Session.Logs.Open(ctx, e.logNode, jobLogPrefix+id+jobLogSuffix)
	if err != nil {
		return "", err
	}
	start, err := f.TailStart(ctx, f.Size(), failureLines)
	if err != nil {
		return "", err
	}
	// A character takes at most four bytes.
	tail, err := f.ReadRange(ctx, max(start, f.Size()-4*int64(failureLength)), f.Size())
	if err != nil {
		return "", err
	}
	text := []rune(string(tail))
	return string(text[max(0, len(text)-failureLength):]), nil
}
