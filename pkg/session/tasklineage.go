package session

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Nest is a task, an actor, or a group of those that share a name, with what it submitted (NestedTaskSummary in ray/util/state/common.py).
type Nest struct {
	Name string
	Key  string // hex of the task's ID, "actor:" and hex of the actor's, or the name of a group
	Type string // the task's, "ACTOR" or "GROUP"
	// Time is when the first of its attempts was created, Unix milliseconds; 0 if that is not known.
	Time     int64
	States   []StateCount
	Children []*Nest
	// LinkType is "task" or "actor", LinkID hex; "" for groups.
	LinkType, LinkID string
}

// Lineage is a summary of tasks by what submitted them.
type Lineage struct {
	Nests []*Nest
	TaskCounts
	Listed, Matching int
	// Cut says that groups have more children than are shown.
	Cut bool
}

// Lineage nests the rows that q's filters keep below the tasks and actors that submitted them (TaskSummaries.to_summary_by_lineage).
// Tasks whose submitter is not among them are left out, as are all below.
//
// If there are more rows than q's limit, no group shows more than maxChildren of its children; counts are of all. Ray itself looks at no
// more rows than that.
func (t *Tasks) Lineage(q Query, actorName func(rayid.Actor) string, maxChildren int) (*Lineage, error) {
	b := lineage{
		tasks: make(map[rayid.Task]Row), groups: make(map[rayid.Task]*Nest), creators: make(map[rayid.Actor]rayid.Task),
		actors: make(map[rayid.Actor]*Nest), actorName: actorName,
	}
	var rows []Row
	listed, err := t.each(q, true, func(_ int, r Row) {
		rows = append(rows, r)
		id := r.ID()
		b.tasks[id] = r // of several attempts the last one listed counts, which is the first one made
		if string(r.Type()) == "ACTOR_CREATION_TASK" {
			b.creators[actorOf(r)] = id
		}
	})
	if err != nil {
		return nil, err
	}
	out := &Lineage{Listed: listed, Matching: len(rows)}
	for _, r := range rows {
		b.current = r
		if n := b.task(r.ID()); n != nil {
			n.States = countState(n.States, r.State(), 1)
			out.TaskCounts.add(r.Type())
		}
	}
	nests, _ := mergeSiblings(b.top)
	for _, n := range nests {
		n.total()
	}
	sortNests(nests)
	out.Nests = nests
	if len(rows) > q.Limit {
		for _, n := range nests {
			out.Cut = n.cut(maxChildren) || out.Cut
		}
	}
	return out, nil
}

// lineage builds the tree.
type lineage struct {
	tasks     map[rayid.Task]Row
	groups    map[rayid.Task]*Nest
	creators  map[rayid.Actor]rayid.Task
	actors    map[rayid.Actor]*Nest
	actorName func(rayid.Actor) string

	current Row // the one the tree is being extended for
	top     []*Nest
}

// task gives a task's node, made and put below its submitter if need be; nil if the task is not known.
func (b *lineage) task(id rayid.Task) *Nest {
	if n := b.groups[id]; n != nil {
		return n
	}
	r, known := b.tasks[id]
	if !known {
		return nil
	}
	n := &Nest{Name: string(r.summaryName(false)), Key: id.String(), Type: string(r.Type()), Time: r.createdMillis(), LinkType: "task", LinkID: id.String()}
	b.groups[id] = n
	if n.Type == "ACTOR_TASK" || n.Type == "ACTOR_CREATION_TASK" {
		if actor := b.actor(actorOf(r)); actor != nil {
			actor.Children = append(actor.Children, n)
		}
		return n
	}
	b.put(n, r)
	return n
}

// put puts n below the submitter of r's task.
func (b *lineage) put(n *Nest, r Row) {
	parent := r.Parent()
	if len(parent) != rayid.TaskSize || bytes.HasPrefix(parent, nilTask[:rayid.TaskSize-rayid.JobSize]) {
		b.top = append(b.top, n) // a driver's
		return
	}
	if p := b.task(rayid.Task(parent)); p != nil {
		p.Children = append(p.Children, n)
	}
}

