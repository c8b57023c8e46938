package nodes

import (
	"cmp"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
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
	for _, n := range all.All {
		row := snapshot[n.ID]
		if row == nil {
			row = newRow(all.Row(n.ID).Object("raylet"), n)
		} else if was := row.String("state"); r.Overrides(taken, was == n.State, was == moment.Dead) {
			row = row.Clone()
			row.Set("state", n.State)
			row.Set("state_message", reply.Nullable(n.StateMessage))
			row.Set("end_time_ms", moment.Milliseconds(n.End))
		}
		set.Rows = append(set.Rows, row)
	}
	return set, nil
}

// newRow makes the row of a node without a State API snapshot.
func newRow(raylet *pyjson.Object, n *moment.Node) *pyjson.Object {
	row := pyjson.Obj(
		"node_id", raylet.Get("nodeId"), "node_ip", raylet.Get("nodeManagerAddress"), "is_head_node", n.Head,
		"state", raylet.Get("state"), "state_message", raylet.Get("stateMessage"), "node_name", raylet.Get("nodeName"),
		"resources_total", raylet.Get("resourcesTotal"), "labels", raylet.Get("labels"),
		"start_time_ms", raylet.Int("startTimeMs"), "end_time_ms", raylet.Int("endTimeMs"),
	)
	if n.Events == nil {
		return row
	}
	// Events have the names of resources and labels unchanged; /nodes has them in camelCase.
	row.Set("resources_total", summary.ResourceMap(n.Told.Resources))
	row.Set("labels", reply.StringMap(n.Events.Labels))
	row.Set("node_name", cmp.Or(row.String("node_name"), n.Events.Name))
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
