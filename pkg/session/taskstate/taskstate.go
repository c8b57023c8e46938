// Package taskstate numbers the states of tasks as Ray does. States that only a newer Ray has get their numbers when
// they first occur.
package taskstate

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// State is a number of ray.rpc.TaskStatus (src/ray/protobuf/common.proto). Ray's own rule is that the state of a task
// is the highest one it ever was in. States that a newer Ray adds get numbers from Known on, see Registry.
type State uint8

const (
	Nil State = iota
	PendingArgsAvail
	PendingNodeAssignment
	PendingObjStoreMemAvail
	PendingArgsFetch
	SubmittedToWorker
	PendingActorTaskArgsFetch
	PendingActorTaskOrdering
	Running
	RunningInRayGet
	RunningInRayWait
	Finished
	Failed
	GettingAndPinningArgs
	Known
)

var names = [Known]string{
	"NIL", "PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "PENDING_OBJ_STORE_MEM_AVAIL", "PENDING_ARGS_FETCH",
	"SUBMITTED_TO_WORKER",
	"PENDING_ACTOR_TASK_ARGS_FETCH", "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY", "RUNNING", "RUNNING_IN_RAY_GET",
	"RUNNING_IN_RAY_WAIT",
	"FINISHED", "FAILED", "GETTING_AND_PINNING_ARGS",
}

var byName = func() map[string]State {
	m := make(map[string]State, Known)
	for s, n := range names {
		m[n] = State(s)
	}
	return m
}()

var (
	pending = []State{PendingArgsAvail, PendingNodeAssignment, PendingObjStoreMemAvail, PendingArgsFetch}
	running = []State{Running, RunningInRayGet, RunningInRayWait}
)

// IsPending reports whether an attempt in this state waits until a worker gets it.
func (s State) IsPending() bool { return slices.Contains(pending, s) }

// IsRunning reports whether a worker runs an attempt in this state.
func (s State) IsRunning() bool { return slices.Contains(running, s) }

// ByName finds a state that Ray 2.60 has.
func ByName(name []byte) (State, bool) {
	s, ok := byName[string(name)]
	return s, ok
}

// Registry numbers the states that are not Ray 2.60's, in the order they are met. It is safe for concurrent use.
type Registry struct {
	mu   sync.RWMutex
	more []string
}

// NewRegistry numbers the states that are not Ray 2.60's as newer does.
func NewRegistry(newer []string) *Registry { return &Registry{more: newer} }

// MaxNewer bounds the states that damaged events can add, and maxName their names, in bytes; others become NIL.
const (
	MaxNewer = 255 - int(Known)
	maxName  = 256
)

// Parse returns the state with a name. A name may be the number of a state, as protobuf's JSON writes values that it
// has no name for. An unknown name gets a new state, unless there are MaxNewer of them or it is empty or too long: then
// it is Nil.
func (t *Registry) Parse(name []byte) State {
	if s, ok := byName[string(name)]; ok {
		return s
	}
	if n, err := strconv.ParseUint(string(name), 10, 8); err == nil && len(name) < 4 && n < uint64(Known) {
		return State(n)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.more, string(name))
	if i < 0 {
		if len(t.more) == MaxNewer || len(name) == 0 || len(name) > maxName {
			return Nil
		}
		i = len(t.more)
		t.more = append(t.more, string(name))
	}
	return Known + State(i)
}

// Name is Ray's name of a state.
func (t *Registry) Name(s State) string {
	if s < Known {
		return names[s]
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.more[s-Known]
}

// Compare orders states as Ray does, by number; those it has no number for come last, by name.
func (t *Registry) Compare(a, b State) int {
	if a < Known || b < Known {
		return int(a) - int(b)
	}
	return strings.Compare(t.Name(a), t.Name(b))
}

// Newer lists the states that Ray 2.60 does not have.
func (t *Registry) Newer() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.more)
}
