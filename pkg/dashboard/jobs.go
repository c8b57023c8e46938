package dashboard

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Jobs are submissions, and drivers without a submission (ray/dashboard/modules/job).

// shownJob is a job with what makes its row.
type shownJob struct {
	*moment.Job
	nodes moment.Nodes
}

// isSubmission says whether the job is a submission, not a driver without one.
func (j *shownJob) isSubmission() bool { return j.SubmissionID != "" }

// jobFields are a job's fields as JobDetails has them; jobColumns are those of the short list, in its order.
var (
	jobFields = []field[shownJob]{
		{filterable("type"), func(j *shownJob) any {
			if j.isSubmission() {
				return "SUBMISSION"
			}
			return "DRIVER"
		}, keepsSaved},
		{filterable("job_id"), func(j *shownJob) any { return orNone(j.ID) }, fillsNull},
		{filterable("submission_id"), func(j *shownJob) any { return orNone(j.SubmissionID) }, keepsSaved},
		{shownOnly("driver_info"), func(j *shownJob) any {
			d := j.Driver
			if d == nil {
				return nil
			}
			return pyjson.Obj("id", d.ID.String(), "node_ip_address", j.nodes.IP(d.DriverNode.String()), "pid",
				numberString(d.DriverPID))
		}, fillsNull},
		{filterable("status"), func(j *shownJob) any { return j.Status }, followsEvents},
		{shownOnly("entrypoint"), func(j *shownJob) any {
			if j.isSubmission() {
				return orNone(j.Entrypoint)
			}
			return j.Entrypoint
		}, keepsSaved},
		{shownOnly("message"), func(j *shownJob) any { return orNone(j.Message) }, followsEvents},
		{shownOnly("error_type"), func(j *shownJob) any { return orNone(j.ErrorType) }, followsEvents},
		{shownOnly("start_time"), func(j *shownJob) any { return moment.Milliseconds(j.Start) }, keepsSaved},
		{shownOnly("end_time"), func(j *shownJob) any {
			if j.End == 0 && j.isSubmission() { // of a driver Ray writes 0
				return nil
			}
			return moment.Milliseconds(j.End)
		}, followsEvents},
		{shownOnly("metadata"), func(j *shownJob) any { return orEmpty(j.Metadata) }, keepsSaved},
		{shownOnly("runtime_env"), func(j *shownJob) any {
			if env, err := pyjson.ParseObject([]byte(j.RuntimeEnv)); err == nil {
				return env
			}
			return pyjson.Obj()
		}, keepsSaved},
		{shownOnly("driver_agent_http_address"), func(j *shownJob) any { return orNone(j.AgentAddress) }, fillsNull},
		{shownOnly("driver_node_id"), func(j *shownJob) any { return orNone(rayid.Hex(j.Node)) }, fillsNull},
		{shownOnly("driver_exit_code"), func(j *shownJob) any { return j.ExitCode }, followsEvents},
	}
	jobColumns = []column{
		filterable("job_id").orNull(), filterable("submission_id").orNull(), shownOnly("entrypoint"),
		filterable("type"),
		filterable("status"), shownOnly("message"), shownOnly("error_type"), shownOnly("driver_info"),
	}
)

// driverFields are those of a driver without a submission: its saved row is complete.
var driverFields = func() []field[shownJob] {
	fields := slices.Clone(jobFields)
	for i := range fields {
		if fields[i].use == fillsNull {
			fields[i].use = keepsSaved
		}
	}
	return fields
}()

// readJobs returns the rows of jobs as /api/jobs/ shows them: of all jobs if id is "", otherwise of the one with this
// ID of a driver or submission; none if there is no such job.
func readJobs(r *Request, id string) (rows []*pyjson.Object, err error) {
	jobs, err := r.Jobs(r.Context())
	if err != nil {
		return nil, err
	}
	nodes, err := r.Nodes(r.Context())
	if err != nil {
		return nil, err
	}
	if id != "" {
		one := moment.FindJob(jobs, id)
		if jobs = nil; one != nil {
			jobs = []moment.Job{*one}
		}
	}
	for i := range jobs {
		j := &shownJob{&jobs[i], nodes}
		rows = append(rows, j.row())
	}
	return rows, nil
}

