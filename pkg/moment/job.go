package moment

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
)

// RayMetadata reports whether a name in a job's metadata is Ray's own.
func RayMetadata(name string) bool { return name == entities.SubmissionKey || name == "job_name" }

// Job is a submission with its driver, or a driver without a submission, at one moment. Texts are "" if they are not
// known.
type Job struct {
	ID           string // of the driver, hex; "" if a submission had none
	SubmissionID string // "" for a driver without a submission
	Entrypoint   string
	Status       string // one of jobstatus
	Message      string
	ErrorType    string
	ExitCode     any               // of the driver, a number; nil: not known
	Start, End   int64             // Unix ns, whole milliseconds; 0: not known, or not yet
	Node         rayid.Node        // of the driver
	AgentAddress string            // of the agent on that node
	Metadata     map[string]string // without Ray's own names
	RuntimeEnv   string            // serialized, JSON
	Driver       *entities.Job     // its driver's events; nil: there are none
	// Earlier are the drivers that the submission had before this one: an entrypoint may run several programs that
	// connect to Ray, one after the other.
	Earlier []*entities.Job
	// Saved is its row in the dashboard's list of jobs; nil: there is none. Newer says that the outcome is not the
	// row's: see Stored.
	Saved *pyjson.Object
	Newer bool
}

// copyEnd copies from another job how it ended: status, message, error, exit code and time.
func (j *Job) copyEnd(o *Job) {
	j.Status, j.Message, j.ErrorType, j.ExitCode, j.End = o.Status, o.Message, o.ErrorType, o.ExitCode, o.End
}

// setDrivers gives a submission its drivers, in the order of their IDs. The last one is the job's own, as Ray shows it.
// A saved row may name a later driver of which there are no events: then that one stays.
func (j *Job) setDrivers(drivers []*entities.Job) {
	n := len(drivers)
	if n > 0 && drivers[n-1].ID.String() >= j.ID {
		n--
		j.ID, j.Driver = drivers[n].ID.String(), drivers[n]
	}
	j.Earlier = drivers[:n]
}

// DrivenBy reports whether an ID (hex) is that of one of the job's drivers.
func (j *Job) DrivenBy(id string) bool {
	return id != "" && (id == j.ID || slices.ContainsFunc(j.Earlier,
		func(d *entities.Job) bool { return d.ID.String() == id }))
}

// Drivers returns the IDs (hex) of the job's drivers: the last one, which is the job's own, and then the earlier ones.
func (j *Job) Drivers() (ids []string) {
	if j.ID != "" {
		ids = append(ids, j.ID)
	}
	for _, d := range j.Earlier {
		ids = append(ids, d.ID.String())
	}
	return ids
}

// FindJob looks up a job as Ray does (find_job_by_ids in ray/dashboard/modules/job/utils.py): by the ID of a driver, in
// hex, or by a submission's ID. A submission that is found by an earlier driver is returned as a copy with that driver.
// The result is nil if no job has the ID.
func FindJob(jobs []Job, id string) *Job {
	if id == "" {
		return nil
	}
	for i := range jobs {
		if jobs[i].ID == id {
			return &jobs[i]
		}
	}
	var submitted *Job
	for i := range jobs {
		for _, d := range jobs[i].Earlier {
			if d.ID.String() == id {
				found := jobs[i]
				found.ID, found.Driver = id, d
				return &found
			}
		}
		if submitted == nil && jobs[i].SubmissionID == id {
			submitted = &jobs[i]
		}
	}
	return submitted
}

