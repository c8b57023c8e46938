package state

import (
	"strconv"

	"github.com/rayhistory/historyserver/pkg/dashboard/moment"
	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// PlacementGroupColumns are the list's columns, in Ray's order (PlacementGroupState in ray/util/state/common.py).
var PlacementGroupColumns = []Column{
	Filterable("placement_group_id"), Filterable("name"), Filterable("creator_job_id"), Filterable("state"),
	Detail("bundles"), FilterableDetail("is_detached"), Detail("stats"),
	Detail("topology_strategy").notIn255(), Detail("topology_assignments").notIn255(),
}

const removed = "REMOVED"

// PlacementGroupRows gives the rows of the State API's placement groups (list_placement_groups in ray/dashboard/state_aggregator.py).
func PlacementGroupRows(r *request.Request) (RowSet, error) {
	list, taken, err := request.SavedList(r, "/api/v0/placement_groups")
	if err != nil {
		return RowSet{}, err
	}
	set := RowSet{PartialFailure: "", Difference: Differences(PlacementGroupColumns, list)}
	for _, v := range list.List("result") {
		row, ok := v.(*pyjson.Object)
		if !ok {
			continue
		}
		g := placementGroupOf(r.Session, row.String("placement_group_id"))
		if g == nil {
			if r.At == 0 || row.Object("stats").Int("creation_request_received_ns") <= r.At {
				set.Rows = append(set.Rows, row)
			}
			continue
		}
		state, existed := moment.PlacementGroup(g, r.At)
		if !existed {
			continue
		}
		if was := row.String("state"); was != state.State && !(was == removed && request.Believes(r, taken)) {
			row = row.Clone()
			row.Set("state", state.State)
			row.Set("bundles", bundleRows(g, state))
		}
		set.Rows = append(set.Rows, row)
	}
	snapshot := request.RowsByKey(list.List("result"), "placement_group_id")
	for i := range r.Session.PlacementGroups {
		g := &r.Session.PlacementGroups[i]
		if state, existed := moment.PlacementGroup(g, r.At); existed && snapshot[g.ID.String()] == nil {
			set.Rows = append(set.Rows, newPlacementGroup(g, state))
		}
	}
	return set, nil
}

func placementGroupOf(s *session.Session, id string) *entities.PlacementGroup {
	parsed, err := rayid.Parse[rayid.PlacementGroup](id)
	if err != nil {
		return nil
	}
	return s.PlacementGroup(parsed)
}

func newPlacementGroup(g *entities.PlacementGroup, state entities.PlacementGroupTransition) *pyjson.Object {
	var created int64
	if len(g.Transitions) > 0 {
		created = g.Transitions[0].Time
	}
	return pyjson.Obj(
		"placement_group_id", g.ID.String(), "name", g.Name, "creator_job_id", g.CreatorJob.String(), "state", state.State,
		"bundles", bundleRows(g, state), "is_detached", g.Detached,
		"stats", pyjson.Obj("creation_request_received_ns", strconv.FormatInt(created, 10), "scheduling_started_time_ns", "0",
			"scheduling_latency_us", "0", "end_to_end_creation_latency_us", "0", "scheduling_attempt", 0,
			"highest_retry_delay_ms", 0.0, "scheduling_state", state.SchedulingState),
		"topology_strategy", pyjson.Obj(), "topology_assignments", pyjson.Obj(),
	)
}

func bundleRows(g *entities.PlacementGroup, state entities.PlacementGroupTransition) []*pyjson.Object {
	rows := make([]*pyjson.Object, len(g.Bundles))
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