// row is the job's row: the saved one with what events have changed, or a new one.
func (j *shownJob) row() *pyjson.Object {
	if !j.isSubmission() {
		return rowOf(driverFields, j, j.Saved, j.Newer)
	}
	saved := j.Saved
	if saved != nil && saved.String("job_id") != j.ID { // it has another of the submission's drivers
		saved = saved.Clone()
		saved.SetAll("job_id", nil, "driver_info", nil)
	}
	return rowOf(jobFields, j, saved, j.Newer)
}

// answerJobs is /api/jobs/ (list_jobs in ray/dashboard/modules/job/job_head.py) and /api/jobs/{job_or_submission_id}.
func answerJobs(w http.ResponseWriter, r *Request) error {
	id := r.PathValue("job_or_submission_id")
	rows, err := readJobs(r, id)
	if err != nil {
		return err
	}
	switch rows = nameLogNodes(r, rows); {
	case id == "":
		return writeMasked(w, r, rows)
	case len(rows) == 0:
		return writeText(w, http.StatusNotFound, "Job "+id+" does not exist")
	}
	return writeMasked(w, r, rows[0])
}

// nameLogNodes replaces, for browsers, the rows of submissions that never had a driver by rows that name, as the
// driver's node, the node that has the submission's log. Ray sends null; then its frontend shows "Failed to load" and
// does not request the log, which says why the submission failed.
func nameLogNodes(r *Request, rows []*pyjson.Object) []*pyjson.Object {
	if !FromBrowser(r.Request) {
		return rows
	}
	logs := r.LogNames().Jobs
	for i, row := range rows {
		node, stored := logs[row.String("submission_id")]
		if stored && row.String("type") == "SUBMISSION" && row.Get("driver_node_id") == nil {
			rows[i] = row.Clone()
			rows[i].Set("driver_node_id", node.String())
		}
	}
	return rows
}

// jobRows returns the rows of the State API's jobs (list_jobs in ray/dashboard/state_aggregator.py).
func jobRows(r *Request) (rowSet, error) {
	const allJobs = ""
	rows, err := readJobs(r, allJobs)
	return rowSet{rows: rows, columns: jobColumns, detailColumns: columnsOf(jobFields), partialFailure: ""}, err
}

// componentActivities is /api/component_activities (ray/dashboard/modules/job/job_head.py): whether a driver ran at the
// requested moment, and when the last one ended. The saved answer is sent if no driver began or ended after it.
func componentActivities(w http.ResponseWriter, r *Request) error {
	value, taken, err := r.Saved(r.Context(), "/api/component_activities")
	if err != nil {
		return err
	}
	active, last, changed := 0, int64(0), int64(0)
	for i := range r.Session.Jobs {
		state, existed := moment.DriverAt(&r.Session.Jobs[i], r.At)
		changed = max(changed, state.Started, state.Ended)
		switch {
		case !existed:
		case state.Ended == 0:
			active++
		default:
			last = max(last, state.Ended)
		}
	}
	// A driver that began and ended between two answers that the collector asked for is in none that it stored.
	if o, ok := value.(*pyjson.Object); ok && r.InTime(taken) && taken >= changed {
		return writeJSON(w, http.StatusOK, o)
	}
	driver := pyjson.Obj("is_active", "INACTIVE", "reason", nil, "timestamp",
		moment.Seconds(cmp.Or(r.At, r.Session.End)), "last_activity_at", nil)
	if active > 0 {
		driver.Set("is_active", "ACTIVE")
		driver.Set("reason", "Number of active drivers: "+numberString(active))
	}
	if last != 0 {
		driver.Set("last_activity_at", moment.Seconds(last))
	}
	return writeJSON(w, http.StatusOK, pyjson.Obj("driver", driver))
}
