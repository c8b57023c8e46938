package moment

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Actor is an actor at one moment. Its saved row is the one of /logical/actors.
type Actor struct {
	Stored[entities.Actor, ActorState]
	ActorState // of a saved row without what only its events tell
}

// Actors returns the actors that existed at the moment: those with events in the order of their first event, then those
// that only the saved answer has, in its order.
func (m *Moment) Actors(ctx context.Context) ([]Actor, error) {
	data, taken, err := m.SavedData(ctx, "/logical/actors")
	if err != nil {
		return nil, err
	}
	var rows []any
	for id, v := range data.Object("actors").All() {
		if row, ok := v.(*pyjson.Object); ok {
			rows = append(rows, withSavedID(row, id))
		}
	}
	joined := join(m, kind[entities.Actor, ActorState]{
		events:   m.Session.Actors,
		id:       func(a *entities.Actor) string { return a.ID.String() },
		eventsOf: func(id string) *entities.Actor { return findIn(id, m.Session.Actor) },
		stateAt:  ActorAt,
		savedID:  func(row *pyjson.Object) string { return row.String("actorId") },
		began:    func(row *pyjson.Object) int64 { return TimeIn(row, "startTime", time.Millisecond) },
		ended:    func(row *pyjson.Object) bool { return row.String("state") == Dead },
		sameState: func(row *pyjson.Object, s *ActorState) bool {
			return row.String("state") == s.State && row.Int("numRestarts") == int64(s.Restarts)
		},
		endedAt: func(row *pyjson.Object) int64 { return savedState(row).Ended },
		unended: func(row *pyjson.Object) ActorState {
			s := savedState(row)
			s.State, s.Placed, s.Changed, s.Ended = Alive, true, s.Started, 0
			if s.Worker.Nil() { // it never ran
				s.State, s.Placed = Unready, false
			}
			return s
		},
	}, rows, taken)
	actors := make([]Actor, len(joined))
	for i, k := range joined {
		actors[i] = actorOf(k)
	}
	first := func(a Actor) int64 {
		switch {
		case a.Events == nil:
			return math.MaxInt64
		case len(a.Events.Transitions) == 0:
			return 0
		}
		return a.Events.Transitions[0].Time
	}
	slices.SortStableFunc(actors, func(a, b Actor) int {
		if a.Events == nil && b.Events == nil {
			return 0
		}
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.ID, b.ID))
	})
	return actors, nil
}

// actorOf returns an actor with the state that counts, as Moment.Overrides decides: its events' or its saved row's.
// What neither of them has is zero.
func actorOf(thing Stored[entities.Actor, ActorState]) Actor {
	a := Actor{thing, thing.ByEvents}
	if thing.Newer { // its events are newer than its saved row, or it has none
		return a
	}
	saved := savedState(thing.Saved)
	a.State, a.Restarts = saved.State, saved.Restarts
	a.Repr = cmp.Or(a.Repr, saved.Repr)
	a.Started = cmp.Or(a.Started, saved.Started)
	a.Ended = cmp.Or(a.Ended, saved.Ended)
	if a.Worker.Nil() { // nil if it is not known
		a.Node, a.Worker, a.PID = saved.Node, saved.Worker, saved.PID
	}
	return a
}

// savedState returns the state that an actor's saved row shows. What only events tell is zero.
func savedState(row *pyjson.Object) (s ActorState) {
	s.State, s.Restarts, s.Repr = row.String("state"), int(row.Int("numRestarts")), row.String("reprName")
	s.Started, s.Ended = TimeIn(row, "startTime", time.Millisecond), TimeIn(row, "endTime", time.Millisecond)
	address := row.Object("address")
	s.Node, _ = rayid.Parse[rayid.Node](address.String("nodeId"))
	s.Worker, _ = rayid.Parse[rayid.Worker](address.String("workerId"))
	s.PID, s.Port = uint32(row.Int("pid")), int32(address.Int("port"))
	return s
}

// withSavedID returns a saved row with the ID under which it is saved; it copies the row if it has another ID. Until an
// actor's process has reported its actor to Ray, the fields that the dashboard adds from the process
// (ray/dashboard/modules/node/node_head.py) have nil IDs for a moment.
func withSavedID(row *pyjson.Object, id string) *pyjson.Object {
	if row.String("actorId") == id {
		return row
	}
	row = row.Clone()
	row.Set("actorId", id)
	if parsed, err := rayid.Parse[rayid.Actor](id); err == nil {
		row.Set("jobId", parsed.Job().String())
	}
	return row
}

// Processes returns the processes in which the actor ran, the last one first.
func (a *Actor) Processes() []ActorProcess {
	processes := slices.Clone(a.FormerProcesses)
	if !a.Worker.Nil() {
		processes = append(processes, a.Process())
	}
	slices.Reverse(processes)
	return processes
}

