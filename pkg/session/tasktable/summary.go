package tasktable

import (
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// Summary counts attempts by name and state (TaskSummaries.to_summary_by_func_name in ray/util/state/common.py).
type Summary struct {
	Groups []Group // in the order of their first rows
	TaskCounts
	// Listed and Matching are those of Selection.
	Listed, Matching int
}

// TaskCounts count attempts by the type of their task.
type TaskCounts struct {
	Tasks, ActorTasks, ActorsScheduled int
}

// add counts n attempts of tasks of a type.
func (c *TaskCounts) add(kind []byte, n int) {
	switch string(kind) {
	case eventjson.TypeNormal:
		c.Tasks += n
	case eventjson.TypeActor:
		c.ActorTasks += n
	case eventjson.TypeActorCreation:
		c.ActorsScheduled += n
	}
}

// Group are the attempts of one name.
type Group struct {
	Name   string
	Type   string // of the first one
	States []StateCount
}

// StateCount is how many attempts are in a state.
type StateCount struct {
	State string
	Count int
}

// Summarize groups the rows that q's filters keep by name; with byFunction by the function's name only, as Ray before
// 2.57 did. The limit is not used.
func (t *Table) Summarize(q Query, byFunction bool) (*Summary, error) {
	b := summaryBuilder{Summary: &Summary{}, byFunction: byFunction, defs: make([]defCount, t.defs.Len()),
		byName: make(map[string]int32), reprs: make(map[sameName]int32)}
	var err error
	b.Listed, err = visitRows(t, q, ScanPart, func(_ int, r Row) { b.add(r) })
	for id, d := range b.defs {
		if d.rows > 0 {
			b.TaskCounts.add(t.strings.Get(t.defs.At(id).Kind), d.rows)
		}
	}
	for i := range b.Groups {
		b.Groups[i].States = t.withStateNames(b.counts[i])
	}
	return b.Summary, err
}

// SummaryBytes estimates the memory that Summarize and an answer made of it take, of tasks with so many names besides
// their definitions'.
func (t *Table) SummaryBytes(names int) int64 { return 1<<20 + int64(t.defs.Len()+names)*groupBytes }

// groupBytes is about the memory of a group, its name, its place in two maps and its row in an answer.
const groupBytes = 512

// CountStates counts the rows that q's filters keep by state; the limit is not used.
func (t *Table) CountStates(q Query) ([]StateCount, error) {
	var counts []numberCount
	_, err := visitRows(t, q, ScanPart, func(_ int, r Row) {
		state, _ := r.state()
		counts = addCount(counts, state, 1)
	})
	return t.withStateNames(counts), err
}

// withStateNames gives counts the names of their states.
func (t *Table) withStateNames(counts []numberCount) (states []StateCount) {
	for _, c := range counts {
		states = append(states, StateCount{State: t.states.Name(c.state), Count: c.rows})
	}
	return states
}

// summaryBuilder counts rows. What rows of one definition share is computed once.
type summaryBuilder struct {
	*Summary
	byFunction bool
	defs       []defCount
	byName     map[string]int32
	reprs      map[sameName]int32
	counts     [][]numberCount // by group, in the order of their first rows
}

type defCount struct {
	rows  int
	group int32 // number of the group for rows without a repr name, plus one
}

// sameName identifies rows that surely have the same name: one definition, and one repr name of the actor.
type sameName struct {
	def  defID
	repr stringtable.ID
}

// numberCount is a StateCount with the state's number.
type numberCount struct {
	state taskstate.State
	rows  int
}

// add counts a row in its group.
func (b *summaryBuilder) add(r Row) {
	b.Matching++
	d := &b.defs[r.p.def[r.i]]
	d.rows++
	state, _ := r.state()
	g := b.group(r, d)
	b.counts[g] = addCount(b.counts[g], state, 1)
}

// group returns the number of the row's group, by its name, and adds a group if the name is new. d is what is known of
// the row's definition: the group of rows without a name of their own is found there.
func (b *summaryBuilder) group(r Row, d *defCount) int32 {
	repr := r.p.reprName[r.i]
	if repr == 0 && d.group > 0 { // d.group is the number plus one
		return d.group - 1
	}
	k := sameName{r.p.def[r.i], repr}
	g, known := b.reprs[k]
	if !known {
		name := string(r.nameOrFunction())
		if b.byFunction {
			name = string(r.Function())
		}
		if g, known = b.byName[name]; !known {
			g = int32(len(b.Groups))
			b.byName[name] = g
			b.Groups = append(b.Groups, Group{Name: name, Type: string(r.Type())})
			b.counts = append(b.counts, nil)
		}
		b.reprs[k] = g
	}
	if repr == 0 {
		d.group = g + 1
	}
	return g
}

// nameOrFunction is the task's name, or that of its function if it has none.
func (r Row) nameOrFunction() []byte {
	if name := r.Name(); len(name) > 0 {
		return name
	}
	return r.Function()
}
