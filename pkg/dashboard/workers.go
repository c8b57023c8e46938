package dashboard

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// shownWorker is a worker with the address of its node.
type shownWorker struct {
	*moment.Worker
	ip string
}

func (w *shownWorker) row() *pyjson.Object { return rowOf(workerFields, w, w.Saved, w.Newer) }

// launch is a time of the launch: of a saved worker that has no events it is the saved one.
func (w *shownWorker) launch(column string, by uint64) any {
	if w.Saved != nil && w.Events == nil {
		return w.Saved.Get(column)
	}
	return by
}

// workerFields are the State API's columns, in Ray's order (WorkerState in ray/util/state/common.py).
var workerFields = []field[shownWorker]{
	{filterable("worker_id"), func(w *shownWorker) any { return w.ID }, newRows},
	{filterable("is_alive").of(boolKind), func(w *shownWorker) any { return w.Alive }, follows},
	{filterable("worker_type"), func(w *shownWorker) any { return w.Type }, newRows},
	{filterable("exit_type"), func(w *shownWorker) any { return reply.Nullable(w.ExitType) }, follows},
	{filterable("node_id"), func(w *shownWorker) any { return w.Node }, newRows},
	{filterable("ip"), func(w *shownWorker) any { return w.ip }, newRows},
	{filterable("pid").of(intKind), func(w *shownWorker) any { return w.PID }, newRows},
	{detail("exit_detail"), func(w *shownWorker) any { return reply.Nullable(w.ExitDetail) }, follows},
	{detail("worker_launch_time_ms"), func(w *shownWorker) any { return w.launch("worker_launch_time_ms", w.Launch) }, follows},
	{detail("worker_launched_time_ms"), func(w *shownWorker) any { return w.launch("worker_launched_time_ms", w.Launched) }, follows},
	{detail("start_time_ms"), func(w *shownWorker) any { return w.launch("start_time_ms", w.Started) }, follows},
	{detail("end_time_ms"), func(w *shownWorker) any { return w.Ended }, follows},
	{filterableDetail("debugger_port"), nil, newRows},
	{filterableDetail("num_paused_threads"), nil, newRows},
}

func readWorkers(r *request.Request) (shown []shownWorker, err error) {
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
func workerRows(r *request.Request) (rowSet, error) {
	// get_all_worker_info in ray/util/state/state_manager.py
	set := rowSet{columns: columnsOf(workerFields), partialFailure: "", selected: func(f tasktable.Filter) bool {
		return f.Source && !f.Not && f.Key == "is_alive" && f.Value == "True"
	}}
	list, _, err := r.SavedList(r.Context(), "/api/v0/workers")
	if err != nil {
		return set, err
	}
	set.differ(list)
	workers, err := readWorkers(r)
	for i := range workers {
		set.rows = append(set.rows, workers[i].row())
	}
	return set, err
}

// noJob is Ray's ID for the job of a process that has none.
const noJob = "ffff"

// livingWorkers returns the core workers that are alive at the requested moment, by their node in hex, each as the summary of a node has
// it (CoreWorkerStats in common.proto), without what it counts.
func livingWorkers(r *request.Request) (map[string][]*pyjson.Object, error) {
	actors := map[string]*entities.Actor{} // that are alive, by their worker
	ports := map[string]int32{}
	for i := range r.Session.Actors {
		a := &r.Session.Actors[i]
		if state, existed := moment.ActorAt(a, r.At); existed && state.State == moment.Alive {
			actors[state.Worker.String()], ports[state.Worker.String()] = a, state.Port
		}
	}
	living := map[string][]*pyjson.Object{}
	workers, err := readWorkers(r)
	for i := range workers {
		w := &workers[i]
		if !w.Alive {
			continue
		}
		row := w.row()
		stats := pyjson.Obj(
			"workerId", w.ID, "pid", row.Get("pid"), "ipAddress", row.Get("ip"), "language", "PYTHON", "workerType", w.Type,
			"jobId", noJob, "actorId", rayid.Actor{}.String(),
		)
		if a := actors[w.ID]; a != nil {
			stats.Set("jobId", a.Job.String())
			stats.Set("actorId", a.ID.String())
			stats.Set("port", reply.NumberString(int64(ports[w.ID])))
		} else if job, isDriver := strings.CutSuffix(w.ID, moment.DriverWorker(rayid.Job{})[2*rayid.JobSize:]); isDriver {
			stats.Set("jobId", job)
		}
		living[w.Node] = append(living[w.Node], stats)
	}
	return living, err
}
