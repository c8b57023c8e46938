// Package jobs answers requests about jobs (ray/dashboard/modules/job): submissions, and drivers without a submission.
package jobs

import (
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// read returns the rows of all jobs as /api/jobs/ shows them.
func read(r *request.Request) ([]*pyjson.Object, error) {
	jobs, err := r.Jobs(r.Context())
	if err != nil {
		return nil, err
	}
	nodes, err := r.Nodes(r.Context())
	if err != nil {
		return nil, err
	}
	var rows []*pyjson.Object
	for i := range jobs {
		rows = append(rows, rowOf(&jobs[i], nodes))
	}
	return rows, nil
}

// rowOf is the row of a job. Of a saved row only what depends on the outcome is replaced, and what it lacks is added.
func rowOf(j *moment.Job, nodes moment.Nodes) *pyjson.Object {
	row := j.Saved
	switch {
	case row == nil:
		row = newRow(j)
	case j.Newer:
		row = row.Clone()
	default:
		return row
	}
	row.Set("status", j.Status)
	row.Set("message", reply.Nullable(j.Message))
	row.Set("error_type", reply.Nullable(j.ErrorType))
	row.Set("driver_exit_code", j.ExitCode)
	row.Set("end_time", nil)
	if j.End != 0 || j.SubmissionID == "" { // of a driver Ray writes 0
		row.Set("end_time", moment.Milliseconds(j.End))
	}
	if j.SubmissionID == "" && j.Saved != nil {
		return row
	}
	lacks := func(column string, v any) {
		if row.Get(column) == nil {
			row.Set(column, v)
		}
	}
	lacks("job_id", reply.Nullable(j.ID))
	if d := j.Driver; d != nil {
		lacks("driver_info", pyjson.Obj("id", d.ID.String(), "node_ip_address", nodes.IP(d.DriverNode.String()), "pid", reply.NumberString(d.DriverPID)))
	}
	if j.SubmissionID != "" {
		lacks("driver_agent_http_address", reply.Nullable(j.AgentAddress))
		lacks("driver_node_id", reply.Nullable(rayid.Hex(j.Node)))
	}
	return row
}

// newRow is the row of a job that has no saved one, without what depends on its outcome and its driver.
func newRow(j *moment.Job) *pyjson.Object {
	row := &pyjson.Object{}
	for _, c := range detailColumns {
		row.Set(c.Name, nil)
	}
	row.Set("type", "DRIVER")
	row.Set("entrypoint", j.Entrypoint)
	if j.SubmissionID != "" {
		row.Set("type", typeSubmission)
		row.Set("submission_id", j.SubmissionID)
		row.Set("entrypoint", reply.Nullable(j.Entrypoint))
	}
	row.Set("start_time", moment.Milliseconds(j.Start))
	row.Set("metadata", reply.StringMap(j.Metadata))
	row.Set("runtime_env", pyjson.Obj())
	if env, err := pyjson.ParseObject([]byte(j.RuntimeEnv)); err == nil {
		row.Set("runtime_env", env)
	}
	return row
}
