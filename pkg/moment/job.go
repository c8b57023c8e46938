package moment

import (
	"cmp"

	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// finished is the state of a driver job that ended.
const finished = "FINISHED"

// DriverState is the state of a driver at one moment, from events.
type DriverState struct {
	Started, Ended int64 // Unix ns, 0: not yet
}

// DriverAt returns a driver's state at a moment and whether it was there at all.
func DriverAt(j *entities.Job, at int64) (s DriverState, existed bool) {
	for i, t := range j.Transitions {
		if at != 0 && t.Time > at {
			return s, i > 0
		}
		s.Started = cmp.Or(s.Started, t.Time)
		if t.State == finished {
			s.Ended = t.Time
		}
	}
	return s, true
}
