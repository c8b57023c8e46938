package dashboard

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Names of a submission in its driver's metadata (ray/dashboard/modules/job/common.py).
const (
	submissionKey = "job_submission_id"
	jobNameKey    = "job_name"
)

const (
	typeSubmission = "SUBMISSION"
	typeDriver     = "DRIVER"

	pending   = "PENDING"
	running   = "RUNNING"
	succeeded = "SUCCEEDED"
	failed    = "FAILED"
	stopped   = "STOPPED"
	finished  = "FINISHED" // a driver job's event
)

func terminal(status string) bool {
	return status == succeeded || status == failed || status == stopped
}

// driverState is what events tell of a driver at one moment.
type driverState struct {
	started, ended int64 // Unix ns, 0: not yet
}

func driverAt(j *session.Job, at int64) (s driverState, existed bool) {
	for i, t := range j.Transitions {
		if at != 0 && t.Time > at {
			return s, i > 0
		}
		if s.started == 0 {
			s.started = t.Time
		}
		if t.State == finished {
			s.ended = t.Time
		}
	}
	return s, true
}

// jobTable is all jobs at one moment, as /api/jobs/ shows them: submissions first, then drivers that nobody submitted.
type jobTable struct {
	rows []*pyjson.Object
}

// find looks a job up as Ray does: a driver's ID, the ID of a submission's driver, a submission's ID
// (find_job_by_ids in ray/dashboard/modules/job/utils.py).
func (t jobTable) find(id string) *pyjson.Object {
	for _, key := range []string{"job_id", "submission_id"} {
		if i := slices.IndexFunc(t.rows, func(row *pyjson.Object) bool { return row.String(key) == id }); i >= 0 {
			return t.rows[i]
		}
	}
	return nil
}

