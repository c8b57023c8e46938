package nodes

import (
	"cmp"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Columns are the columns of the State API's list, in Ray's order (NodeState in ray/util/state/common.py).
var Columns = []state.Column{
	state.Filterable("node_id"), state.Filterable("node_ip"), state.Filterable("is_head_node").Of(state.BoolKind), state.Filterable("state"),
	state.Shown("state_message"), state.Filterable("node_name"), state.Shown("resources_total"), state.Shown("labels"),
	state.Detail("start_time_ms"), state.Detail("end_time_ms"),
}

// Rows returns the rows of the State API's nodes (list_nodes in ray/dashboard/state_aggregator.py).
func Rows(r *request.Request) (state.RowSet, error) {
	list, taken, err := r.SavedList(r.Context(), "/api/v0/nodes")
	if err != nil {
		return state.RowSet{}, err
	}
	snapshot := moment.RowsByKey(list.List("result"), "node_id")
	all, err := summary.Read(r)
	if err != nil {
		return state.RowSet{}, err
	}
	set := state.RowSet{
		PartialFailure: "", Check: checkFilters, Difference: state.Differences(Columns, list),
		Selected: func(f tasktable.Filter) bool {
			return f.Source && !f.Not && (f.Key == "node_id" || f.Key == "state" || f.Key == "node_name")
		},
	}
	for _, id := range all.Order {
		raylet := all.ByID[id].Object("raylet")
		row := snapshot[id]
		if row == nil {
			row = newRow(raylet, summary.Find(r.Session, id))
		} else if was := row.String("state"); was != raylet.String("state") && !(was == moment.Dead && r.Believes(taken)) {
			row = row.Clone()
			row.Set("state", raylet.Get("state"))
			row.Set("state_message", raylet.Get("stateMessage"))
			row.Set("end_time_ms", raylet.Int("endTimeMs"))
		}
		set.Rows = append(set.Rows, row)
	}
	return set, nil
}

// newRow makes the row of a node without a State API snapshot; n is nil if there is no event about the node.
func newRow(raylet *pyjson.Object, n *entities.Node) *pyjson.Object {
	row := pyjson.Obj(
		"node_id", raylet.Get("nodeId"), "node_ip", raylet.Get("nodeManagerAddress"), "is_head_node", raylet.Bool("isHeadNode"),
		"state", raylet.Get("state"), "state_message", raylet.Get("stateMessage"), "node_name", raylet.Get("nodeName"),
		"resources_total", raylet.Get("resourcesTotal"), "labels", raylet.Get("labels"),
		"start_time_ms", raylet.Int("startTimeMs"), "end_time_ms", raylet.Int("endTimeMs"),
	)
	if n == nil {
		return row
	}
	// Events have the names of resources and labels unchanged; /nodes has them in camelCase.
	state, _ := moment.NodeAt(n, 0)
	row.Set("resources_total", summary.ResourceMap(state.Resources))
	row.Set("labels", reply.StringMap(n.Labels))
	row.Set("is_head_node", row.Bool("is_head_node") || summary.IsHead(state.Resources))
	row.Set("node_name", cmp.Or(row.String("node_name"), n.Name))
	return row
}

// checkFilters refuses what Ray's node table refuses (get_all_node_info in ray/util/state/state_manager.py).
func checkFilters(q tasktable.Query) *reply.Error {
	for _, f := range q.Filters {
		if f.Not || !f.Source {
			continue
		}
		switch f.Key {
		case "state":
			if s := strings.ToUpper(f.Value); s != moment.Alive && s != moment.Dead {
				return reply.BadRequest("Invalid node state for filtering: %s", s)
			}
		case "node_id":
			if refused := request.CheckHex(f.Value, rayid.NodeSize); refused != nil {
				return refused
			}
		}
	}
	return nil
}
