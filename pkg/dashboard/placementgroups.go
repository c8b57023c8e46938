package dashboard

import (
	"strconv"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

const removed = "REMOVED"

// placementGroupRows gives the rows of the State API's placement groups (list_placement_groups in ray/dashboard/state_aggregator.py).
func (d *Dashboard) placementGroupRows(r *Request) (rowSet, error) {
	list, taken, err := savedList(r, "/api/v0/placement_groups")
	if err != nil {
		return rowSet{}, err
	}
	set := rowSet{partialFailure: "", fit: fitTo(placementGroupColumns, list)}
	for _, v := range list.List("result") {
		row, ok := v.(*pyjson.Object)
		if !ok {
			continue
		}
		g := placementGroupOf(r.Session, row.String("placement_group_id"))
		if g == nil {
			if r.At == 0 || row.Object("stats").Int("creation_request_received_ns") <= r.At {
				set.rows = append(set.rows, row)
			}
			continue
		}
		state, existed := placementGroupAt(g, r.At)
		if !existed {
			continue
		}
		if was := row.String("state"); was != state.State && !(was == removed && believes(r, taken)) {
			row = row.Clone()
			row.Set("state", state.State)
			row.Set("bundles", bundleRows(g, state))
		}
		set.rows = append(set.rows, row)
	}
	snapshot := rowsByKey(list.List("result"), "placement_group_id")
	for i := range r.Session.PlacementGroups {
		g := &r.Session.PlacementGroups[i]
		if state, existed := placementGroupAt(g, r.At); existed && snapshot[g.ID.String()] == nil {
			set.rows = append(set.rows, newPlacementGroup(g, state))
		}
	}
	return set, nil
}

func placementGroupOf(s *session.Session, id string) *session.PlacementGroup {
	parsed, err := rayid.Parse[rayid.PlacementGroup](id)
	if err != nil {
		return nil
	}
	return s.PlacementGroup(parsed)
}

// placementGroupAt gives a placement group's last transition at a moment (0: the end); bundles stay placed until placed anew.
func placementGroupAt(g *session.PlacementGroup, at int64) (last session.PlacementGroupTransition, existed bool) {
	last.State = pending
	for i, t := range g.Transitions {
		if at != 0 && t.Time > at {
			return last, i > 0
		}
		if len(t.Placements) == 0 {
			t.Placements = last.Placements
		}
		last = t
	}
	return last, true
}

func newPlacementGroup(g *session.PlacementGroup, state session.PlacementGroupTransition) *pyjson.Object {
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

func bundleRows(g *session.PlacementGroup, state session.PlacementGroupTransition) []*pyjson.Object {
	rows := make([]*pyjson.Object, len(g.Bundles))
	for i, b := range g.Bundles {
		node := ""
		if id, placed := state.Placements[b.Index]; placed {
			node = id.String()
		}
		rows[i] = pyjson.Obj(
			"bundle_id", pyjson.Obj("placement_group_id", g.ID.String(), "bundle_index", b.Index),
			"unit_resources", resourceMap(b.Resources), "node_id", node, "label_selector", stringMap(b.LabelSelector),
		)
	}
	return rows
}
