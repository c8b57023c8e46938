package jobs

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// typeSubmission is the type of a submission; the other type is DRIVER.
const typeSubmission = "SUBMISSION"

// Columns has the order of the short list; the full list has another order, see detailColumns.
var Columns = []state.Column{
	state.Filterable("job_id").Nullable(), state.Filterable("submission_id").Nullable(), state.Shown("entrypoint"), state.Filterable("type"),
	state.Filterable("status"), state.Shown("message"), state.Shown("error_type"), state.Shown("driver_info"),
}

// detailColumns are a job's fields as JobDetails has them.
var detailColumns = []state.Column{
	state.Filterable("type"), state.Filterable("job_id"), state.Filterable("submission_id"), state.Shown("driver_info"), state.Filterable("status"),
	state.Shown("entrypoint"), state.Shown("message"), state.Shown("error_type"), state.Shown("start_time"), state.Shown("end_time"), state.Shown("metadata"),
	state.Shown("runtime_env"), state.Shown("driver_agent_http_address"), state.Shown("driver_node_id"), state.Shown("driver_exit_code"),
}

// All is /api/jobs/ (list_jobs in ray/dashboard/modules/job/job_head.py).
func All(w http.ResponseWriter, r *request.Request) error {
	rows, err := read(r)
	if err != nil {
		return err
	}
	rows, err = request.RedactRows(r, withLogNodes(r, rows))
	if err != nil {
		return err
	}
	return reply.JSON(w, http.StatusOK, rows)
}

// One is /api/jobs/{job_or_submission_id}.
func One(w http.ResponseWriter, r *request.Request) error {
	jobs, err := r.Jobs(r.Context())
	if err != nil {
		return err
	}
	job := moment.FindJob(jobs, r.Params["job_or_submission_id"])
	if job == nil {
		return reply.Text(w, http.StatusNotFound, "Job "+r.Params["job_or_submission_id"]+" does not exist")
	}
	nodes, err := r.Nodes(r.Context())
	if err != nil {
		return err
	}
	shown, err := request.RedactRows(r, withLogNodes(r, []*pyjson.Object{rowOf(job, nodes)}))
	if err != nil {
		return err
	}
	return reply.JSON(w, http.StatusOK, shown[0])
}

// withLogNodes adds, for browsers, the node with the log to submissions that never had a driver. Ray sends null; then its frontend shows
// "Failed to load" and does not request the log, which has the reason.
func withLogNodes(r *request.Request, rows []*pyjson.Object) []*pyjson.Object {
	if !request.FromBrowser(r.Request) {
		return rows
	}
	logs := r.LogNames().Jobs
	shown := slices.Clone(rows)
	for i, row := range rows {
		node, stored := logs[row.String("submission_id")]
		if stored && row.String("type") == typeSubmission && row.Get("driver_node_id") == nil {
			shown[i] = row.Clone()
			shown[i].Set("driver_node_id", node.String())
		}
	}
	return shown
}

// Rows returns the rows of the State API's jobs (list_jobs in ray/dashboard/state_aggregator.py).
func Rows(r *request.Request) (state.RowSet, error) {
	rows, err := read(r)
	if err != nil {
		return state.RowSet{}, err
	}
	return state.RowSet{
		Rows: rows, PartialFailure: "", DetailColumns: detailColumns,
		Compare: func(a, b *pyjson.Object) int { return strings.Compare(a.String("job_id"), b.String("job_id")) },
	}, nil
}

// Activities is /api/component_activities (ray/dashboard/modules/job/job_head.py): whether a driver was running at the end.
func Activities(w http.ResponseWriter, r *request.Request) error {
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
	if o, ok := value.(*pyjson.Object); ok && r.Believes(taken) && taken >= changed {
		return reply.JSON(w, http.StatusOK, o)
	}
	driver := pyjson.Obj("is_active", "INACTIVE", "reason", nil, "timestamp", moment.Seconds(cmp.Or(r.At, r.Session.End)), "last_activity_at", nil)
	if active > 0 {
		driver.Set("is_active", "ACTIVE")
		driver.Set("reason", "Number of active drivers: "+reply.NumberString(active))
	}
	if last != 0 {
		driver.Set("last_activity_at", moment.Seconds(last))
	}
	return reply.JSON(w, http.StatusOK, pyjson.Obj("driver", driver))
}
