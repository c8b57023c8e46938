package state

import (
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// PlacementGroupColumns are the list's columns, in Ray's order (PlacementGroupState in ray/util/state/common.py).
var PlacementGroupColumns = []Column{
	Filterable("placement_group_id"), Filterable("name"), Filterable("creator_job_id"), Filterable("state"),
	Detail("bundles"), FilterableDetail("is_detached"), Detail("stats"),
	Detail("topology_strategy").notIn255(), Detail("topology_assignments").notIn255(),
}

// PlacementGroupRows returns the rows of the State API's placement groups (list_placement_groups in ray/dashboard/state_aggregator.py).
func PlacementGroupRows(r *request.Request) (RowSet, error) {
	list, _, err := r.SavedList(r.Context(), "/api/v0/placement_groups")
	if err != nil {
		return RowSet{}, err
	}
	groups, err := r.Groups(r.Context())
	set := RowSet{PartialFailure: "", Difference: Differences(PlacementGroupColumns, list)}
	for i := range groups {
		set.Rows = append(set.Rows, groupRow(&groups[i]))
	}
	return set, err
}

// groupRow is the row of a group. In a saved row the state is replaced if events have another one, and the columns that it lacks are added. If no
// event defined the group, bundles and the time of the request are the saved ones.
func groupRow(g *moment.Group) *pyjson.Object {
	if g.Events == nil {
		return g.Saved
	}
	bundles := bundleRows(g.Events, g.Told)
	if g.Saved == nil {
		return pyjson.Obj(
			"placement_group_id", g.ID, "name", g.Name, "creator_job_id", g.Job.String(), "state", g.State,
			"bundles", bundles, "is_detached", g.Events.Detached, "stats", groupStats(g.Told, nil),
			"topology_strategy", pyjson.Obj(), "topology_assignments", pyjson.Obj(),
		)
	}
	row := g.Saved.Clone()
	set := func(column string, newer bool, v any) {
		if newer || row.Get(column) == nil {
			row.Set(column, v)
		}
	}
	set("state", g.Newer, g.State)
	set("bundles", g.Newer && len(bundles) > 0, bundles)
	set("is_detached", false, g.Events.Detached)
	set("stats", g.Newer, groupStats(g.Told, g.Saved.Object("stats").Get("creation_request_received_ns")))
	return row
}

// groupStats are the figures about how a group was placed (ray.rpc.PlacementGroupStats), as far as events tell them. requested is when a saved row
// says that it was requested, or nil.
func groupStats(s moment.GroupState, requested any) *pyjson.Object {
	scheduling := time.Duration(0)
	if s.Placed != 0 && s.Started != 0 {
		scheduling = time.Duration(max(0, s.Placed-s.Started))
	}
	if requested == nil {
		requested = reply.NumberString(s.Created)
	}
	return pyjson.Obj(
		"creation_request_received_ns", requested, "scheduling_started_time_ns", reply.NumberString(s.Started),
		"scheduling_latency_us", reply.NumberString(scheduling.Microseconds()), "end_to_end_creation_latency_us", reply.NumberString(s.CreationTime().Microseconds()),
		"scheduling_attempt", s.Attempt, "highest_retry_delay_ms", s.RetryDelayMs, "scheduling_state", s.ShownSchedulingState(),
	)
}

func bundleRows(g *entities.PlacementGroup, state moment.GroupState) []any {
	rows := make([]any, len(g.Bundles))
	for i, b := range g.Bundles {
		node := ""
		if id, placed := state.Placements[b.Index]; placed {
			node = id.String()
		}
		rows[i] = pyjson.Obj(
			"bundle_id", pyjson.Obj("placement_group_id", g.ID.String(), "bundle_index", b.Index),
			"unit_resources", summary.ResourceMap(b.Resources), "node_id", node, "label_selector", reply.StringMap(b.LabelSelector),
		)
	}
	return rows
}
