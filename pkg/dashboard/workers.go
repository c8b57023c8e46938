package dashboard

import (
	"math"
	"regexp"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Types of workers, Ray's own names.
const (
	workerType = "WORKER"
	driverType = "DRIVER"
)

// noTime is what Ray shows of a launch that no raylet saw: -1 as an unsigned number.
const noTime = uint64(math.MaxUint64)

// workerRows gives the rows of the State API's workers (list_workers in ray/dashboard/state_aggregator.py): the snapshot's, overlaid with
// worker events, and those that only drivers' and actors' events and the names of log files tell of (Ray sends worker events from 2.58).
func (d *Dashboard) workerRows(r *Request) (rowSet, error) {
	list, taken, err := savedList(r, "/api/v0/workers")
	if err != nil {
		return rowSet{}, err
	}
	nodes, err := d.summaries(r)
	if err != nil {
		return rowSet{}, err
	}
	t := workerTable{r: r, nodes: nodes, believed: believes(r, taken), seen: map[string]bool{}}
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
	t.addLogged(d.logNames(r.Session).workers, list)
	return rowSet{rows: t.rows, partialFailure: "", fit: fitTo(workerColumns, list)}, nil
}

// workerTable collects rows of workers, each worker once.
type workerTable struct {
	r        *Request
	nodes    nodeSummaries
	believed bool
	rows     []*pyjson.Object
	seen     map[string]bool
}

func (t *workerTable) add(id string, row *pyjson.Object) {
	t.seen[id] = true
	t.rows = append(t.rows, row)
}

// workerState is what events tell of a worker at one moment.
type workerState struct {
	alive                            bool
	launch, launched, started, ended uint64 // Unix ms
	exitType, exitDetail             string
}

func workerAt(w *session.Worker, at int64) (s workerState, existed bool) {
	s = workerState{alive: true, launch: noTime, launched: noTime}
	for i, t := range w.Transitions {
		if at != 0 && t.Time > at {
			return s, i > 0
		}
		s.alive = t.State != dead
		if t.LaunchMs != 0 {
			s.launch = t.LaunchMs
		}
		if t.LaunchedMs != 0 {
			s.launched = t.LaunchedMs
		}
		if t.StartMs != 0 {
			s.started = t.StartMs
		}
		if t.EndMs != 0 {
			s.ended = t.EndMs
		}
		if !s.alive {
			s.exitType, s.exitDetail = t.ExitType, t.ExitDetail
		}
	}
	return s, true
}

// addSnapshot takes a saved row, with the state that events tell of that worker.
func (t *workerTable) addSnapshot(row *pyjson.Object) {
	id := row.String("worker_id")
	var w *session.Worker
	if parsed, err := rayid.Parse[rayid.Worker](id); err == nil {
		w = t.r.Session.Worker(parsed)
	}
	if w == nil {
		if t.r.At == 0 || row.Int("start_time_ms") <= toMs(t.r.At) {
			t.add(id, t.notYetEnded(row))
		}
		return
	}
	state, existed := workerAt(w, t.r.At)
	if !existed {
		t.seen[id] = true
		return
	}
	if was := row.Bool("is_alive"); was != state.alive && (was || !t.believed) {
		row = row.Clone()
		setWorkerState(row, &state)
	}
	t.add(id, row)
}

// notYetEnded is a saved row as it was before its end, if that was after the moment asked for.
func (t *workerTable) notYetEnded(row *pyjson.Object) *pyjson.Object {
	if t.r.At == 0 || row.Int("end_time_ms") <= toMs(t.r.At) {
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
func (t *workerTable) addEvents(w *session.Worker) {
	id := w.ID.String()
	state, existed := workerAt(w, t.r.At)
	if t.seen[id] || !existed {
		t.seen[id] = true // its log does not tell that it was there before
		return
	}
	row := t.newRow(id, w.Type, w.Node.String(), int64(w.PID))
	setWorkerState(row, &state)
	t.add(id, row)
}

// addDriver takes a job's driver, whose worker ID is the job's followed by 0xff.
func (t *workerTable) addDriver(j *session.Job) {
	id := driverWorker(j.ID)
	state, existed := driverAt(j, t.r.At)
	if t.seen[id] || !existed {
		t.seen[id] = true
		return
	}
	row := t.newRow(id, driverType, j.DriverNode.String(), j.DriverPID)
	s := workerState{alive: state.ended == 0, launch: noTime, launched: noTime, started: uint64(toMs(state.started)), ended: uint64(toMs(state.ended))}
	if !s.alive {
		s.exitType = "INTENDED_USER_EXIT"
	}
	setWorkerState(row, &s)
	t.add(id, row)
}

func driverWorker(j rayid.Job) string {
	var w rayid.Worker
	for i := range w {
		w[i] = 0xff
	}
	copy(w[:], j[:])
	return w.String()
}

// coreLog is the name of a core worker's log, which every worker and driver has.
var coreLog = regexp.MustCompile(`^(?:python|java|cpp)-core-(worker|driver)-([0-9a-f]{56})_(\d+)\.log$`)

// addLogged takes workers of which there is nothing but a log: when they started is not known, and shown as 0. Whether one of them was alive at the end is not known; their node's
// end and their actor's death are, and a session at its end has no others than what is alive or dead by those.
//
// A snapshot lists the workers Ray knew, in order of their IDs. Only where it was cut short are there others, beyond its last row.
func (t *workerTable) addLogged(logged []loggedWorker, list *pyjson.Object) {
	saved := list.List("result")
	if list != nil && int64(len(saved)) >= list.Int("num_filtered") {
		return
	}
	last := ""
	if len(saved) > 0 {
		row, _ := saved[len(saved)-1].(*pyjson.Object)
		last = row.String("worker_id")
	}
	deadWorkers := t.deadActorWorkers()
	for _, w := range logged {
		if t.seen[w.id] || w.id < last {
			continue
		}
		row := t.newRow(w.id, w.kind, w.node.String(), w.pid)
		nodeAlive := t.nodes.node(w.node.String()).Object("raylet").String("state") != dead
		setWorkerState(row, &workerState{alive: nodeAlive && !deadWorkers[w.id], launch: noTime, launched: noTime})
		t.add(w.id, row)
	}
}

// deadActorWorkers are the processes of actors that died or were restarted.
func (t *workerTable) deadActorWorkers() map[string]bool {
	gone := map[string]bool{}
	for i := range t.r.Session.Actors {
		state, _ := actorAt(&t.r.Session.Actors[i], t.r.At)
		for _, p := range state.formerProcesses {
			gone[p.worker.String()] = true
		}
		if state.state == dead && !state.worker.Nil() {
			gone[state.worker.String()] = true
		}
	}
	return gone
}

func (t *workerTable) newRow(id, kind, node string, pid int64) *pyjson.Object {
	return pyjson.Obj(
		"worker_id", id, "is_alive", nil, "worker_type", kind, "exit_type", nil, "node_id", node, "ip", t.nodes.ip(node), "pid", pid,
		"exit_detail", nil, "worker_launch_time_ms", nil, "worker_launched_time_ms", nil, "start_time_ms", nil, "end_time_ms", nil,
		"debugger_port", nil, "num_paused_threads", nil,
	)
}

func setWorkerState(row *pyjson.Object, s *workerState) {
	row.Set("is_alive", s.alive)
	row.Set("exit_type", nullable(s.exitType))
	row.Set("exit_detail", nullable(s.exitDetail))
	row.Set("worker_launch_time_ms", s.launch)
	row.Set("worker_launched_time_ms", s.launched)
	row.Set("start_time_ms", s.started)
	row.Set("end_time_ms", s.ended)
}
