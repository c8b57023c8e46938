package dashboard

import (
	"slices"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// Columns of the State API's entities, in Ray's order (the dataclasses in ray/util/state/common.py, JobDetails in
// ray/dashboard/modules/job/pydantic_models.py).

func shown(name string) column            { return column{name: name} }
func filterable(name string) column       { return column{name: name, filterable: true} }
func detail(name string) column           { return column{name: name, detail: true} }
func filterableDetail(name string) column { return column{name: name, filterable: true, detail: true} }
func (c column) of(k kind) column         { c.kind = k; return c }
func (c column) notIn255() column         { c.newer = true; return c }

var actorColumns = []column{
	filterable("actor_id"), filterable("class_name"), filterable("state"), filterable("job_id"), filterable("name"),
	filterable("node_id"), filterable("pid"), filterable("ray_namespace"),
	detail("serialized_runtime_env"), detail("required_resources"), detail("death_cause"), detail("is_detached"),
	filterableDetail("placement_group_id"), filterableDetail("repr_name"), detail("num_restarts"),
	detail("num_restarts_due_to_lineage_reconstruction"), detail("num_restarts_due_to_node_preemption"),
	detail("call_site"), detail("label_selector"), detail("fallback_strategy"),
}

var placementGroupColumns = []column{
	filterable("placement_group_id"), filterable("name"), filterable("creator_job_id"), filterable("state"),
	detail("bundles"), filterableDetail("is_detached"), detail("stats"),
	detail("topology_strategy").notIn255(), detail("topology_assignments").notIn255(),
}

var nodeColumns = []column{
	filterable("node_id"), filterable("node_ip"), filterable("is_head_node").of(boolKind), filterable("state"),
	shown("state_message"), filterable("node_name"), shown("resources_total"), shown("labels"),
	detail("start_time_ms"), detail("end_time_ms"),
}

// jobColumns is in the order of the short list; the full one has an order of its own, see jobDetailColumns.
var jobColumns = []column{
	filterable("job_id"), filterable("submission_id"), shown("entrypoint"), filterable("type"), filterable("status"),
	shown("message"), shown("error_type"), shown("driver_info"),
}

// jobDetailColumns are a job's fields as JobDetails has them.
var jobDetailColumns = []column{
	filterable("type"), filterable("job_id"), filterable("submission_id"), shown("driver_info"), filterable("status"),
	shown("entrypoint"), shown("message"), shown("error_type"), shown("start_time"), shown("end_time"), shown("metadata"),
	shown("runtime_env"), shown("driver_agent_http_address"), shown("driver_node_id"), shown("driver_exit_code"),
}

var workerColumns = []column{
	filterable("worker_id"), filterable("is_alive").of(boolKind), filterable("worker_type"), filterable("exit_type"),
	filterable("node_id"), filterable("ip"), filterable("pid").of(intKind),
	detail("exit_detail"), detail("worker_launch_time_ms"), detail("worker_launched_time_ms"), detail("start_time_ms"),
	detail("end_time_ms"), filterableDetail("debugger_port"), filterableDetail("num_paused_threads"),
}

var clusterEventColumns = []column{
	filterable("severity"), shown("time"), filterable("source_type"), shown("message"), filterable("event_id"), detail("custom_fields"),
}

var objectColumns = []column{
	filterable("object_id"), filterable("object_size").of(intKind), filterable("task_status"),
	filterable("attempt_number").of(intKind), filterable("reference_type"), filterable("call_site"), filterable("type"),
	filterable("pid").of(intKind), filterable("ip"),
}

var runtimeEnvColumns = []column{
	filterable("runtime_env"), filterable("success").of(boolKind), shown("creation_time_ms"), filterable("node_id"),
	detail("ref_cnt"), filterableDetail("error"),
}

// columnFit is how the columns of one session's Ray differ from those known here.
type columnFit struct {
	lacks map[string]bool // newer ones that it did not have
	added []column        // those of a Ray that is not known; shown with detail
}

// fitTo compares columns with those of a saved list's rows, which were asked for with detail; without rows nothing differs.
func fitTo(columns []column, list *pyjson.Object) columnFit {
	fit := columnFit{lacks: map[string]bool{}}
	rows := list.List("result")
	if len(rows) == 0 {
		return fit
	}
	row, _ := rows[0].(*pyjson.Object)
	for _, c := range columns {
		if _, has := row.Lookup(c.name); c.newer && !has {
			fit.lacks[c.name] = true
		}
	}
	for name := range row.All() {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.name == name }) {
			fit.added = append(fit.added, detail(name))
		}
	}
	return fit
}
