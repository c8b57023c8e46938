package actors

import (
	"net/http"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// states are the states that the State API accepts in a filter.
var states = map[string]bool{moment.Unready: true, "PENDING_CREATION": true, moment.Alive: true, moment.Restarting: true, moment.Dead: true}

// Rows returns the rows of the State API's actors (list_actors in ray/dashboard/state_aggregator.py).
func Rows(r *request.Request) (state.RowSet, error) {
	list, taken, err := r.SavedList(r.Context(), "/api/v0/actors")
	if err != nil {
		return state.RowSet{}, err
	}
	snapshot := moment.RowsByKey(list.List("result"), "actor_id")
	actors, logical, err := Read(r)
	if err != nil {
		return state.RowSet{}, err
	}
	set := state.RowSet{PartialFailure: "", Check: checkFilters, Difference: state.Differences(Columns, list)}
	for _, a := range actors {
		row := snapshot[a.ID]
		switch {
		case row == nil && a.Events == nil:
			row = rowOf(logical(a))
		case row == nil:
			row = newRow(a.Events, &a.Told)
		case a.Events == nil:
		default:
			same := row.String("state") == a.Told.State && row.Int("num_restarts") == int64(a.Told.Restarts)
			if r.Overrides(taken, same, row.String("state") == moment.Dead) {
				row = row.Clone()
				setRowState(row, &a.Told)
			}
		}
		set.Rows = append(set.Rows, row)
	}
	return set, nil
}

// newRow makes the row of an actor without a snapshot.
func newRow(a *entities.Actor, s *moment.ActorState) *pyjson.Object {
	row := pyjson.Obj(
		"actor_id", a.ID.String(), "class_name", a.Class, "state", nil, "job_id", a.Job.String(), "name", a.Name, "node_id", nil,
		"pid", nil, "ray_namespace", a.Namespace, "serialized_runtime_env", a.RuntimeEnv, "required_resources", a.Resources,
		"death_cause", nil, "is_detached", a.Detached, "placement_group_id", nil, "repr_name", nil, "num_restarts", nil,
		"num_restarts_due_to_lineage_reconstruction", nil, "num_restarts_due_to_node_preemption", nil, "call_site", nil,
		"label_selector", reply.StringMap(a.LabelSelector), "fallback_strategy", nil,
	)
	if a.Resources == nil {
		row.Set("required_resources", pyjson.Obj())
	}
	if !a.PlacementGroup.Nil() {
		row.Set("placement_group_id", a.PlacementGroup.String())
	}
	if a.CallSite != "" {
		row.Set("call_site", a.CallSite)
	}
	setRowState(row, s)
	return row
}

// setRowState sets all fields of a row that depend on the actor's state.
func setRowState(row *pyjson.Object, s *moment.ActorState) {
	row.Set("state", s.State)
	if s.Node.Nil() {
		row.Set("node_id", nil)
	} else {
		row.Set("node_id", s.Node.String())
	}
	row.Set("pid", s.PID)
	row.Set("repr_name", s.Repr)
	row.Set("num_restarts", reply.NumberString(s.Restarts))
	row.Set("num_restarts_due_to_lineage_reconstruction", reply.NumberString(s.Reconstructed))
	row.Set("num_restarts_due_to_node_preemption", reply.NumberString(s.Preempted))
	row.Set("death_cause", deathCause(s.Death))
}

// deathCause writes a cause of death as the State API does: names in snake_case, IDs in hex.
func deathCause(death []byte) any {
	if len(death) == 0 {
		return nil
	}
	cause, err := pyjson.ParseObject(death)
	if err != nil || cause.Len() == 0 {
		return nil
	}
	return reply.SnakeStyle(cause)
}

// rowOf makes a row from the row of /logical/actors, for an actor without events.
func rowOf(shown *pyjson.Object) *pyjson.Object {
	row := pyjson.Obj(
		"actor_id", shown.Get("actorId"), "class_name", shown.Get("className"), "state", shown.Get("state"), "job_id", shown.Get("jobId"),
		"name", shown.Get("name"), "pid", shown.Get("pid"), "required_resources", shown.Get("requiredResources"),
		"placement_group_id", shown.Get("placementGroupId"), "repr_name", shown.Get("reprName"), "num_restarts", shown.Get("numRestarts"),
		"call_site", shown.Get("callSite"), "label_selector", shown.Get("labelSelector"),
	)
	if node := shown.Object("address").String("nodeId"); node != "" {
		row.Set("node_id", node)
	}
	return row
}

// checkFilters refuses what Ray's actor table refuses (get_all_actor_info in ray/util/state/state_manager.py).
func checkFilters(q tasktable.Query) *reply.Error {
	for _, f := range q.Filters {
		if f.Not || !f.Source {
			continue
		}
		switch f.Key {
		case "state":
			if s := strings.ToUpper(f.Value); !states[s] {
				return reply.BadRequest("Invalid actor state for filtering: %s", s)
			}
		case "actor_id":
			if refused := request.CheckHex(f.Value, rayid.ActorSize); refused != nil {
				return refused
			}
		case "job_id":
			if refused := request.CheckHex(f.Value, rayid.JobSize); refused != nil {
				return refused
			}
		}
	}
	return nil
}

// Summarize counts actors by class and state (ActorSummaries in ray/util/state/common.py).
func Summarize(w http.ResponseWriter, r *request.Request) error {
	q, refused := state.ParseSummaryQuery(r)
	if refused != nil {
		return state.WriteError(w, refused)
	}
	set, err := Rows(r)
	if err != nil {
		return err
	}
	picked, refused := set.Query(Columns, q)
	if refused != nil {
		return state.WriteError(w, refused)
	}
	summary := &pyjson.Object{}
	for _, row := range picked.Rows {
		class := row.String("class_name")
		if summary.Object(class) == nil {
			summary.Set(class, pyjson.Obj("class_name", class, "state_counts", pyjson.Obj()))
		}
		state.Count(summary.Object(class).Object("state_counts"), row.String("state"))
	}
	return state.WriteSummary(w, r, picked, pyjson.Obj("summary", summary, "total_actors", len(picked.Rows), "summary_by", "class"))
}

// Columns are the columns of the State API's list, in Ray's order (ActorState in ray/util/state/common.py).
var Columns = []state.Column{
	state.Filterable("actor_id"), state.Filterable("class_name"), state.Filterable("state"), state.Filterable("job_id"), state.Filterable("name"),
	state.Filterable("node_id"), state.Filterable("pid"), state.Filterable("ray_namespace"),
	state.Detail("serialized_runtime_env"), state.Detail("required_resources"), state.Detail("death_cause"), state.Detail("is_detached"),
	state.FilterableDetail("placement_group_id"), state.FilterableDetail("repr_name"), state.Detail("num_restarts"),
	state.Detail("num_restarts_due_to_lineage_reconstruction"), state.Detail("num_restarts_due_to_node_preemption"),
	state.Detail("call_site"), state.Detail("label_selector"), state.Detail("fallback_strategy"),
}
