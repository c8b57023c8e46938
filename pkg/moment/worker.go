package moment

import (
	"math"

	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Types of workers, Ray's own names.
const (
	TypeWorker = "WORKER"
	TypeDriver = "DRIVER"
)

// NoTime is what Ray shows for a launch that no raylet saw: -1 as an unsigned number.
const NoTime = uint64(math.MaxUint64)

// WorkerState is the state of a worker at one moment, from events.
type WorkerState struct {
	Alive                            bool
	Launch, Launched, Started, Ended uint64 // Unix ms
	ExitType, ExitDetail             string
}

// WorkerAt returns a worker's state at a moment and whether it was there at all.
func WorkerAt(w *entities.Worker, at int64) (s WorkerState, existed bool) {
	s = WorkerState{Alive: true, Launch: NoTime, Launched: NoTime}
	for i, t := range w.Transitions {
		if at != 0 && t.Time > at {
			return s, i > 0
		}
		s.Alive = t.State != Dead
		if t.LaunchMs != 0 {
			s.Launch = t.LaunchMs
		}
		if t.LaunchedMs != 0 {
			s.Launched = t.LaunchedMs
		}
		if t.StartMs != 0 {
			s.Started = t.StartMs
		}
		if t.EndMs != 0 {
			s.Ended = t.EndMs
		}
		if !s.Alive {
			s.ExitType, s.ExitDetail = t.ExitType, t.ExitDetail
		}
	}
	return s, true
}
