package dashboard

import (
	"time"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// groupFields are the State API's columns, in Ray's order (PlacementGroupState in ray/util/state/common.py). If no
// event defined a group, its bundles and the time of its request are the saved ones.
var groupFields = []field[moment.Group]{
	{filterable("placement_group_id"), func(g *moment.Group) any { return g.ID }, keepsSaved},
	{filterable("name"), func(g *moment.Group) any { return g.Name }, keepsSaved},
	{filterable("creator_job_id"), func(g *moment.Group) any { return g.Job.String() }, keepsSaved},
	{filterable("state"), func(g *moment.Group) any { return g.State }, followsEvents},
	{detailOnly("bundles"), func(g *moment.Group) any {
		if saved := g.Saved.Get("bundles"); saved != nil && (!g.Newer || len(g.Events.Bundles) == 0) {
			return saved
		}
		return bundleRows(g.Events, g.ByEvents)
	}, followsEvents},
	{filterableDetail("is_detached"), func(g *moment.Group) any {
		if g.Events == nil {
			return nil
		}
		return g.Events.Detached
	}, fillsNull},
	{detailOnly("stats"), func(g *moment.Group) any {
		if saved := g.Saved.Get("stats"); saved != nil && !g.Newer {
			return saved
		}
		return groupStats(g.ByEvents, g.Saved.Object("stats").Get("creation_request_received_ns"))
	}, followsEvents},
	{detailOnly("topology_strategy").notIn255(), func(*moment.Group) any { return pyjson.Obj() }, keepsSaved},
	{detailOnly("topology_assignments").notIn255(), func(*moment.Group) any { return pyjson.Obj() }, keepsSaved},
}

// groupRows returns the rows of the State API's placement groups (list_placement_groups in
// ray/dashboard/state_aggregator.py).
func groupRows(r *Request) (rowSet, error) {
	set := rowSet{columns: columnsOf(groupFields), saved: "/api/v0/placement_groups", partialFailure: ""}
	groups, err := r.Groups(r.Context())
	for i := range groups {
		g := &groups[i]
		set.rows = append(set.rows, rowOf(groupFields, g, g.Saved, g.Events != nil))
	}
	return set, err
}

// groupStats are the figures about how a group was placed (ray.rpc.PlacementGroupStats), as far as events tell them.
// requested is when a saved row says that it was requested, or nil.
func groupStats(s moment.GroupState, requested any) *pyjson.Object {
	scheduling := time.Duration(0)
	if s.Placed != 0 && s.Started != 0 {
		scheduling = time.Duration(max(0, s.Placed-s.Started))
	}
	if requested == nil {
		requested = numberString(s.Created)
	}
	return pyjson.Obj(
		"creation_request_received_ns", requested, "scheduling_started_time_ns", numberString(s.Started),
		"scheduling_latency_us", numberString(scheduling.Microseconds()), "end_to_end_creation_latency_us",
		numberString(s.CreationTime().Microseconds()),
		"scheduling_attempt", s.Attempt, "highest_retry_delay_ms", s.RetryDelayMs, "scheduling_state",
		s.ShownSchedulingState(),
	)
}

// bundleRows returns the bundles of a group as Ray lists them; one that is not placed has the node "".
func bundleRows(g *entities.PlacementGroup, state moment.GroupState) []any {
	rows := make([]any, len(g.Bundles))
	for i, b := range g.Bundles {
		node := ""
		if id, placed := state.Placements[b.Index]; placed {
			node = id.String()
		}
		rows[i] = pyjson.Obj(
			"bundle_id", pyjson.Obj("placement_group_id", g.ID.String(), "bundle_index", b.Index),
			"unit_resources", orEmpty(b.Resources), "node_id", node, "label_selector", orEmpty(b.LabelSelector),
		)
	}
	return rows
}
