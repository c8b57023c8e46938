package state

import (
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
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

// PlacementGroupRows returns the rows of the State API's placement groups (list_placement_groups in ray/dashboard/state_aggregator.py).
func PlacementGroupRows(r *request.Request) (RowSet, error) {
	list, taken, err := r.SavedList(r.Context(), "/api/v0/placement_groups")
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
		state, existed := moment.GroupAt(g, r.At)
		if !existed {
			continue
		}
		set.Rows = append(set.Rows, overlayGroup(row, newPlacementGroup(g, state), r.Believes(taken)))
	}
	snapshot := moment.RowsByKey(list.List("result"), "placement_group_id")
	for i := range r.Session.PlacementGroups {
		g := &r.Session.PlacementGroups[i]
		if state, existed := moment.GroupAt(g, r.At); existed && snapshot[g.ID.String()] == nil {
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

// overlayGroup sets in a group's snapshot the state of its events if that is another one, and the columns that the snapshot lacks. If no event
// defined the group, bundles and the time of the request are the snapshot's.
func overlayGroup(snapshot, told *pyjson.Object, believed bool) *pyjson.Object {
	was, now := snapshot.String("state"), told.String("state")
	differs := was != now && !(was == removed && believed)
	merged := snapshot.Clone()
	set := func(column string, newer bool) {
		if newer || merged.Get(column) == nil {
			merged.Set(column, told.Get(column))
		}
	}
	set("state", differs)
	set("bundles", differs && len(told.List("bundles")) > 0)
	set("is_detached", false)
	set("stats", differs)
	const requested = "creation_request_received_ns"
	if at := snapshot.Object("stats").Get(requested); at != nil && differs {
		merged.Object("stats").Set(requested, at)
	}
	return merged
}

func newPlacementGroup(g *entities.PlacementGroup, state moment.GroupState) *pyjson.Object {
	return pyjson.Obj(
		"placement_group_id", g.ID.String(), "name", g.Name, "creator_job_id", g.CreatorJob.String(), "state", state.State,
		"bundles", bundleRows(g, state), "is_detached", g.Detached, "stats", groupStats(state),
		"topology_strategy", pyjson.Obj(), "topology_assignments", pyjson.Obj(),
	)
}

// groupStats are the figures about how a group was placed (ray.rpc.PlacementGroupStats), as far as events tell them.
func groupStats(state moment.GroupState) *pyjson.Object {
	var scheduling, creation int64 // μs
	if state.Placed != 0 {
		creation = max(0, state.Placed-state.Created) / int64(time.Microsecond)
		if state.Started != 0 {
			scheduling = max(0, state.Placed-state.Started) / int64(time.Microsecond)
		}
	}
	return pyjson.Obj(
		"creation_request_received_ns", reply.NumberString(state.Created), "scheduling_started_time_ns", reply.NumberString(state.Started),
		"scheduling_latency_us", reply.NumberString(scheduling), "end_to_end_creation_latency_us", reply.NumberString(creation),
		"scheduling_attempt", state.Attempt, "highest_retry_delay_ms", state.RetryDelayMs,
		// In the event's protobuf, REMOVED has the name of a state.
		"scheduling_state", strings.Replace(state.SchedulingState, "SCHEDULING_REMOVED", removed, 1),
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
