package dashboard

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

// taskRoutes are the requests about tasks.
func (d *Dashboard) taskRoutes() []Route {
	var routes []Route
	for path, h := range map[string]handler{
		"/api/v0/tasks":           d.listTasks,
		"/api/v0/tasks/summarize": d.summarizeTasks,
		"/api/v0/tasks/timeline":  d.taskTimeline,
	} {
		serve := d.answer(h)
		routes = append(routes, Route{http.MethodGet, path, serve}, Route{http.MethodHead, path, serve})
	}
	return routes
}

// listTasks is the State API's list of task attempts (list_tasks in ray/dashboard/state_aggregator.py). Rows go to the client as they
// are written.
func (d *Dashboard) listTasks(w http.ResponseWriter, r *Request) error {
	q, refused := d.parseListQuery(r)
	if refused != nil {
		writeStateError(w, refused)
		return nil
	}
	markSource(r, q.Filters)
	picked, err := r.Session.Tasks.Select(q)
	if err != nil {
		writeStateError(w, filterRefused(err))
		return nil
	}
	redact, err := redacts(r)
	if err != nil {
		return err
	}
	e := taskEncoder{detail: q.Detail, redact: redact}
	out := newStream(w, jsonType)
	out.buf = fmt.Appendf(out.buf, `{"result": true, "msg": "", "data": {"result": {"total": %d, "num_after_truncation": %d, "num_filtered": %d, "result": [`,
		picked.Listed, picked.Listed, picked.Matching)
	for i := range picked.Rows {
		if i > 0 {
			out.buf = append(out.buf, ", "...)
		}
		out.buf = e.append(out.buf, picked.Row(i))
		out.flushFull()
	}
	out.buf = append(out.buf, `], "partial_failure_warning": "", "warnings": `...)
	out.buf = append(pyjson.Append(out.buf, orNull(damage(r.Session))), "}}}"...)
	out.flush()
	return nil
}

// markSource marks the filters that reach Ray's own store, and so count before num_after_truncation does: Ray compares their keys as they
// are spelled.
func markSource(r *Request, filters []session.Filter) {
	keys := r.Query()["filter_keys"]
	for i := range filters {
		filters[i].Source = keys[i] == filters[i].Key
	}
}

// filterRefused is the answer to a filter that tasks cannot be filtered by.
func filterRefused(err error) *apiError {
	var unknown *session.UnknownColumnError
	if errors.As(err, &unknown) {
		return unknownColumn(taskColumns, unknown.Column)
	}
	return badRequest("%s", err)
}

// taskColumns are the State API's columns of tasks that filters may name, in Ray's order.
var taskColumns = []column{
	filterable("task_id"), filterable("attempt_number"), filterable("name"), filterable("state"), filterable("job_id"),
	filterable("actor_id"), filterable("type"), filterable("func_or_class_name"), filterable("parent_task_id"), filterable("node_id"),
	filterable("worker_id"), filterable("worker_pid"), filterable("error_type"), filterableDetail("language"),
	filterableDetail("placement_group_id"), filterableDetail("is_debugger_paused"),
}
