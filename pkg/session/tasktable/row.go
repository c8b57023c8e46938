package tasktable

import (
	"bytes"
	"math"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// Row is one attempt of a task as it was at one moment. It refers into its table; the bytes that it returns must not be
// changed.
type Row struct {
	t  *Table
	p  *page
	i  int32
	at int64 // Unix nanoseconds, math.MaxInt64 for the end
}

// RunRow is a Row of which only how long the attempt ran is read, PlacedRow one of which only where and when it ran is.
type (
	RunRow    Row
	PlacedRow Row
	row       interface{ Row | RunRow | PlacedRow }
)

func (r RunRow) Attempt() int32                          { return Row(r).Attempt() }
func (r RunRow) Job() rayid.Job                          { return Row(r).Job() }
func (r RunRow) Function() []byte                        { return Row(r).Function() }
func (r RunRow) Failed() bool                            { return Row(r).Failed() }
func (r RunRow) Ran() (start, end int64, ok bool)        { return Row(r).Ran() }
func (r PlacedRow) Function() []byte                     { return Row(r).Function() }
func (r PlacedRow) Kind() int                            { return Row(r).Kind() }
func (r PlacedRow) Failed() bool                         { return Row(r).Failed() }
func (r PlacedRow) Span() (start, end int64, ok bool)    { return Row(r).Span() }
func (r PlacedRow) Place() (node, worker stringtable.ID) { return Row(r).Place() }

// AtEnd is the moment at which a session ended, whenever that was.
const AtEnd = 0

// Row returns row n (below Len) as it was at a moment, Unix nanoseconds, or AtEnd.
func (t *Table) Row(n int, at int64) Row {
	p, i := t.row(n)
	if at == AtEnd {
		at = math.MaxInt64
	}
	return Row{t: t, p: p, i: int32(i), at: at}
}

// rowOf returns row i of a page, as it was at the end.
func (t *Table) rowOf(p *page, i int) Row { return Row{t: t, p: p, i: int32(i), at: math.MaxInt64} }

// ID is the task's.
func (r Row) ID() rayid.Task { return r.p.id[r.i] }

// Attempt counts the task's attempts from 0.
func (r Row) Attempt() int32 { return r.p.attempt[r.i] }

// Job is the task's.
func (r Row) Job() rayid.Job { return r.p.job[r.i] }

// Defined reports whether the attempt has a definition. Ray does not show attempts without one.
func (r Row) Defined() bool { return r.p.def[r.i] != 0 }

func (r Row) definition() *eventjson.Definition { return r.t.defs.At(int(r.p.def[r.i])) }

// arenas returns where the row's texts, errors and profile events are: the page's own, or those of its shard.
func (r Row) arenas() *arenas {
	if own := r.p.arenas; own != nil {
		return own
	}
	return &r.t.arenas[shardOf(&r.p.id[r.i])]
}

// hadBegun reports whether the attempt had begun at the row's moment.
func (r Row) hadBegun() bool {
	if r.at == math.MaxInt64 {
		return true
	}
	_, began := r.state()
	return began
}

// Type is NORMAL_TASK, ACTOR_CREATION_TASK, ACTOR_TASK or DRIVER_TASK.
func (r Row) Type() []byte { return r.t.strings.Get(r.definition().Kind) }

// Language is PYTHON, JAVA or CPP.
func (r Row) Language() []byte { return r.t.strings.Get(r.definition().Language) }

// Function is the function's or the class's and the method's name, func_or_class_name.
func (r Row) Function() []byte { return r.t.strings.Get(r.definition().Function) }

// GivenName is the name that the task was submitted with, else its function's.
func (r Row) GivenName() []byte { return r.t.strings.Get(r.definition().Name) }

// Name is GivenName. Exception: a method without a given name, of an actor with a repr name, is "{repr}.{method}".
func (r Row) Name() []byte {
	def := r.definition()
	name := r.t.strings.Get(def.Name)
	if r.p.reprName[r.i] == 0 || def.Name != def.Function || string(r.t.strings.Get(def.Kind)) != eventjson.TypeActor {
		return name
	}
	repr := r.t.strings.Get(r.p.reprName[r.i])
	return append(append(append(make([]byte, 0, len(repr)+1+len(name)), repr...), '.'),
		name[bytes.LastIndexByte(name, '.')+1:]...)
}

// Resources, Labels and Fallback are JSON objects as Ray's State API answers them; nil where empty.
func (r Row) Resources() []byte { return r.t.strings.Get(r.definition().Resources) }

// Labels is the task's label selector.
func (r Row) Labels() []byte { return r.t.strings.Get(r.definition().Labels) }

// Fallback is the task's fallback strategy.
func (r Row) Fallback() []byte { return r.t.strings.Get(r.definition().Fallback) }

// RuntimeEnv is the task's runtime environment as Ray serialized it, JSON; nil if no event has one.
func (r Row) RuntimeEnv() []byte { return r.t.strings.Get(r.definition().RuntimeEnv) }

// CallSite is where the task was called, if Ray recorded it.
func (r Row) CallSite() (site []byte, ok bool) {
	def := r.definition()
	return r.t.strings.Get(def.CallSite), def.HasCallSite
}

// PlacementGroup, Parent, Actor, Node and Worker are binary IDs; nil where there is none.
func (r Row) PlacementGroup() []byte { return r.t.strings.Get(r.definition().Group) }

// Parent is the task that submitted this one.
func (r Row) Parent() []byte { return r.t.strings.Get(r.p.parent[r.i]) }

// Actor is the actor whose method the task is, or that it creates.
func (r Row) Actor() []byte { return r.t.strings.Get(r.p.actor[r.i]) }

// Node is where the attempt was sent, as is Worker.
func (r Row) Node() []byte {
	if !r.reached(submittedColumn, runningColumn) {
		return nil
	}
	return r.t.strings.Get(r.p.node[r.i])
}

// Worker is the process the attempt was sent to.
func (r Row) Worker() []byte {
	if !r.reached(submittedColumn, runningColumn) {
		return nil
	}
	return r.t.strings.Get(r.p.worker[r.i])
}

// PID is the worker's process ID; 0 if not known.
func (r Row) PID() int32 {
	if !r.reached(runningColumn) {
		return 0
	}
	return r.p.pid[r.i]
}

// reached reports whether one of some states, given by their columns, was entered by the row's moment, so that a value
// which is set in these states was known. It is also true if none was ever entered: then it is not known when the value
// was set.
func (r Row) reached(columns ...int) bool {
	if r.at == math.MaxInt64 {
		return true
	}
	anyEntered := false
	for _, c := range columns {
		if r.p.entered(int(r.i), c) {
			anyEntered = true
			if r.p.times[c][r.i] <= r.at {
				return true
			}
		}
	}
	return !anyEntered
}

// Paused is is_debugger_paused; ok is false if no event has it. It is not stored when the last event with it was sent,
// only that this was while the attempt ran: at a moment before the attempt's end the value is not known.
func (r Row) Paused() (paused, ok bool) {
	f := r.p.flags[r.i]
	return f&isPaused != 0, f&hasPaused != 0 && (r.at == math.MaxInt64 || r.endedAt() != 0)
}

// Ran is when an attempt began to run and when it finished, Unix nanoseconds. ok is false if it did not finish, or if
// either is not known.
func (r Row) Ran() (start, end int64, ok bool) {
	if !r.p.entered(int(r.i), runningColumn) || !r.p.entered(int(r.i), finishedColumn) || r.Failed() {
		return 0, 0, false
	}
	start, end = r.p.times[runningColumn][r.i], r.p.times[finishedColumn][r.i]
	return start, end, start <= end && end <= r.at
}

// Span is when an attempt ran, Unix nanoseconds: from when it began to run until it finished or failed, or until it was
// abandoned, as its worker had died or its job had ended; end is 0 if none of that had happened by the row's moment. ok
// is false if it is not known that it had begun by then.
func (r Row) Span() (start, end int64, ok bool) {
	start = r.p.times[runningColumn][r.i]
	if !r.p.entered(int(r.i), runningColumn) || start > r.at {
		return 0, 0, false
	}
	if end = r.endedAt(); end == 0 {
		end, _ = r.abandonedAt()
	}
	if end != 0 {
		end = max(end, start)
	}
	return start, end, true
}

// endedAt returns when, by its events, the attempt finished or failed; 0 if it had done neither by the row's moment.
func (r Row) endedAt() (end int64) {
	if at := r.p.times[finishedColumn][r.i]; r.p.entered(int(r.i), finishedColumn) && at <= r.at {
		end = at
	}
	for tr := range r.rareTransitions() {
		if tr.state == taskstate.Failed && tr.time <= r.at {
			end = max(end, tr.time)
		}
	}
	return end
}

// Place are the binary IDs of the node and the worker that the attempt ran on, as numbers in the table's strings; 0 if
// they are not known.
func (r Row) Place() (node, worker stringtable.ID) {
	return r.p.node[r.i], r.p.worker[r.i]
}

// Kind is a number that is equal for rows with one definition.
func (r Row) Kind() int { return definitionKey(r) }

// Failed reports whether the attempt failed.
func (r Row) Failed() bool {
	s, _ := r.state()
	return s == taskstate.Failed
}