// ActorState is the state of an actor at one moment, from events.
type ActorState struct {
	State                              string
	Node                               rayid.Node   // of the last process
	Worker                             rayid.Worker // of the last process
	Placed                             bool         // there is a process, or there was one until it died
	PID                                uint32
	Port                               int32
	Repr                               string
	Restarts, Reconstructed, Preempted int
	Changed, Started, Ended            int64 // Unix ns, 0: not yet
	Begun, Left                        int64 // of the last process, as in ActorProcess
	Death                              []byte
	FormerProcesses                    []ActorProcess // oldest first, without the last process
}

// RestartedProcesses returns the processes whose end made Ray start the actor again, the oldest first: those that
// others followed, and the last one while none has. Why one ended, its worker's events say (WorkerAt), from Ray 2.58
// on.
func (s *ActorState) RestartedProcesses() []ActorProcess {
	restarted := slices.Clone(s.FormerProcesses)
	if last := s.Process(); !s.Placed && !last.Worker.Nil() {
		restarted = append(restarted, last)
	}
	return restarted
}

// ActorProcess is one process an actor ran in.
type ActorProcess struct {
	Node   rayid.Node
	Worker rayid.Worker
	// Begun and Left are when the actor was alive in it, Unix ns. 0: not known, or not yet.
	Begun, Left int64
}

// ActorAt returns an actor's state at a moment (Unix nanoseconds; 0: the session's end), by its events, and whether the
// actor existed then: from its first transition on, or all the time if none is stored. Restarts are counted, and times
// kept, as GcsActorManager does: the start is the first time the actor was alive; the process stays known after death,
// but not while the actor is restarting.
func ActorAt(a *entities.Actor, at int64) (s ActorState, existed bool) {
	s.State, existed = Unready, len(a.Transitions) == 0
	for _, t := range a.Transitions {
		if at != 0 && t.Time > at {
			continue // not the last one: an end may have an earlier time than what was before it
		}
		existed = true
		if t.State == Dead && s.State == Dead {
			continue // Ray reports some deaths twice
		}
		s.State, s.Changed = t.State, t.Time
		if t.ReprName != "" {
			s.Repr = t.ReprName
		}
		switch t.State {
		case Alive:
			s.setProcess(t)
		case Restarting:
			s.restart(t)
		case Dead:
			s.Ended, s.Death = t.Time, t.DeathCause
			s.Left = cmp.Or(s.Left, t.Time)
		}
	}
	return s, existed
}

// setProcess applies a transition to the state ALIVE, which names the process in which the actor is. A process before
// it, if it was another one, becomes a former one.
func (s *ActorState) setProcess(t entities.ActorTransition) {
	if !t.Worker.Nil() {
		if s.Worker != t.Worker {
			if !s.Worker.Nil() {
				s.Left = cmp.Or(s.Left, t.Time) // at the latest now, if no event said when
				s.FormerProcesses = append(s.FormerProcesses, s.Process())
			}
			s.Begun = t.Time
		}
		s.Node, s.Worker, s.PID, s.Port, s.Left = t.Node, t.Worker, t.PID, t.Port, 0
	}
	s.Placed = true
	s.Ended, s.Death = 0, nil
	s.Started = cmp.Or(s.Started, t.Time)
}

// Process returns the last process in which the actor was alive, or is; it is empty if there was none.
func (s *ActorState) Process() ActorProcess { return ActorProcess{s.Node, s.Worker, s.Begun, s.Left} }

// restart applies a transition to the state RESTARTING: the actor waits for another process.
func (s *ActorState) restart(t entities.ActorTransition) {
	s.Restarts++
	s.Left = cmp.Or(s.Left, t.Time)
	switch t.RestartReason {
	case "LINEAGE_RECONSTRUCTION":
		s.Reconstructed++
	case "NODE_PREEMPTION":
		s.Preempted++
	}
	s.Placed, s.Ended, s.Death = false, 0, nil
}

// Cause is why an actor died (ray.rpc.ActorDeathCause): the name of the message's field that is set, such as
// oomContext, with its text, and the reason that only actorDiedErrorContext has.
type Cause struct{ Context, Reason, Text string }

// Cause returns why the actor died; it is empty if the actor did not die, or if Ray does not say why.
func (s *ActorState) Cause() (c Cause) {
	cause, _ := pyjson.ParseObject(s.Death) // nil if it is none
	for name, v := range cause.All() {
		if context, ok := v.(*pyjson.Object); ok {
			return Cause{name, context.String("reason"),
				cmp.Or(context.String("errorMessage"), context.String("formattedExceptionString"))}
		}
	}
	return c
}

// Address returns the IDs (hex) of the node and the worker in which the actor runs or died; "" while there is no
// process.
func (s *ActorState) Address() (node, worker string) {
	if !s.Placed {
		return "", ""
	}
	return s.Node.String(), s.Worker.String()
}

// Name returns the actor's name or, without one, its class; "" if neither is known.
func (a *Actor) Name() string {
	if a.Events != nil {
		return cmp.Or(a.Events.Name, a.Events.Class)
	}
	return cmp.Or(a.Saved.String("name"), a.Saved.String("className"))
}
