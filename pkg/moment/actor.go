package moment

import (
	"cmp"

	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

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
	Death                              []byte
	FormerProcesses                    []ActorProcess // oldest first, without the last process
}

// ActorProcess is one process an actor ran in.
type ActorProcess struct {
	Node   rayid.Node
	Worker rayid.Worker
}

// ActorAt returns an actor's state at a moment (0: the end) and whether the actor existed. Restarts are counted, and times kept, as GcsActorManager
// does: the start is the first time the actor was alive; the process stays known after death, but not while the actor is restarting.
func ActorAt(a *entities.Actor, at int64) (s ActorState, existed bool) {
	s.State = Unready
	for i, t := range a.Transitions {
		if at != 0 && t.Time > at {
			return s, i > 0
		}
		if t.State == Dead && s.State == Dead {
			continue // Ray reports some deaths twice
		}
		s.State, s.Changed = t.State, t.Time
		if t.ReprName != "" {
			s.Repr = t.ReprName
		}
		switch t.State {
		case Alive:
			s.place(t)
		case Restarting:
			s.restart(t.RestartReason)
		case Dead:
			s.Ended, s.Death = t.Time, t.DeathCause
		}
	}
	return s, true
}

func (s *ActorState) place(t entities.ActorTransition) {
	if !t.Worker.Nil() {
		if !s.Worker.Nil() && s.Worker != t.Worker {
			s.FormerProcesses = append(s.FormerProcesses, ActorProcess{s.Node, s.Worker})
		}
		s.Node, s.Worker, s.PID, s.Port = t.Node, t.Worker, t.PID, t.Port
	}
	s.Placed = true
	s.Ended, s.Death = 0, nil
	s.Started = cmp.Or(s.Started, t.Time)
}

func (s *ActorState) restart(reason string) {
	s.Restarts++
	switch reason {
	case "LINEAGE_RECONSTRUCTION":
		s.Reconstructed++
	case "NODE_PREEMPTION":
		s.Preempted++
	}
	s.Placed, s.Ended, s.Death = false, 0, nil
}

// AddressNode and addressWorker are the IDs of an actor's address as Ray spells them: empty while there is no process.
func (s *ActorState) AddressNode() string {
	if s.Placed {
		return s.Node.String()
	}
	return ""
}

// AddressWorker is the worker's ID as AddressNode is the node's.
func (s *ActorState) AddressWorker() string {
	if s.Placed {
		return s.Worker.String()
	}
	return ""
}