// Jobs returns the jobs that existed at the moment, as /api/jobs/ lists them: submissions first, then drivers without a
// submission. Ray up to 2.60 sends no events of submissions: see submission.go.
func (m *Moment) Jobs(ctx context.Context) ([]Job, error) {
	snapshot, taken, err := m.savedJobs(ctx)
	if err != nil {
		return nil, err
	}
	b := jobBuilder{m: m, taken: taken, drivers: map[string][]*entities.Job{}, laterDriver: map[string]bool{}}
	if b.nodes, err = m.Nodes(ctx); err != nil {
		return nil, err
	}
	if b.zone, err = m.Zone(ctx); err != nil {
		return nil, err
	}
	if b.evidence, err = m.jobEvidence(ctx); err != nil {
		return nil, err
	}
	for i := range m.Session.Jobs {
		j := &m.Session.Jobs[i]
		id := j.Submission()
		if id == "" {
			continue
		}
		if _, existed := DriverAt(j, m.At); existed {
			b.drivers[id] = append(b.drivers[id], j)
		} else {
			b.laterDriver[id] = true
		}
	}
	b.runs = m.At == AtEnd && m.Runs(ctx)
	jobs, err := b.submissions(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	return append(jobs, b.plainDrivers(snapshot)...), nil
}

// savedJobs returns the rows of the last snapshot of jobs, and when it was taken (Unix ns; 0: not known): of
// /api/jobs/, or else of the State API's list, which has the same columns. A job that only an earlier snapshot lists
// follows as it was then: it was deleted, or the GCS began anew without it.
func (m *Moment) savedJobs(ctx context.Context) ([]*pyjson.Object, int64, error) {
	value, taken, err := m.Saved(ctx, jobsURL)
	if err != nil {
		return nil, 0, err
	}
	if list, ok := value.([]any); ok {
		rows := addJobs(nil, list)
		for _, snap := range m.Session.Snapshots.Dropped(jobsURL, m.At, layout.JobBytes, maxDropped) {
			if len(rows) == maxRows {
				break
			}
			earlier, err := m.Session.Snapshots.Value(ctx, snap)
			if err != nil && !errors.Is(err, snapshots.ErrMalformed) {
				return nil, 0, err
			}
			list, _ := earlier.([]any)
			rows = addJobs(rows, list)
		}
		return rows, taken, nil
	}
	result, taken, err := m.SavedList(ctx, "/api/v0/jobs")
	return addJobs(nil, result.List("result")), taken, err
}

const jobsURL = "/api/jobs/"

// maxDropped is how many earlier snapshots are read for jobs that later ones lack.
const maxDropped = 4

// addJobs appends the rows of a list of jobs to rows, up to maxRows: one of each job that rows does not have yet.
func addJobs(rows []*pyjson.Object, list []any) []*pyjson.Object {
	type key struct{ submission, driver string } // a submission's own, or of a driver without one
	seen := map[key]bool{{}: true}               // a row without an ID is damage
	keyOf := func(row *pyjson.Object) key {
		if id := row.String("submission_id"); id != "" {
			return key{submission: id}
		}
		return key{driver: row.String("job_id")}
	}
	for _, row := range rows {
		seen[keyOf(row)] = true
	}
	for _, v := range list {
		if row, ok := v.(*pyjson.Object); ok && len(rows) < maxRows && !seen[keyOf(row)] {
			seen[keyOf(row)] = true
			rows = append(rows, row)
		}
	}
	return rows
}

// jobBuilder puts jobs together.
type jobBuilder struct {
	m           *Moment
	zone        *time.Location // the cluster's
	nodes       Nodes
	taken       int64                      // when the saved rows were saved
	drivers     map[string][]*entities.Job // of submissions, by submission ID, in their order
	laterDriver map[string]bool            // submissions of which another driver began after the moment
	runs        bool                       // the session runs, and the moment is now
	evidence    map[string]*evidence
}

func savedJob(row *pyjson.Object) Job {
	j := Job{
		ID: row.String("job_id"), SubmissionID: row.String("submission_id"), Entrypoint: row.String("entrypoint"),
		Saved:        row,
		AgentAddress: row.String("driver_agent_http_address"),
		Status:       row.String("status"), Message: row.String("message"), ErrorType: row.String("error_type"),
		ExitCode: row.Get("driver_exit_code"),
		Start:    TimeIn(row, "start_time", time.Millisecond), End: TimeIn(row, "end_time", time.Millisecond),
	}
	j.Node, _ = rayid.Parse[rayid.Node](row.String("driver_node_id")) // nil if it is not known
	return j
}

// plainDrivers returns the drivers without a submission: first those of which there are events, then those that only
// the saved list has, both by their IDs. snapshot are the rows of that list.
func (b *jobBuilder) plainDrivers(snapshot []*pyjson.Object) []Job {
	var plain []entities.Job
	for _, j := range b.m.Session.Jobs {
		if j.Submission() == "" {
			plain = append(plain, j)
		}
	}
	find := func(id string) *entities.Job { return findIn(id, b.m.Session.Job) }
	var rows []any
	for _, row := range snapshot {
		if j := find(row.String("job_id")); row.String("type") == "DRIVER" &&
			(j == nil || j.Submission() == "") {
			rows = append(rows, row)
		}
	}
	joined := join(b.m, kind[entities.Job, DriverState]{
		events:    plain,
		id:        func(j *entities.Job) string { return j.ID.String() },
		eventsOf:  find,
		stateAt:   DriverAt,
		savedID:   func(row *pyjson.Object) string { return row.String("job_id") },
		began:     func(row *pyjson.Object) int64 { return TimeIn(row, "start_time", time.Millisecond) },
		ended:     func(row *pyjson.Object) bool { return jobstatus.Ended(row.String("status")) },
		sameState: func(row *pyjson.Object, s *DriverState) bool { return row.String("status") == s.status() },
		endedAt:   func(row *pyjson.Object) int64 { return TimeIn(row, "end_time", time.Millisecond) },
		unended:   func(*pyjson.Object) DriverState { return DriverState{} },
	}, rows, b.taken)
	slices.SortStableFunc(joined, func(x, y Stored[entities.Job, DriverState]) int { return cmp.Compare(x.ID, y.ID) })
	var jobs []Job
	for _, events := range []bool{true, false} {
		for _, k := range joined {
			if (k.Events != nil) == events {
				jobs = append(jobs, b.driver(k))
			}
		}
	}
	return jobs
}

// driver returns the job of a driver without a submission.
func (b *jobBuilder) driver(thing Stored[entities.Job, DriverState]) Job {
	j := Job{ID: thing.ID}
	if thing.Saved != nil {
		j = savedJob(thing.Saved)
	} else {
		j.Entrypoint, j.Start, j.Metadata, j.RuntimeEnv = thing.Events.Entrypoint, wholeMillis(thing.ByEvents.Started),
			thing.Events.Metadata, thing.Events.RuntimeEnv
	}
	if j.Driver, j.Newer = thing.Events, thing.Newer; thing.Newer { // the saved row shows a state of another time
		j.Status, j.End = thing.ByEvents.status(), wholeMillis(thing.ByEvents.Ended)
	}
	return j
}

// submissions returns the submissions that existed at the moment: those of the saved list in its order, then the others
// by their IDs. snapshot are the rows of that list.
func (b *jobBuilder) submissions(ctx context.Context, snapshot []*pyjson.Object) ([]Job, error) {
	var overridden []string // rows that events and logs may replace; whether they show another state is not known yet
	saved := map[string]bool{}
	for _, row := range snapshot {
		if row.String("type") == "SUBMISSION" {
			id := row.String("submission_id")
			saved[id] = true
			const same = false // as if events showed another state: whether they do is found out below
			if b.m.Overrides(b.taken, same, jobstatus.Ended(row.String("status"))) && !b.isOnlySaved(id) {
				overridden = append(overridden, id)
			}
		}
	}
	ids := maps.Clone(b.evidence)
	for id := range b.drivers {
		ids[id] = nil
	}
	maps.DeleteFunc(ids, func(id string, _ *evidence) bool { return saved[id] })
	unsaved := slices.Sorted(maps.Keys(ids))
	byEvents, err := b.jobsByEvents(ctx, append(overridden, unsaved...))
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for _, row := range snapshot {
		if row.String("type") == "SUBMISSION" {
			if j, existed := b.withEvents(savedJob(row), byEvents[row.String("submission_id")]); existed {
				jobs = append(jobs, j)
			}
		}
	}
	for _, id := range unsaved {
		if j := byEvents[id]; j != nil {
			jobs = append(jobs, *j)
		}
	}
	return jobs, nil
}

// withEvents completes j, a submission as its saved row has it, by byEvents, the same one as its events and logs have
// it. byEvents is nil if there are none, or if they show that it did not exist at the moment. existed reports whether
// it did.
func (b *jobBuilder) withEvents(j Job, byEvents *Job) (_ Job, existed bool) {
	drivers := b.drivers[j.SubmissionID]
	if (len(drivers) > 0 || b.laterDriver[j.SubmissionID]) && !b.m.InTime(b.taken) {
		j.ID = "" // it may be that of a driver that began after the moment
	}
	j.setDrivers(drivers)
	same := byEvents != nil && byEvents.Status == j.Status
	newer := b.m.Overrides(b.taken, same, jobstatus.Ended(j.Status))
	if byEvents == nil {
		if newer && !b.m.isPast(j.End) { // it ended after the moment
			j.Newer = true
			j.copyEnd(&Job{Status: jobstatus.Running, Message: statusMessages[jobstatus.Running]})
		}
		// A row that counts is of something that existed. One that does not count says when it began, unless events say
		// that it did not exist yet.
		return j, !newer || b.isOnlySaved(j.SubmissionID) && b.m.isPast(j.Start)
	}
	j.AgentAddress = cmp.Or(j.AgentAddress, byEvents.AgentAddress)
	if j.Node.Nil() {
		j.Node = byEvents.Node
	}
	if j.Newer = newer; newer {
		j.copyEnd(byEvents)
	}
	return j, true
}

// isOnlySaved reports whether a submission is known only from a snapshot.
func (b *jobBuilder) isOnlySaved(id string) bool {
	return b.evidence[id] == nil && b.drivers[id] == nil
}

// DriverState is the state of a driver at one moment, from events.
type DriverState struct {
	Started, Ended int64 // Unix ns, 0: not yet
}

// status returns the driver's state as the status of a job: Ray shows every driver that ended as one that succeeded.
func (s *DriverState) status() string {
	if s.Ended != 0 {
		return jobstatus.Succeeded
	}
	return jobstatus.Running
}

// DriverAt returns a driver's state at a moment (Unix nanoseconds; 0: the session's end), by its events, and whether it
// existed then: from its first transition on, or all the time if none is stored.
func DriverAt(j *entities.Job, at int64) (s DriverState, existed bool) {
	existed = len(j.Transitions) == 0
	for _, t := range j.Transitions {
		if at != 0 && t.Time > at {
			continue // not the last one: an end may have an earlier time than what was before it
		}
		existed = true
		s.Started = cmp.Or(s.Started, t.Time)
		if t.State == "FINISHED" {
			s.Ended = t.Time
		}
	}
	return s, existed
}
