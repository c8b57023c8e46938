// Package jobs answers requests about jobs (ray/dashboard/modules/job): submissions, and drivers without a submission.
package jobs

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Names of a submission in its driver's metadata (ray/dashboard/modules/job/common.py).
const (
	submissionKey = "job_submission_id"
	jobNameKey    = "job_name"
)

const (
	TypeSubmission = "SUBMISSION"
	typeDriver     = "DRIVER"

	running   = "RUNNING"
	succeeded = "SUCCEEDED"
	failed    = "FAILED"
	stopped   = "STOPPED"
)

// Terminal says whether a job in this status has ended.
func Terminal(status string) bool {
	return status == succeeded || status == failed || status == stopped
}

// Table holds all jobs at one moment, as /api/jobs/ shows them: submissions first, then drivers without a submission.
type Table struct {
	Rows []*pyjson.Object
}

// Find looks up a job as Ray does: by a driver's ID, the ID of a submission's driver, or a submission's ID (find_job_by_ids in
// ray/dashboard/modules/job/utils.py).
func (t Table) Find(id string) *pyjson.Object {
	for _, key := range []string{"job_id", "submission_id"} {
		if i := slices.IndexFunc(t.Rows, func(row *pyjson.Object) bool { return row.String(key) == id }); i >= 0 {
			return t.Rows[i]
		}
	}
	return nil
}

// Read puts jobs together from the last snapshot and the events.
func Read(r *request.Request) (Table, error) {
	snapshot, taken, err := savedJobs(r)
	if err != nil {
		return Table{}, err
	}
	nodes, err := summary.Read(r)
	if err != nil {
		return Table{}, err
	}
	b := builder{r: r, nodes: nodes, believed: r.Believes(taken), drivers: map[string]*entities.Job{}}
	if b.zone, err = r.Zone(r.Context()); err != nil {
		return Table{}, err
	}
	if b.evidence, err = evidenceOf(r); err != nil {
		return Table{}, err
	}
	var plain []*entities.Job
	for i := range r.Session.Jobs {
		j := &r.Session.Jobs[i]
		if _, existed := moment.DriverAt(j, r.At); !existed {
			continue
		}
		if submission := j.Metadata[submissionKey]; submission != "" {
			b.drivers[submission] = j // the last driver of a submission is the one Ray shows
		} else {
			plain = append(plain, j)
		}
	}
	rows, err := b.submissions(r.Context(), snapshot)
	if err != nil {
		return Table{}, err
	}
	return Table{append(rows, b.plainDrivers(plain, snapshot)...)}, nil
}

// submissions makes the rows of all submissions, those of the snapshot first, in its order.
func (b *builder) submissions(ctx context.Context, snapshot []*pyjson.Object) ([]*pyjson.Object, error) {
	var open []string
	known := map[string]bool{}
	for _, row := range snapshot {
		if row.String("type") == TypeSubmission {
			id := row.String("submission_id")
			known[id] = true
			if !b.isFinal(row) && !b.onlyInSnapshot(id) {
				open = append(open, id)
			}
		}
	}
	var more []string
	for _, id := range b.submissionIDs() {
		if !known[id] {
			more = append(more, id)
		}
	}
	made, err := b.newSubmissions(ctx, append(open, more...))
	if err != nil {
		return nil, err
	}
	var rows []*pyjson.Object
	add := func(row *pyjson.Object) {
		if row != nil {
			rows = append(rows, row)
		}
	}
	for _, row := range snapshot {
		if row.String("type") == TypeSubmission {
			add(b.overlaySubmission(row, made[row.String("submission_id")]))
		}
	}
	for _, id := range more {
		add(made[id])
	}
	return rows, nil
}

// plainDrivers makes the rows of the drivers without a submission.
func (b *builder) plainDrivers(jobs []*entities.Job, snapshot []*pyjson.Object) []*pyjson.Object {
	var rows []*pyjson.Object
	byID := map[string]*pyjson.Object{}
	for _, row := range snapshot {
		if row.String("type") == typeDriver {
			byID[row.String("job_id")] = row
		}
	}
	for _, j := range jobs {
		rows = append(rows, b.driver(j, byID[j.ID.String()]))
		delete(byID, j.ID.String())
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		row := byID[id]
		if known, err := rayid.Parse[rayid.Job](id); err == nil && b.r.Session.Job(known) != nil {
			continue // events know the job: it did not exist yet
		}
		if b.past(row.Int("start_time") * int64(time.Millisecond)) {
			rows = append(rows, row)
		}
	}
	return rows
}

// savedJobs returns the rows of the last snapshot of jobs: /api/jobs/, or the State API's list, which has the same columns.
func savedJobs(r *request.Request) ([]*pyjson.Object, int64, error) {
	value, taken, err := r.Saved(r.Context(), "/api/jobs/")
	if err != nil {
		return nil, 0, err
	}
	list, ok := value.([]any)
	if !ok {
		var result *pyjson.Object
		if result, taken, err = r.SavedList(r.Context(), "/api/v0/jobs"); err != nil {
			return nil, 0, err
		}
		list = result.List("result")
	}
	var rows []*pyjson.Object
	for _, v := range list {
		if row, ok := v.(*pyjson.Object); ok {
			rows = append(rows, row)
		}
	}
	return rows, taken, nil
}

// builder makes rows of jobs.
type builder struct {
	r        *request.Request
	zone     *time.Location // the cluster's
	nodes    summary.Nodes
	believed bool                     // a snapshot that shows an end is trusted
	drivers  map[string]*entities.Job // of submissions, by submission ID
	evidence map[string]*evidence
}

// driver makes the row of a driver without a submission; snapshot is nil if there is none.
func (b *builder) driver(j *entities.Job, snapshot *pyjson.Object) *pyjson.Object {
	state, _ := moment.DriverAt(j, b.r.At)
	status := running
	var ended any = 0
	if state.Ended != 0 {
		status, ended = succeeded, moment.Milliseconds(state.Ended) // Ray has no other end of a driver
	}
	if snapshot != nil {
		if was := snapshot.String("status"); was == status || Terminal(was) && b.believed {
			return snapshot
		}
		snapshot = snapshot.Clone()
		snapshot.Set("status", status)
		snapshot.Set("end_time", ended)
		return snapshot
	}
	row := newRow()
	row.Set("type", typeDriver)
	row.Set("job_id", j.ID.String())
	row.Set("driver_info", b.driverInfo(j))
	row.Set("status", status)
	row.Set("entrypoint", j.Entrypoint)
	row.Set("start_time", moment.Milliseconds(state.Started))
	row.Set("end_time", ended)
	row.Set("metadata", reply.StringMap(j.Metadata))
	row.Set("runtime_env", parseRuntimeEnv(j.RuntimeEnv))
	return row
}

// newRow is a row with all columns null.
func newRow() *pyjson.Object {
	row := &pyjson.Object{}
	for _, c := range detailColumns {
		row.Set(c.Name, nil)
	}
	return row
}

func (b *builder) driverInfo(j *entities.Job) *pyjson.Object {
	return pyjson.Obj("id", j.ID.String(), "node_ip_address", b.nodes.IP(j.DriverNode.String()), "pid", reply.NumberString(j.DriverPID))
}

// parseRuntimeEnv returns a serialized runtime environment as an object, empty if there is none.
func parseRuntimeEnv(serialized string) *pyjson.Object {
	if o, err := pyjson.ParseObject([]byte(serialized)); err == nil {
		return o
	}
	return pyjson.Obj()
}
