package moment

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// TestGroupAt: a placement group is there from when it was requested, though its first transition is later. If no event
// says when that was, its first transition counts.
func TestGroupAt(t *testing.T) {
	placed := []entities.PlacementGroupTransition{{State: Pending, Time: 10}, {State: "CREATED", Time: 20}}
	for _, tt := range []struct {
		created, at int64
		state       string
		existed     bool
	}{
		{created: 5, at: 4},
		{created: 5, at: 7, state: Pending, existed: true},
		{created: 5, at: 15, state: Pending, existed: true},
		{created: 5, at: 20, state: "CREATED", existed: true},
		{created: 5, at: 0, state: "CREATED", existed: true},
		{created: 0, at: 7},
		{created: 0, at: 10, state: Pending, existed: true},
	} {
		s, existed := GroupAt(&entities.PlacementGroup{Created: tt.created, Transitions: placed}, tt.at)
		if existed != tt.existed || existed && s.State != tt.state {
			t.Errorf("requested at %d, at %d: %q, there: %v", tt.created, tt.at, s.State, existed)
		}
	}
}