// jobTable puts jobs together from the last snapshot and the events.
func (d *Dashboard) jobTable(r *Request) (jobTable, error) {
	snapshot, taken, err := d.savedJobs(r)
	if err != nil {
		return jobTable{}, err
	}
	nodes, err := d.summaries(r)
	if err != nil {
		return jobTable{}, err
	}
	b := jobBuilder{d: d, r: r, nodes: nodes, believed: believes(r, taken), drivers: map[string]*session.Job{}}
	if b.zone, err = clusterZone(r); err != nil {
		return jobTable{}, err
	}
	if b.evidence, err = d.submissionEvidence(r); err != nil {
		return jobTable{}, err
	}
	var plain []*session.Job
	for i := range r.Session.Jobs {
		j := &r.Session.Jobs[i]
		if _, existed := driverAt(j, r.At); !existed {
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
		return jobTable{}, err
	}
	return jobTable{append(rows, b.plainDrivers(plain, snapshot)...)}, nil
}

// submissions makes the rows of all submissions, those of the snapshot first, in its order.
func (b *jobBuilder) submissions(ctx context.Context, snapshot []*pyjson.Object) ([]*pyjson.Object, error) {
	var open []string
	known := map[string]bool{}
	for _, row := range snapshot {
		if row.String("type") == typeSubmission {
			id := row.String("submission_id")
			known[id] = true
			if !b.settled(row) && !b.unheardOf(id) {
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
		if row.String("type") == typeSubmission {
			add(b.overlaySubmission(row, made[row.String("submission_id")]))
		}
	}
	for _, id := range more {
		add(made[id])
	}
	return rows, nil
}

// plainDrivers makes the rows of the drivers that nobody submitted.
func (b *jobBuilder) plainDrivers(jobs []*session.Job, snapshot []*pyjson.Object) []*pyjson.Object {
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
			continue // events know it, and that it was not there yet
		}
		if b.past(row.Int("start_time") * int64(time.Millisecond)) {
			rows = append(rows, row)
		}
	}
	return rows
}

// savedJobs gives the rows of the last snapshot of jobs: /api/jobs/, or the State API's list, which has the same columns.
func (d *Dashboard) savedJobs(r *Request) ([]*pyjson.Object, int64, error) {
	value, taken, err := saved(r, "/api/jobs/")
	if err != nil {
		return nil, 0, err
	}
	list, ok := value.([]any)
	if !ok {
		var result *pyjson.Object
		if result, taken, err = savedList(r, "/api/v0/jobs"); err != nil {
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

// jobBuilder makes rows of jobs.
type jobBuilder struct {
	d        *Dashboard
	r        *Request
	zone     *time.Location // the cluster's
	nodes    nodeSummaries
	believed bool                    // a snapshot that shows an end is to be believed
	drivers  map[string]*session.Job // of submissions, by submission ID
	evidence map[string]*submissionEvidence
}

// driver makes the row of a driver that nobody submitted; snapshot is nil if there is none.
func (b *jobBuilder) driver(j *session.Job, snapshot *pyjson.Object) *pyjson.Object {
	state, _ := driverAt(j, b.r.At)
	status := running
	var ended any = 0
	if state.ended != 0 {
		status, ended = succeeded, toMs(state.ended) // Ray knows no other end of a driver
	}
	if snapshot != nil {
		if was := snapshot.String("status"); was == status || terminal(was) && b.believed {
			return snapshot
		}
		snapshot = snapshot.Clone()
		snapshot.Set("status", status)
		snapshot.Set("end_time", ended)
		return snapshot
	}
	row := newJobRow()
	row.Set("type", typeDriver)
	row.Set("job_id", j.ID.String())
	row.Set("driver_info", b.driverInfo(j))
	row.Set("status", status)
	row.Set("entrypoint", j.Entrypoint)
	row.Set("start_time", toMs(state.started))
	row.Set("end_time", ended)
	row.Set("metadata", stringMap(j.Metadata))
	row.Set("runtime_env", parseRuntimeEnv(j.RuntimeEnv))
	return row
}

// newJobRow is a row with all columns null.
func newJobRow() *pyjson.Object {
	row := &pyjson.Object{}
	for _, c := range jobDetailColumns {
		row.Set(c.name, nil)
	}
	return row
}

func (b *jobBuilder) driverInfo(j *session.Job) *pyjson.Object {
	return pyjson.Obj("id", j.ID.String(), "node_ip_address", b.nodes.ip(j.DriverNode.String()), "pid", pyString(j.DriverPID))
}

// parseRuntimeEnv gives a serialized runtime environment as an object, empty if there is none.
func parseRuntimeEnv(serialized string) *pyjson.Object {
	if o, err := pyjson.ParseObject([]byte(serialized)); err == nil {
		return o
	}
	return pyjson.Obj()
}

// jobs is /api/jobs/ (list_jobs in ray/dashboard/modules/job/job_head.py).
func (d *Dashboard) jobs(w http.ResponseWriter, r *Request) error {
	table, err := d.jobTable(r)
	if err != nil {
		return err
	}
	rows, err := redactRows(r, table.rows)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, rows)
	return nil
}

// job is /api/jobs/{job_or_submission_id}.
func (d *Dashboard) job(w http.ResponseWriter, r *Request) error {
	table, err := d.jobTable(r)
	if err != nil {
		return err
	}
	row := table.find(r.Params["job_or_submission_id"])
	if row == nil {
		writeText(w, http.StatusNotFound, "Job "+r.Params["job_or_submission_id"]+" does not exist")
		return nil
	}
	shown, err := redactRows(r, []*pyjson.Object{row})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, shown[0])
	return nil
}

// jobRows gives the rows of the State API's jobs (list_jobs in ray/dashboard/state_aggregator.py).
func (d *Dashboard) jobRows(r *Request) (rowSet, error) {
	table, err := d.jobTable(r)
	if err != nil {
		return rowSet{}, err
	}
	return rowSet{
		rows: table.rows, partialFailure: "", detailColumns: jobDetailColumns,
		compare: func(a, b *pyjson.Object) int { return strings.Compare(a.String("job_id"), b.String("job_id")) },
	}, nil
}

// componentActivities is /api/component_activities (ray/dashboard/modules/job/job_head.py): whether a driver was running at the end.
func (d *Dashboard) componentActivities(w http.ResponseWriter, r *Request) error {
	value, taken, err := saved(r, "/api/component_activities")
	if err != nil {
		return err
	}
	if o, ok := value.(*pyjson.Object); ok && believes(r, taken) {
		writeJSON(w, http.StatusOK, o)
		return nil
	}
	active, last := 0, int64(0)
	for i := range r.Session.Jobs {
		switch state, existed := driverAt(&r.Session.Jobs[i], r.At); {
		case !existed:
		case state.ended == 0:
			active++
		default:
			last = max(last, state.ended)
		}
	}
	driver := pyjson.Obj("is_active", "INACTIVE", "reason", nil, "timestamp", seconds(cmp.Or(r.At, r.Session.End)), "last_activity_at", nil)
	if active > 0 {
		driver.Set("is_active", "ACTIVE")
		driver.Set("reason", "Number of active drivers: "+pyString(active))
	}
	if last != 0 {
		driver.Set("last_activity_at", seconds(last))
	}
	writeJSON(w, http.StatusOK, pyjson.Obj("driver", driver))
	return nil
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
