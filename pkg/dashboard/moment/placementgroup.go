package moment

import (
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// PlacementGroup gives a placement group's last transition at a moment (0: the end); bundles stay placed until placed anew.
func PlacementGroup(g *entities.PlacementGroup, at int64) (last entities.PlacementGroupTransition, existed bool) {
	last.State = Pending
	for i, t := range g.Transitions {
		if at != 0 && t.Time > at {
			return last, i > 0
		}
		if len(t.Placements) == 0 {
			t.Placements = last.Placements
		}
		last = t
	}
	return last, true
}
