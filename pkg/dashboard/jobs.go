package dashboard

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

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
	b := jobBuilder{r: r, nodes: nodes, believed: believes(r, taken), drivers: map[string]*session.Job{}}
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
	if b.evidence, err = d.submissionEvidence(r); err != nil {
		return jobTable{}, err
	}
	var table jobTable
	known := map[string]bool{}
	for _, row := range snapshot {
		if row.String("type") != typeSubmission {
			continue
		}
		known[row.String("submission_id")] = true
		row, existed, err := b.overlaySubmission(r.Context(), row)
		if err != nil {
			return jobTable{}, err
		}
		if existed {
			table.rows = append(table.rows, row)
		}
	}
	for _, id := range b.submissionIDs() {
		if known[id] {
			continue
		}
		row, existed, err := b.newSubmission(r.Context(), id)
		if err != nil {
			return jobTable{}, err
		}
		if existed {
			table.rows = append(table.rows, row)
		}
	}
	byID := map[string]*pyjson.Object{}
	for _, row := range snapshot {
		if row.String("type") == typeDriver {
			byID[row.String("job_id")] = row
		}
	}
	for _, j := range plain {
		table.rows = append(table.rows, b.driver(j, byID[j.ID.String()]))
		delete(byID, j.ID.String())
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		row := byID[id]
		if known, err := rayid.Parse[rayid.Job](id); err == nil && r.Session.Job(known) != nil {
			continue // events know it, and that it was not there yet
		}
		if r.At == 0 || row.Int("start_time") <= toMs(r.At) {
			table.rows = append(table.rows, row)
		}
	}
	return table, nil
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
	r        *Request
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
	rows := table.rows
	if rows == nil {
		rows = []*pyjson.Object{}
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
	writeJSON(w, http.StatusOK, row)
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

// overlaySubmission gives a submission's snapshot the state that events and logs tell, if the snapshot does not show its end.
func (b *jobBuilder) overlaySubmission(ctx context.Context, snapshot *pyjson.Object) (*pyjson.Object, bool, error) {
	if terminal(snapshot.String("status")) && b.believed {
		return snapshot, true, nil
	}
	id := snapshot.String("submission_id")
	if b.evidence[id] == nil && b.drivers[id] == nil {
		return snapshot, b.r.At == 0 || snapshot.Int("start_time") <= toMs(b.r.At), nil
	}
	row, existed, err := b.newSubmission(ctx, id)
	if err != nil || !existed {
		return nil, false, err
	}
	if row.String("status") == snapshot.String("status") {
		return snapshot, true, nil
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
	return merged, true, nil
}
