package moment

import (
	"cmp"

	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Group is the state of a placement group at one moment, from events: its last transition, and when it was requested, when its placement was last
// tried, and when it was first placed (Unix ns, 0: not yet, or not known).
type GroupState struct {
	entities.PlacementGroupTransition
	Created, Started, Placed int64
}

// GroupAt returns a placement group's state at a moment (0: the end), and whether it was there at all; bundles stay placed until placed
// again.
func GroupAt(g *entities.PlacementGroup, at int64) (s GroupState, existed bool) {
	s.State, s.Created = Pending, g.Created
	for i, t := range g.Transitions {
		if at != 0 && t.Time > at {
			return s, i > 0
		}
		s.Created = cmp.Or(s.Created, t.Time)
		if t.SchedulingState == "SCHEDULING_STARTED" {
			s.Started = t.Time
		}
		if t.State == "CREATED" && s.Placed == 0 {
			s.Placed = t.Time
		}
		if len(t.Placements) == 0 {
			t.Placements = s.Placements
		}
		s.PlacementGroupTransition = t
	}
	return s, at == 0 || s.Created <= at
}
