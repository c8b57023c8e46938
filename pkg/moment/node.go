package moment

import (
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// NodeState is the state of a node at one moment, from events.
type NodeState struct {
	State           string
	Resources       map[string]float64 // the last told
	Reason, Message string             // of death
	Ended           int64              // Unix ns, 0: alive
}

// NodeAt returns a node's state at a moment (0: the end) and whether it was there at all.
func NodeAt(n *entities.Node, at int64) (s NodeState, existed bool) {
	s.State = Alive
	if at != 0 && n.Start > at {
		return s, false
	}
	for i, t := range n.Transitions {
		if at != 0 && t.Time > at {
			return s, i > 0 || n.Start != 0
		}
		s.State = t.State
		if len(t.Resources) > 0 {
			s.Resources = t.Resources
		}
		if t.State == Dead {
			s.Reason, s.Message, s.Ended = t.DeathReason, t.DeathMessage, t.Time
		}
	}
	return s, true
}

// StateMessage is compose_state_message in ray/dashboard/utils.py.
func (s *NodeState) StateMessage() any {
	text := map[string]string{
		"EXPECTED_TERMINATION": "Expected termination", "UNEXPECTED_TERMINATION": "Unexpected termination",
		"AUTOSCALER_DRAIN_PREEMPTED": "Terminated due to preemption", "AUTOSCALER_DRAIN_IDLE": "Terminated due to idle (no Ray activity)",
	}[s.Reason]
	switch {
	case s.Message == "" && text == "":
		return nil
	case text == "":
		return s.Message
	case s.Message == "":
		return text
	}
	return text + ": " + s.Message
}
