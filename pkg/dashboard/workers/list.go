// Package workers answers requests about core workers: the State API's list, and which workers are alive on a node.
package workers

import (
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Columns are the columns of the State API's list, in Ray's order (WorkerState in ray/util/state/common.py).
var Columns = []state.Column{
	state.Filterable("worker_id"), state.Filterable("is_alive").Of(state.BoolKind), state.Filterable("worker_type"), state.Filterable("exit_type"),
	state.Filterable("node_id"), state.Filterable("ip"), state.Filterable("pid").Of(state.IntKind),
	state.Detail("exit_detail"), state.Detail("worker_launch_time_ms"), state.Detail("worker_launched_time_ms"), state.Detail("start_time_ms"),
	state.Detail("end_time_ms"), state.FilterableDetail("debugger_port"), state.FilterableDetail("num_paused_threads"),
}

// Rows returns the rows of the State API's workers (list_workers in ray/dashboard/state_aggregator.py).
func Rows(r *request.Request) (state.RowSet, error) {
	list, _, err := r.SavedList(r.Context(), "/api/v0/workers")
	if err != nil {
		return state.RowSet{}, err
	}
	set := state.RowSet{
		PartialFailure: "", Difference: state.Differences(Columns, list),
		// get_all_worker_info in ray/util/state/state_manager.py
		Selected: func(f tasktable.Filter) bool { return f.Source && !f.Not && f.Key == "is_alive" && f.Value == "True" },
	}
	err = each(r, func(_ *moment.Worker, row *pyjson.Object) { set.Rows = append(set.Rows, row) })
	return set, err
}

// each calls see with each worker and its row.
func each(r *request.Request, see func(*moment.Worker, *pyjson.Object)) error {
	workers, err := r.Workers(r.Context())
	if err != nil {
		return err
	}
	nodes, err := r.Nodes(r.Context())
	if err != nil {
		return err
	}
	for i := range workers {
		see(&workers[i], rowOf(&workers[i], nodes))
	}
	return nil
}

// rowOf is the row of a worker. Of a saved row only what depends on the worker's state is replaced.
func rowOf(w *moment.Worker, nodes moment.Nodes) *pyjson.Object {
	row := w.Saved
	switch {
	case row == nil:
		row = &pyjson.Object{}
		for _, c := range Columns {
			row.Set(c.Name, nil)
		}
		row.Set("worker_id", w.ID)
		row.Set("worker_type", w.Type)
		row.Set("node_id", w.Node)
		row.Set("ip", nodes.IP(w.Node))
		row.Set("pid", w.PID)
	case w.Newer:
		row = row.Clone()
	default:
		return row
	}
	row.Set("is_alive", w.Alive)
	row.Set("exit_type", reply.Nullable(w.ExitType))
	row.Set("exit_detail", reply.Nullable(w.ExitDetail))
	row.Set("end_time_ms", w.Ended)
	if w.Saved == nil || w.Events != nil {
		row.Set("worker_launch_time_ms", w.Launch)
		row.Set("worker_launched_time_ms", w.Launched)
		row.Set("start_time_ms", w.Started)
	}
	return row
}
