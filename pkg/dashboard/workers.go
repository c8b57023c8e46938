package dashboard

import (
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// shownWorker is a worker with the address of its node.
type shownWorker struct {
	*moment.Worker
	ip string
}

func (w *shownWorker) row() *pyjson.Object { return rowOf(workerFields, w, w.Saved, w.Newer) }

// launchTime returns a time of the worker's launch: by, which is from its events, or the saved one in column if a saved
// worker has no events.
func (w *shownWorker) launchTime(column string, by uint64) any {
	if w.Saved != nil && w.Events == nil {
		return w.Saved.Get(column)
	}
	return by
}

// workerFields are the State API's columns, in Ray's order (WorkerState in ray/util/state/common.py).
var workerFields = []field[shownWorker]{
	{filterable("worker_id"), func(w *shownWorker) any { return w.ID }, keepsSaved},
	{filterable("is_alive").ofKind(boolKind), func(w *shownWorker) any { return w.Alive }, followsEvents},
	{filterable("worker_type"), func(w *shownWorker) any { return w.Type }, keepsSaved},
	{filterable("exit_type"), func(w *shownWorker) any { return orNone(w.ExitType) }, followsEvents},
	{filterable("node_id"), func(w *shownWorker) any { return w.Node }, keepsSaved},
	{filterable("ip"), func(w *shownWorker) any { return w.ip }, keepsSaved},
	{filterable("pid").ofKind(intKind), func(w *shownWorker) any { return w.PID }, keepsSaved},
	{detailOnly("exit_detail"), func(w *shownWorker) any { return orNone(w.ExitDetail) }, followsEvents},
	{detailOnly("worker_launch_time_ms"),
		func(w *shownWorker) any { return w.launchTime("worker_launch_time_ms", w.Launch) },
		followsEvents},
	{detailOnly("worker_launched_time_ms"),
		func(w *shownWorker) any { return w.launchTime("worker_launched_time_ms", w.Launched) }, followsEvents},
	{detailOnly("start_time_ms"), func(w *shownWorker) any { return w.launchTime("start_time_ms", w.Started) },
		followsEvents},
	{detailOnly("end_time_ms"), func(w *shownWorker) any { return w.Ended }, followsEvents},
	{filterableDetail("debugger_port"), nil, keepsSaved},
	{filterableDetail("num_paused_threads"), nil, keepsSaved},
}

// readWorkers reads the workers and the addresses of their nodes.
func readWorkers(r *Request) (shown []shownWorker, err error) {
	workers, err := r.Workers(r.Context())
	if err != nil {
		return nil, err
	}
	nodes, err := r.Nodes(r.Context())
	for i := range workers {
		shown = append(shown, shownWorker{&workers[i], nodes.IP(workers[i].Node)})
	}
	return shown, err
}

// workerRows returns the rows of the State API's workers (list_workers in ray/dashboard/state_aggregator.py).
func workerRows(r *Request) (rowSet, error) {
	set := rowSet{columns: columnsOf(workerFields), saved: "/api/v0/workers", partialFailure: "", drops: dropsWorker}
	workers, err := readWorkers(r)
	for i := range workers {
		set.rows = append(set.rows, workers[i].row())
	}
	return set, err
}

// dropsWorker says whether Ray's own store leaves a worker out of its list for a filter. It applies two filters alone,
// with just these texts (get_all_worker_info in ray/util/state/state_manager.py).
func dropsWorker(f typedFilter, row *pyjson.Object) bool {
	switch {
	case !f.SentLowerCase: // then the store does not know the key
		return false
	case f.Key == "is_alive" && !f.Not && f.Value == "True":
		return f.excludes(row)
	case f.Key == "num_paused_threads" && f.Not && f.Value == "0": // how ray debug finds the workers that wait for it
		paused, _ := asInt(row.Get(f.Key))
		return paused == 0
	}
	return false
}
