package eventjson

import (
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// TaskUpdate is the content of one event about one attempt of a task, like Ray's own gcs.proto TaskEvents. A decoder
// has one and reuses it, and its slices, for every event.
type TaskUpdate struct {
	ID      rayid.Task
	Attempt int32
	Job     rayid.Job

	// From TASK_DEFINITION_EVENT and ACTOR_TASK_DEFINITION_EVENT; Definition is nil for all others.
	Definition *Definition
	Parent     stringtable.ID // binary, as actor
	Actor      stringtable.ID

	// From TASK_LIFECYCLE_EVENT.
	Transitions []Transition
	Node        stringtable.ID
	Worker      stringtable.ID
	PID         int32
	ReprName    stringtable.ID
	Flags       TaskFlags
	Time        int64 // of the event, for values of which the last event counts
	HasError    bool
	ErrorType   stringtable.ID
	ErrorText   []byte // without terminal colours

	StdoutFile, StderrFile                         stringtable.ID
	StdoutStart, StdoutEnd, StderrStart, StderrEnd int64

	// From TASK_PROFILE_EVENT; Profiler is zero for all others.
	Profiler Profiler
	Profile  []ProfileEvent
}

// TaskFlags say which values an update has, for those whose zero value means something.
type TaskFlags uint16

const (
	HasLogInfo TaskFlags = 1 << iota
	HasStdoutStart
	HasStdoutEnd
	HasStderrStart
	HasStderrEnd
	HasPaused // the event has is_debugger_paused
	IsPaused
)

type Transition struct {
	State taskstate.State
	Time  int64 // Unix nanoseconds
}

func (u *TaskUpdate) reset() {
	*u = TaskUpdate{Transitions: u.Transitions[:0], ErrorText: u.ErrorText[:0], Profile: u.Profile[:0]}
}

// Definition is what tasks of the same kind have in common: TaskInfoEntry of Ray's gcs.proto without IDs. Sessions have
// few different ones.
type Definition struct {
	Kind     stringtable.ID // NORMAL_TASK, ACTOR_CREATION_TASK, ACTOR_TASK or DRIVER_TASK
	Language stringtable.ID
	Name     stringtable.ID
	Function stringtable.ID // func_or_class_name: the function's name, after the class's and a dot if there is one
	// Resources, Labels and Fallback are JSON as Ray's State API answers it, 0 where empty.
	Resources stringtable.ID
	Labels    stringtable.ID
	Fallback  stringtable.ID
	// RuntimeEnv is JSON as Ray serialized it.
	RuntimeEnv stringtable.ID
	CallSite   stringtable.ID
	// HasCallSite distinguishes an empty call site from none.
	HasCallSite bool
	Group       stringtable.ID // placement group, binary
}

// Texts are the strings that it has, in the order in which definitions are compared.
func (d Definition) Texts() []stringtable.ID {
	return []stringtable.ID{d.Name, d.Function, d.Kind, d.Language, d.Resources, d.Labels, d.Fallback, d.RuntimeEnv,
		d.CallSite, d.Group}
}

// Profiler is the process that sent profile events (ProfileEvents of common.proto).
type Profiler struct {
	Kind stringtable.ID // worker or driver
	ID   stringtable.ID // binary
	IP   stringtable.ID
}

// Texts are the strings that it has, in the order in which profilers are compared.
func (p Profiler) Texts() []stringtable.ID { return []stringtable.ID{p.Kind, p.ID, p.IP} }

// ProfileEvent is ProfileEventEntry of Ray's common.proto.
type ProfileEvent struct {
	Start, End int64 // Unix nanoseconds
	Name       stringtable.ID
	// Extra is JSON as Ray's State API answers it; 0 for {}. The task's own ID is replaced by OwnIDMark.
	Extra stringtable.ID
}

// OwnIDMark replaces the hex of the task's own ID in extra data, so that many tasks have the same string. JSON cannot
// contain it.
const OwnIDMark = 0
