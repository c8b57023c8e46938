package session

import (
	"bytes"
	"math"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Row is one attempt of a task as it stood at one moment. It is a reference into its table; bytes it gives must not be changed.
type Row struct {
	t  *Tasks
	p  *taskPage
	i  int32
	at int64 // Unix nanoseconds, math.MaxInt64 for the end
}

// Row gives row n (below Len) as of at; 0 is the end of the session.
func (t *Tasks) Row(n int, at int64) Row {
	p, i := t.row(n)
	if at == 0 {
		at = math.MaxInt64
	}
	return Row{t: t, p: p, i: int32(i), at: at}
}

// ID is the task's.
func (r Row) ID() rayid.Task { return r.p.id[r.i] }

// Attempt counts the task's attempts from 0.
func (r Row) Attempt() int32 { return r.p.attempt[r.i] }

// Job is the task's.
func (r Row) Job() rayid.Job { return r.p.job[r.i] }

// Defined says whether a definition came. Ray does not show attempts without.
func (r Row) Defined() bool { return r.p.def[r.i] != 0 }

func (r Row) definition() *definition { return r.t.defs.at(int(r.p.def[r.i])) }

func (r Row) arenas() *taskArenas {
	if own := r.p.arenas; own != nil {
		return own
	}
	return &r.t.arenas[shardOf(&r.p.id[r.i])]
}

// Existed says whether the attempt had begun at the row's moment.
func (r Row) Existed() bool {
	if r.at == math.MaxInt64 {
		return true
	}
	_, began := r.state()
	return began
}

// Type is NORMAL_TASK, ACTOR_CREATION_TASK, ACTOR_TASK or DRIVER_TASK.
func (r Row) Type() []byte { return r.t.texts.get(r.definition().kind) }

// Language is PYTHON, JAVA or CPP.
func (r Row) Language() []byte { return r.t.texts.get(r.definition().language) }

// Function is the function's or the class's and the method's name, func_or_class_name.
func (r Row) Function() []byte { return r.t.texts.get(r.definition().function) }

// GivenName is the name the task was given when it was submitted; its function's if none was.
func (r Row) GivenName() []byte { return r.t.texts.get(r.definition().name) }

// Name is GivenName; but a method that was given no name, of an actor that says how it wants to be shown, is "{repr}.{method}".
func (r Row) Name() []byte {
	def := r.definition()
	name := r.t.texts.get(def.name)
	if r.p.reprName[r.i] == 0 || def.name != def.function || !bytes.Equal(r.t.texts.get(def.kind), actorTask) {
		return name
	}
	repr := r.t.texts.get(r.p.reprName[r.i])
	return append(append(append(make([]byte, 0, len(repr)+1+len(name)), repr...), '.'), afterDot(name)...)
}

// Resources, Labels and Fallback are JSON objects as Ray's State API answers them; nil where empty.
func (r Row) Resources() []byte { return r.t.texts.get(r.definition().resources) }

// Labels is the task's label selector.
func (r Row) Labels() []byte { return r.t.texts.get(r.definition().labels) }

// Fallback is the task's fallback strategy.
func (r Row) Fallback() []byte { return r.t.texts.get(r.definition().fallback) }

// RuntimeEnv is the task's runtime environment as Ray serialized it, JSON; nil where none was told.
func (r Row) RuntimeEnv() []byte { return r.t.texts.get(r.definition().runtimeEnv) }

// CallSite is where the task was called, if Ray recorded it.
func (r Row) CallSite() (site []byte, ok bool) {
	def := r.definition()
	return r.t.texts.get(def.callSite), def.hasCallSite
}

// PlacementGroup, Parent, Actor, Node and Worker are binary IDs; nil where there is none.
func (r Row) PlacementGroup() []byte { return r.t.texts.get(r.definition().group) }

// Parent is the task that submitted this one.
func (r Row) Parent() []byte { return r.t.texts.get(r.p.parent[r.i]) }

// Actor is the actor whose method the task is, or that it creates.
func (r Row) Actor() []byte { return r.t.texts.get(r.p.actor[r.i]) }

// Node is where the attempt was sent, as is Worker.
func (r Row) Node() []byte {
	if !r.reached(2, 3) {
		return nil
	}
	return r.t.texts.get(r.p.node[r.i])
}

// Worker is the process the attempt was sent to.
func (r Row) Worker() []byte {
	if !r.reached(2, 3) {
		return nil
	}
	return r.t.texts.get(r.p.worker[r.i])
}

// PID is the worker's process ID; 0 where it was not told.
func (r Row) PID() int32 {
	if !r.reached(3) {
		return 0
	}
	return r.p.pid[r.i]
}

// reached says whether one of the common states was entered by the row's moment, or never: then it does not tell when a value was set.
func (r Row) reached(columns ...int) bool {
	if r.at == math.MaxInt64 {
		return true
	}
	told := false
	for _, c := range columns {
		if r.p.entered(int(r.i), c) {
			told = true
			if r.p.times[c][r.i] <= r.at {
				return true
			}
		}
	}
	return !told
}

// Paused is is_debugger_paused, if it was told.
func (r Row) Paused() (paused, ok bool) {
	f := r.p.flags[r.i]
	return f&isPaused != 0, f&hasPaused != 0
}
