package dashboard

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// actorStates are the states the State API takes a filter for.
var actorStates = map[string]bool{unready: true, "PENDING_CREATION": true, alive: true, restarting: true, dead: true}

// actorRows gives the rows of the State API's actors (list_actors in ray/dashboard/state_aggregator.py).
func (d *Dashboard) actorRows(r *Request) (rowSet, error) {
	list, taken, err := savedList(r, "/api/v0/actors")
	if err != nil {
		return rowSet{}, err
	}
	snapshot := rowsByKey(list.List("result"), "actor_id")
	logical, err := d.actors(r)
	if err != nil {
		return rowSet{}, err
	}
	set := rowSet{partialFailure: "", check: checkActorFilters, fit: fitTo(actorColumns, list)}
	for _, shown := range logical {
		id := shown.String("actorId")
		row := snapshot[id]
		parsed, err := rayid.Parse[rayid.Actor](id)
		var a *session.Actor
		if err == nil {
			a = r.Session.Actor(parsed)
		}
		switch {
		case a != nil:
			state, _ := actorAt(a, r.At)
			if row == nil {
				row = newActorRow(a, &state)
			} else if !sameActorState(row.String("state"), row.Int("num_restarts"), &state) && !(row.String("state") == dead && believes(r, taken)) {
				row = row.Clone()
				setActorRowState(row, &state)
			}
		case row == nil:
			row = actorRowOf(shown)
		}
		set.rows = append(set.rows, row)
	}
	return set, nil
}

// newActorRow makes the row of an actor of which there is no snapshot.
func newActorRow(a *session.Actor, s *actorState) *pyjson.Object {
	row := pyjson.Obj(
		"actor_id", a.ID.String(), "class_name", a.Class, "state", nil, "job_id", a.Job.String(), "name", a.Name, "node_id", nil,
		"pid", nil, "ray_namespace", a.Namespace, "serialized_runtime_env", a.RuntimeEnv, "required_resources", a.Resources,
		"death_cause", nil, "is_detached", a.Detached, "placement_group_id", nil, "repr_name", nil, "num_restarts", nil,
		"num_restarts_due_to_lineage_reconstruction", nil, "num_restarts_due_to_node_preemption", nil, "call_site", nil,
		"label_selector", stringMap(a.LabelSelector), "fallback_strategy", nil,
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
	setActorRowState(row, s)
	return row
}

// setActorRowState writes everything into a row that goes with the actor's state.
func setActorRowState(row *pyjson.Object, s *actorState) {
	row.Set("state", s.state)
	if s.node.Nil() {
		row.Set("node_id", nil)
	} else {
		row.Set("node_id", s.node.String())
	}
	row.Set("pid", s.pid)
	row.Set("repr_name", s.repr)
	row.Set("num_restarts", pyString(s.restarts))
	row.Set("num_restarts_due_to_lineage_reconstruction", pyString(s.reconstructed))
	row.Set("num_restarts_due_to_node_preemption", pyString(s.preempted))
	row.Set("death_cause", deathCause(s.death))
}

// deathCause spells a cause of death as the State API does: names in snake_case, IDs in hex.
func deathCause(death []byte) any {
	if len(death) == 0 {
		return nil
	}
	cause, err := pyjson.ParseObject(death)
	if err != nil || cause.Len() == 0 {
		return nil
	}
	return snakeStyle(cause)
}

// actorRowOf makes a row from what /logical/actors showed, for an actor no event told of.
func actorRowOf(shown *pyjson.Object) *pyjson.Object {
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

// checkActorFilters refuses what Ray's actor table refuses (get_all_actor_info in ray/util/state/state_manager.py).
func checkActorFilters(q session.Query) *apiError {
	for _, f := range q.Filters {
		if f.Not {
			continue
		}
		switch f.Key {
		case "state":
			if s := upper(f.Value); !actorStates[s] {
				return badRequest("Invalid actor state for filtering: %s", s)
			}
		case "actor_id":
			if refused := checkHex(f.Value, rayid.ActorSize); refused != nil {
				return refused
			}
		case "job_id":
			if refused := checkHex(f.Value, rayid.JobSize); refused != nil {
				return refused
			}
		}
	}
	return nil
}

// summarizeActors counts actors by class and state (ActorSummaries in ray/util/state/common.py).
func (d *Dashboard) summarizeActors(w http.ResponseWriter, r *Request) error {
	q, refused := d.parseSummaryQuery(r)
	if refused != nil {
		writeStateError(w, refused)
		return nil
	}
	set, err := d.actorRows(r)
	if err != nil {
		return err
	}
	picked, refused := set.query(actorColumns, q)
	if refused != nil {
		writeStateError(w, refused)
		return nil
	}
	summary := &pyjson.Object{}
	for _, row := range picked.rows {
		class := row.String("class_name")
		if summary.Object(class) == nil {
			summary.Set(class, pyjson.Obj("class_name", class, "state_counts", pyjson.Obj()))
		}
		count(summary.Object(class).Object("state_counts"), row.String("state"))
	}
	writeSummary(w, r, picked, pyjson.Obj("summary", summary, "total_actors", len(picked.rows), "summary_by", "class"))
	return nil
}
