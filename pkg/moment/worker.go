package moment

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Types of workers, Ray's own names.
const (
	TypeWorker = "WORKER"
	TypeDriver = "DRIVER"
)

// noTime is what Ray shows for a launch that no raylet saw: -1 as an unsigned number.
const noTime = uint64(math.MaxUint64)

// Worker is a core worker at one moment. Its saved row is the one of the State API's list.
type Worker struct {
	Stored[entities.Worker, WorkerState]
	WorkerState        // of a saved row without what only its raylet knows: the times of the launch
	Type        string // TypeWorker, TypeDriver or another one of Ray's
	Node        string // hex
	PID         int64
}

// Workers returns the workers that existed at the moment: those of the saved list and of events; then drivers of which
// only the events of jobs tell; then workers of which only the names of log files tell (Ray sends worker events from
// 2.58).
func (m *Moment) Workers(ctx context.Context) ([]Worker, error) {
	list, taken, err := m.SavedList(ctx, "/api/v0/workers")
	if err != nil {
		return nil, err
	}
	nodes, err := m.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	t := workerTable{m: m, seen: map[string]bool{}}
	for _, row := range Objects(list.List("result")) {
		t.seen[row.String("worker_id")] = true
	}
	for _, k := range join(m, kind[entities.Worker, WorkerState]{
		events:    m.Session.Workers,
		id:        func(w *entities.Worker) string { return w.ID.String() },
		eventsOf:  func(id string) *entities.Worker { return findIn(id, m.Session.Worker) },
		stateAt:   WorkerAt,
		savedID:   func(row *pyjson.Object) string { return row.String("worker_id") },
		began:     func(row *pyjson.Object) int64 { return TimeIn(row, "start_time_ms", time.Millisecond) },
		ended:     func(row *pyjson.Object) bool { return !row.Bool("is_alive") },
		sameState: func(row *pyjson.Object, s *WorkerState) bool { return row.Bool("is_alive") == s.Alive },
		endedAt:   func(row *pyjson.Object) int64 { return TimeIn(row, "end_time_ms", time.Millisecond) },
		unended: func(row *pyjson.Object) WorkerState {
			return WorkerState{Alive: true, Started: uint64(row.Int("start_time_ms"))}
		},
	}, list.List("result"), taken) {
		t.add(workerOf(k))
	}
	for i := range m.Session.Workers {
		// The events of a worker that did not exist yet count more than its log, which does not say when it began.
		t.seen[m.Session.Workers[i].ID.String()] = true
	}
	for i := range m.Session.Jobs {
		t.addDriver(&m.Session.Jobs[i])
	}
	if err := t.addLogged(ctx, nodes, list, taken); err != nil {
		return nil, err
	}
	return t.workers, nil
}

// workerOf returns a worker of the saved list or of events, with the state that counts, as Moment.Overrides decides.
func workerOf(thing Stored[entities.Worker, WorkerState]) Worker {
	if thing.Saved == nil {
		return Worker{Stored: thing, WorkerState: thing.ByEvents, Type: thing.Events.Type,
			Node: thing.Events.Node.String(), PID: int64(thing.Events.PID)}
	}
	row := thing.Saved
	w := Worker{Stored: thing, Type: row.String("worker_type"), Node: row.String("node_id"), PID: row.Int("pid"),
		WorkerState: WorkerState{
			Alive: row.Bool("is_alive"), Started: uint64(row.Int("start_time_ms")),
			Ended:    uint64(row.Int("end_time_ms")),
			ExitType: row.String("exit_type"), ExitDetail: row.String("exit_detail"),
		}}
	if thing.Newer { // the saved row shows a state of another time
		w.WorkerState = thing.ByEvents
	}
	return w
}

// workerTable collects workers, each once.
type workerTable struct {
	m       *Moment
	workers []Worker
	seen    map[string]bool
}

// add adds a worker. The caller has checked that it is not there yet.
func (t *workerTable) add(w Worker) {
	t.seen[w.ID] = true
	t.workers = append(t.workers, w)
}

// addDriver adds a job's driver as a worker, unless it is there already or did not exist at the moment.
func (t *workerTable) addDriver(j *entities.Job) {
	id := DriverWorker(j.ID)
	state, existed := DriverAt(j, t.m.At)
	if t.seen[id] || !existed {
		t.seen[id] = true
		return
	}
	w := Worker{Type: TypeDriver, Node: j.DriverNode.String(), PID: j.DriverPID, WorkerState: WorkerState{
		Alive: state.Ended == 0, Launch: noTime, Launched: noTime,
		Started: uint64(Milliseconds(state.Started)), Ended: uint64(Milliseconds(state.Ended)),
	}}
	if w.ID = id; !w.Alive {
		w.ExitType = "INTENDED_USER_EXIT"
	}
	t.add(w)
}

// DriverWorker returns the worker ID (hex) of a job's driver: the job's ID, then bytes of 0xff.
func DriverWorker(j rayid.Job) string {
	var w rayid.Worker
	for i := range w {
		w[i] = 0xff
	}
	copy(w[:], j[:])
	return w.String()
}

