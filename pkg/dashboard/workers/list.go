// Package workers answers requests about core workers: the State API's list, and which workers are alive on a node.
package workers

import (
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Columns are the columns of the State API's list, in Ray's order (WorkerState in ray/util/state/common.py).
var Columns = []state.Column{
	state.Filterable("worker_id"), state.Filterable("is_alive").Of(state.BoolKind), state.Filterable("worker_type"), state.Filterable("exit_type"),
	state.Filterable("node_id"), state.Filterable("ip"), state.Filterable("pid").Of(state.IntKind),
	state.Detail("exit_detail"), state.Detail("worker_launch_time_ms"), state.Detail("worker_launched_time_ms"), state.Detail("start_time_ms"),
	state.Detail("end_time_ms"), state.FilterableDetail("debugger_port"), state.FilterableDetail("num_paused_threads"),
}

// Rows returns the rows of the State API's workers (list_workers in ray/dashboard/state_aggregator.py): the snapshot's, overlaid with
// worker events, and those that only drivers' and actors' events and the names of log files tell of (Ray sends worker events from 2.58).
func Rows(r *request.Request) (state.RowSet, error) {
	list, taken, err := r.SavedList(r.Context(), "/api/v0/workers")
	if err != nil {
		return state.RowSet{}, err
	}
	nodes, err := r.Nodes(r.Context())
	if err != nil {
		return state.RowSet{}, err
	}
	t := table{r: r, nodes: nodes, believed: r.Believes(taken), seen: map[string]bool{}}
	for _, v := range list.List("result") {
		if row, ok := v.(*pyjson.Object); ok {
			t.addSnapshot(row)
		}
	}
	for i := range r.Session.Workers {
		t.addEvents(&r.Session.Workers[i])
	}
	for i := range r.Session.Jobs {
		t.addDriver(&r.Session.Jobs[i])
	}
	t.addLogged(r.LogNames().Workers, list)
	return state.RowSet{
		Rows: t.rows, PartialFailure: "", Difference: state.Differences(Columns, list),
		// get_all_worker_info in ray/util/state/state_manager.py
		Selected: func(f tasktable.Filter) bool { return f.Source && !f.Not && f.Key == "is_alive" && f.Value == "True" },
	}, nil
}

// table collects rows of workers, each worker once.
type table struct {
	r        *request.Request
	nodes    moment.Nodes
	believed bool
	rows     []*pyjson.Object
	seen     map[string]bool
}

func (t *table) add(id string, row *pyjson.Object) {
	t.seen[id] = true
	t.rows = append(t.rows, row)
}

// addSnapshot adds a saved row, with the worker's state from events.
func (t *table) addSnapshot(row *pyjson.Object) {
	id := row.String("worker_id")
	var w *entities.Worker
	if parsed, err := rayid.Parse[rayid.Worker](id); err == nil {
		w = t.r.Session.Worker(parsed)
	}
	if w == nil {
		if t.r.At == 0 || row.Int("start_time_ms") <= moment.Milliseconds(t.r.At) {
			t.add(id, t.notYetEnded(row))
		}
		return
	}
	state, existed := moment.WorkerAt(w, t.r.At)
	if !existed {
		t.seen[id] = true
		return
	}
	if was := row.Bool("is_alive"); was != state.Alive && (was || !t.believed) {
		row = row.Clone()
		setWorkerState(row, &state)
	}
	t.add(id, row)
}

// notYetEnded is a saved row as it was before its end, if that was after the requested moment.
func (t *table) notYetEnded(row *pyjson.Object) *pyjson.Object {
	if t.r.At == 0 || row.Int("end_time_ms") <= moment.Milliseconds(t.r.At) {
		return row
	}
	row = row.Clone()
	row.Set("is_alive", true)
	row.Set("end_time_ms", 0)
	row.Set("exit_type", nil)
	row.Set("exit_detail", nil)
	return row
}

// addEvents takes a worker that the snapshot does not have.
func (t *table) addEvents(w *entities.Worker) {
	id := w.ID.String()
	state, existed := moment.WorkerAt(w, t.r.At)
	if t.seen[id] || !existed {
		t.seen[id] = true // its log does not tell that it was there before
		return
	}
	row := t.newRow(id, w.Type, w.Node.String(), int64(w.PID))
	setWorkerState(row, &state)
	t.add(id, row)
}

// addDriver takes a job's driver, whose worker ID is the job's followed by 0xff.
func (t *table) addDriver(j *entities.Job) {
	id := driverID(j.ID)
	state, existed := moment.DriverAt(j, t.r.At)
	if t.seen[id] || !existed {
		t.seen[id] = true
		return
	}
	row := t.newRow(id, moment.TypeDriver, j.DriverNode.String(), j.DriverPID)
	s := moment.WorkerState{
		Alive: state.Ended == 0, Launch: moment.NoTime, Launched: moment.NoTime,
		Started: uint64(moment.Milliseconds(state.Started)), Ended: uint64(moment.Milliseconds(state.Ended)),
	}
	if !s.Alive {
		s.ExitType = "INTENDED_USER_EXIT"
	}
	setWorkerState(row, &s)
	t.add(id, row)
}

// driverID is the worker ID of a job's driver: the job's ID, then bytes of 0xff.
func driverID(j rayid.Job) string {
	var w rayid.Worker
	for i := range w {
		w[i] = 0xff
	}
	copy(w[:], j[:])
	return w.String()
}

// addLogged takes workers of which there is nothing but a log: when they started is not known, and shown as 0. Whether one of them was
// alive at the end is not known; their node's end and their actor's death are, and a session at its end has no others than what is alive or
// dead by those.
//
// A snapshot lists the workers Ray knew, in order of their IDs. Only where it was cut short are there others, beyond its last row.
func (t *table) addLogged(logged []moment.LogWorker, list *pyjson.Object) {
	saved := list.List("result")
	if list != nil && int64(len(saved)) >= list.Int("num_filtered") {
		return
	}
	last := ""
	if len(saved) > 0 {
		row, _ := saved[len(saved)-1].(*pyjson.Object)
		last = row.String("worker_id")
	}
	deadWorkers := DeadActorWorkers(t.r)
	for _, w := range logged {
		if t.seen[w.ID] || w.ID < last {
			continue
		}
		row := t.newRow(w.ID, w.Kind, w.Node.String(), w.PID)
		node := t.nodes.ByID[w.Node.String()]
		nodeAlive := node == nil || node.State != moment.Dead
		setWorkerState(row, &moment.WorkerState{Alive: nodeAlive && !deadWorkers[w.ID], Launch: moment.NoTime, Launched: moment.NoTime})
		t.add(w.ID, row)
	}
}

// DeadActorWorkers are the processes of actors that died or were restarted.
func DeadActorWorkers(r *request.Request) map[string]bool {
	gone := map[string]bool{}
	for i := range r.Session.Actors {
		state, _ := moment.ActorAt(&r.Session.Actors[i], r.At)
		for _, p := range state.FormerProcesses {
			gone[p.Worker.String()] = true
		}
		if state.State == moment.Dead && !state.Worker.Nil() {
			gone[state.Worker.String()] = true
		}
	}
	return gone
}

func (t *table) newRow(id, kind, node string, pid int64) *pyjson.Object {
	return pyjson.Obj(
		"worker_id", id, "is_alive", nil, "worker_type", kind, "exit_type", nil, "node_id", node, "ip", t.nodes.IP(node), "pid", pid,
		"exit_detail", nil, "worker_launch_time_ms", nil, "worker_launched_time_ms", nil, "start_time_ms", nil, "end_time_ms", nil,
		"debugger_port", nil, "num_paused_threads", nil,
	)
}

func setWorkerState(row *pyjson.Object, s *moment.WorkerState) {
	row.Set("is_alive", s.Alive)
	row.Set("exit_type", reply.Nullable(s.ExitType))
	row.Set("exit_detail", reply.Nullable(s.ExitDetail))
	row.Set("worker_launch_time_ms", s.Launch)
	row.Set("worker_launched_time_ms", s.Launched)
	row.Set("start_time_ms", s.Started)
	row.Set("end_time_ms", s.Ended)
}