// actor gives an actor's node; nil if the task that created it is not known.
func (b *lineage) actor(id rayid.Actor) *Nest {
	if n := b.actors[id]; n != nil {
		return n
	}
	creator, known := b.tasks[b.creators[id]]
	if !known {
		return nil
	}
	name := b.actorName(id)
	if name == "" {
		class, _, _ := bytes.Cut(creator.Function(), []byte("."))
		name = string(class)
	}
	// The time is that of the task that led here, which is how Ray has it.
	n := &Nest{Name: name, Key: "actor:" + id.String(), Type: "ACTOR", Time: b.current.createdMillis(), LinkType: "actor", LinkID: id.String()}
	b.actors[id] = n
	b.put(n, creator)
	return n
}

func actorOf(r Row) (id rayid.Actor) {
	copy(id[:], r.Actor())
	return id
}

// createdMillis is when the attempt was submitted, Unix milliseconds; 0 if that is not known.
func (r Row) createdMillis() int64 {
	c := commonColumn(statePendingArgsAvail)
	if !r.p.entered(int(r.i), c) || r.p.times[c][r.i] > r.at {
		return 0
	}
	return int64(float64(r.p.times[c][r.i])) / 1_000_000
}

// mergeSiblings puts siblings of one name into a group, at every level, and gives the earliest time among those groups.
func mergeSiblings(siblings []*Nest) (merged []*Nest, earliest int64) {
	groups := make(map[string]*Nest, len(siblings))
	var order []*Nest
	for _, child := range siblings {
		var inner int64
		child.Children, inner = mergeSiblings(child.Children)
		if inner != 0 && inner < orLast(child.Time) {
			child.Time = inner
		}
		g := groups[child.Name]
		if g == nil {
			g = &Nest{Name: child.Name, Key: child.Name, Type: "GROUP"}
			groups[child.Name] = g
			order = append(order, g)
		}
		g.Children = append(g.Children, child)
		if child.Time != 0 && child.Time < orLast(g.Time) {
			g.Time = child.Time
			if child.Time < orLast(earliest) {
				earliest = child.Time
			}
		}
	}
	for i, g := range order {
		if len(g.Children) == 1 {
			order[i] = g.Children[0]
		}
	}
	return order, earliest
}

// orLast puts an unknown time after all others.
func orLast(t int64) int64 {
	if t == 0 {
		return math.MaxInt64
	}
	return t
}

// total adds the counts of all below n to its own, and sorts them.
func (n *Nest) total() {
	for _, child := range n.Children {
		child.total()
		for _, s := range child.States {
			n.States = countState(n.States, s.State, s.Count)
		}
	}
	sortNests(n.Children)
}

// sortNests puts what runs first, then what waits, then what failed, then what is older; an actor's creation before others of its time.
func sortNests(nests []*Nest) {
	slices.SortStableFunc(nests, func(a, b *Nest) int {
		return cmp.Or(
			cmp.Compare(b.in("RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT"), a.in("RUNNING", "RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT")),
			cmp.Compare(b.in(pending...), a.in(pending...)),
			cmp.Compare(b.in(StateFailed), a.in(StateFailed)),
			cmp.Compare(orLast(a.Time), orLast(b.Time)),
			cmp.Compare(notCreation(a), notCreation(b)))
	})
}

var pending = []string{"PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "PENDING_OBJ_STORE_MEM_AVAIL", "PENDING_ARGS_FETCH"}

// in counts the attempts in the given states.
func (n *Nest) in(states ...string) (count int) {
	for _, s := range n.States {
		if slices.Contains(states, s.State) {
			count += s.Count
		}
	}
	return count
}

func notCreation(n *Nest) int {
	if n.Type == "ACTOR_CREATION_TASK" {
		return 0
	}
	return 1
}

// cut leaves groups at most so many children, at every level, and says whether any had more.
func (n *Nest) cut(limit int) (cut bool) {
	if n.Type == "GROUP" && len(n.Children) > limit {
		n.Children, cut = n.Children[:limit], true
	}
	for _, child := range n.Children {
		cut = child.cut(limit) || cut
	}
	return cut
}