// addLogged adds the workers of which there is only a log. Such a worker counts as dead if its node or its actor is.
// When it started is not known, so Started is 0.
//
// list is Ray's list of workers, sorted by ID and saved at the time taken (Unix ns); nil if none is saved. Ray may have
// cut it. If the list is whole, or if its last row has a greater ID than a worker that it lacks, Ray no longer knew
// that worker: it is added only if events say that it ran something after taken. A list that was cut says nothing about
// IDs behind its last row, so these workers are added.
func (t *workerTable) addLogged(ctx context.Context, nodes Nodes, list *pyjson.Object, taken int64) error {
	saved := list.List("result")
	beforeCut := list.Int("num_filtered") // how many rows there were before Ray's limit cut the list
	whole := list != nil && int64(len(saved)) >= beforeCut
	lastID := ""
	if len(saved) > 0 {
		row, _ := saved[len(saved)-1].(*pyjson.Object)
		lastID = row.String("worker_id")
	}
	names := t.m.LogNames()
	missing := map[string]bool{}
	for _, logged := range names.Workers {
		if !t.seen[logged.ID] && (whole || logged.ID < lastID) {
			missing[logged.ID] = true
		}
	}
	later, err := t.m.workersAfter(ctx, taken, missing)
	if err != nil {
		return err
	}
	ended := t.m.EndedActorWorkers()
	for _, logged := range names.Workers {
		if t.seen[logged.ID] || missing[logged.ID] && !later[logged.ID] {
			continue
		}
		node := nodes.ByID[logged.Node.String()]
		w := Worker{Type: logged.Kind, Node: logged.Node.String(), PID: logged.PID, WorkerState: WorkerState{
			Alive: (node == nil || node.State != Dead) && !ended[logged.ID], Launch: noTime, Launched: noTime,
		}}
		w.ID = logged.ID
		t.add(w)
	}
	return nil
}

// workerCache caches workers of the moment that was last asked for: each view of a node asks for later ones again, and
// each log of an archive for ended ones.
type workerCache struct{ later, ended shared.Value[map[string]bool] }

// workersKey returns a text that changes when the contents of workerCache do.
func (m *Moment) workersKey() string { return fmt.Sprint(StateOf(m.Session), " ", m.At) }

// workersAfter returns, of the workers of missing, those in which an actor or a task began after a list of workers was
// saved that lacks them (saved, Unix ns; 0: not known, then there are none). The keys of both maps are IDs in hex. It
// goes through all tasks, so it does so only if a worker is missing, and once for each moment: missing depends on
// nothing else.
func (m *Moment) workersAfter(ctx context.Context, saved int64, missing map[string]bool) (map[string]bool, error) {
	if len(missing) == 0 || saved == 0 || saved >= cmp.Or(m.At, m.Session.End) {
		return nil, nil
	}
	return Cached[workerCache](m).later.GetFor(ctx, m.workersKey(), func(ctx context.Context) (map[string]bool, error) {
		later := map[string]bool{}
		add := func(worker string) {
			if missing[worker] {
				later[worker] = true
			}
		}
		for i := range m.Session.Actors {
			for _, t := range m.Session.Actors[i].Transitions {
				if t.Time > saved && m.isPast(t.Time) {
					add(t.Worker.String())
				}
			}
		}
		tasks := m.Session.Tasks
		workers := map[stringtable.ID]bool{}
		err := tasktable.Each(tasks, tasktable.Query{At: m.At, Stop: func() error { return context.Cause(ctx) }},
			func(_ int, r tasktable.PlacedRow) {
				if start, _, ok := r.Span(); ok && start > saved {
					_, worker := r.Place()
					workers[worker] = true
				}
			})
		for worker := range workers {
			add(hex.EncodeToString(tasks.String(worker)))
		}
		return later, err
	})
}

// EndedActorWorkers returns the IDs (hex) of the worker processes in which actors ran that then died or were restarted.
func (m *Moment) EndedActorWorkers() map[string]bool {
	// Nothing is read: it cannot fail.
	ended, _ := Cached[workerCache](m).ended.GetFor(context.Background(), m.workersKey(),
		func(context.Context) (map[string]bool, error) {
			gone := map[string]bool{}
			for i := range m.Session.Actors {
				state, _ := ActorAt(&m.Session.Actors[i], m.At)
				for _, p := range state.RestartedProcesses() {
					gone[p.Worker.String()] = true
				}
				if state.State == Dead && !state.Worker.Nil() {
					gone[state.Worker.String()] = true
				}
			}
			return gone, nil
		})
	return ended
}

// WorkerState is the state of a worker at one moment, from events.
type WorkerState struct {
	Alive                            bool
	Launch, Launched, Started, Ended uint64 // Unix ms
	ExitType, ExitDetail             string
}

// WorkerAt returns a worker's state at a moment (Unix ns; 0: the session's end) by its events, and whether it existed
// then: from its first transition on, or all the time if none is stored.
func WorkerAt(w *entities.Worker, at int64) (s WorkerState, existed bool) {
	s = WorkerState{Alive: true, Launch: noTime, Launched: noTime}
	existed = len(w.Transitions) == 0
	for _, t := range w.Transitions {
		if at != 0 && t.Time > at {
			continue // not the last one: an end may have an earlier time than what was before it
		}
		existed = true
		s.Alive = t.State != Dead
		setIfKnown(&s.Launch, t.LaunchMs)
		setIfKnown(&s.Launched, t.LaunchedMs)
		setIfKnown(&s.Started, t.StartMs)
		setIfKnown(&s.Ended, t.EndMs)
		if !s.Alive {
			s.ExitType, s.ExitDetail = t.ExitType, t.ExitDetail
		}
	}
	return s, existed
}

// setIfKnown sets *t to a time that an event has; 0 means that the event has none.
func setIfKnown(t *uint64, v uint64) {
	if v != 0 {
		*t = v
	}
}
