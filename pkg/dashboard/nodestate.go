package dashboard

import (
	"cmp"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// nodeRows gives the rows of the State API's nodes (list_nodes in ray/dashboard/state_aggregator.py).
func (d *Dashboard) nodeRows(r *Request) (rowSet, error) {
	list, taken, err := savedList(r, "/api/v0/nodes")
	if err != nil {
		return rowSet{}, err
	}
	snapshot := rowsByKey(list.List("result"), "node_id")
	all, err := d.summaries(r)
	if err != nil {
		return rowSet{}, err
	}
	set := rowSet{
		partialFailure: "", check: checkNodeFilters, fit: fitTo(nodeColumns, list),
		selected: func(f session.Filter) bool {
			return !f.Not && (f.Key == "node_id" || f.Key == "state" || f.Key == "node_name")
		},
	}
	for _, id := range all.order {
		raylet := all.byID[id].Object("raylet")
		row := snapshot[id]
		if row == nil {
			row = newNodeRow(raylet, nodeOf(r.Session, id))
		} else if was := row.String("state"); was != raylet.String("state") && !(was == dead && believes(r, taken)) {
			row = row.Clone()
			row.Set("state", raylet.Get("state"))
			row.Set("state_message", raylet.Get("stateMessage"))
			row.Set("end_time_ms", raylet.Int("endTimeMs"))
		}
		set.rows = append(set.rows, row)
	}
	return set, nil
}

// newNodeRow makes the row of a node of which there is no State API snapshot; n is nil if no event told of the node.
func newNodeRow(raylet *pyjson.Object, n *session.Node) *pyjson.Object {
	row := pyjson.Obj(
		"node_id", raylet.Get("nodeId"), "node_ip", raylet.Get("nodeManagerAddress"), "is_head_node", raylet.Bool("isHeadNode"),
		"state", raylet.Get("state"), "state_message", raylet.Get("stateMessage"), "node_name", raylet.Get("nodeName"),
		"resources_total", raylet.Get("resourcesTotal"), "labels", raylet.Get("labels"),
		"start_time_ms", raylet.Int("startTimeMs"), "end_time_ms", raylet.Int("endTimeMs"),
	)
	if n == nil {
		return row
	}
	// Events spell the names of resources and labels as they are; /nodes has them in camelCase.
	state, _ := nodeAt(n, 0)
	row.Set("resources_total", resourceMap(state.resources))
	row.Set("labels", stringMap(n.Labels))
	row.Set("is_head_node", row.Bool("is_head_node") || isHead(state.resources))
	row.Set("node_name", cmp.Or(row.String("node_name"), n.Name))
	return row
}

// checkNodeFilters refuses what Ray's node table refuses (get_all_node_info in ray/util/state/state_manager.py).
func checkNodeFilters(q session.Query) *apiError {
	for _, f := range q.Filters {
		if f.Not {
			continue
		}
		switch f.Key {
		case "state":
			if s := upper(f.Value); s != alive && s != dead {
				return badRequest("Invalid node state for filtering: %s", s)
			}
		case "node_id":
			if refused := checkHex(f.Value, rayid.NodeSize); refused != nil {
				return refused
			}
		}
	}
	return nil
}
