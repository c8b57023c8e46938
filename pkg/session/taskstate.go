package session

import (
	"slices"
	"sync"
)

// taskState is a number of ray.rpc.TaskStatus (src/ray/protobuf/common.proto). Ray's own rule is that the state of a task is the highest
// one it ever was in. States that a newer Ray adds get numbers from numTaskStates on, see taskStates.
type taskState uint8

const (
	stateNil taskState = iota
	statePendingArgsAvail
	statePendingNodeAssignment
	statePendingObjStoreMemAvail
	statePendingArgsFetch
	stateSubmittedToWorker
	statePendingActorTaskArgsFetch
	statePendingActorTaskOrdering
	stateRunning
	stateRunningInRayGet
	stateRunningInRayWait
	stateFinished
	stateFailed
	stateGettingAndPinningArgs
	numTaskStates
)

var taskStateNames = [numTaskStates]string{
	"NIL", "PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "PENDING_OBJ_STORE_MEM_AVAIL", "PENDING_ARGS_FETCH", "SUBMITTED_TO_WORKER",
	"PENDING_ACTOR_TASK_ARGS_FETCH", "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY", "RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT",
	"FINISHED", "FAILED", "GETTING_AND_PINNING_ARGS",
}

var taskStateByName = func() map[string]taskState {
	m := make(map[string]taskState, numTaskStates)
	for s, n := range taskStateNames {
		m[n] = taskState(s)
	}
	return m
}()

// commonStates are those that nearly every attempt passes; their times are columns, those of the others lie in an arena.
var commonStates = [...]taskState{statePendingArgsAvail, statePendingNodeAssignment, stateSubmittedToWorker, stateRunning, stateFinished}

const numCommonStates = len(commonStates)

// commonColumn is a state's place in commonStates, -1 if it has none.
func commonColumn(s taskState) int {
	switch s {
	case statePendingArgsAvail:
		return 0
	case statePendingNodeAssignment:
		return 1
	case stateSubmittedToWorker:
		return 2
	case stateRunning:
		return 3
	case stateFinished:
		return 4
	}
	return -1
}

// taskStates numbers the states that are not Ray 2.60's, in the order they are met. It may be used by several goroutines.
type taskStates struct {
	mu   sync.RWMutex
	more []string
}

// maxNewStates bounds what broken input can add; whatever comes after is NIL.
const maxNewStates = 255 - int(numTaskStates)

// parse maps a name, or a number as protobuf's JSON writes the values it has no name for.
func (t *taskStates) parse(name []byte) taskState {
	if s, ok := taskStateByName[string(name)]; ok {
		return s
	}
	if n := digits(name); len(name) > 0 && len(name) < 4 && n >= 0 && n < int(numTaskStates) {
		return taskState(n)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.more, string(name))
	if i < 0 {
		if len(t.more) == maxNewStates || len(name) == 0 {
			return stateNil
		}
		i = len(t.more)
		t.more = append(t.more, string(name))
	}
	return numTaskStates + taskState(i)
}

// name is Ray's name of a state.
func (t *taskStates) name(s taskState) string {
	if s < numTaskStates {
		return taskStateNames[s]
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.more[s-numTaskStates]
}

// compare orders states as Ray does, by number; those it has no number for come last, by name.
func (t *taskStates) compare(a, b taskState) int {
	if a < numTaskStates || b < numTaskStates {
		return int(a) - int(b)
	}
	x, y := t.name(a), t.name(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
