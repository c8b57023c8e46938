package tasktable

import (
	"bytes"
	"math"
	"slices"
	"unsafe"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
)

// Node of a lineage is a task, an actor, or a group of those that share a name, with what it submitted
// (NestedTaskSummary in ray/util/state/common.py).
type Node struct {
	Name string
	Key  string // hex of the task's ID, "actor:" and hex of the actor's, or the name of a group
	Type string // the task's, "ACTOR" or "GROUP"
	// Time is when the first of its attempts was created, Unix milliseconds; 0 if that is not known.
	Time     int64
	States   []StateCount
	Children []*Node
	// LinkType is "task" or "actor", LinkID hex; "" for groups.
	LinkType, LinkID string
}

// Lineage is a summary of tasks by what submitted them.
type Lineage struct {
	Tops []*Node
	TaskCounts
	Listed, Matching int
	// Cut says that groups have more children than are shown.
	Cut bool
	// Deep says that tasks were nested deeper than maxLineageDepth: what is below is shown on top.
	Deep bool
	// Orphans is how many tasks and actors are shown on top because what submitted or created them is not among the
	// rows.
	Orphans int
}

// maxLineageDepth bounds how deep tasks are nested, each below the one that submitted it. Ray's own dashboard fails at
// Python's recursion limit (1,000). Thanks to the bound, code that walks the tree, here and in browsers, may be
// recursive.
const maxLineageDepth = 900

// Lineage nests the rows that q's filters keep below the tasks and actors that submitted them
// (TaskSummaries.to_summary_by_lineage). Tasks whose submitter is not among them are on top, as are actors whose
// creation is not: Ray leaves them out, with all below.
//
// If more rows match than q.Limit, no group shows more than maxChildren of its children; counts are of all. Ray itself
// looks at q.Limit rows only.
func (t *Table) Lineage(q Query, actorName func(rayid.Actor) string, maxChildren int) (*Lineage, error) {
	b := lineageBuilder{
		t: t, numbers: make(map[string]int32), numbersOf: make(map[sameName]int32),
		creators:  make(map[rayid.Actor]int32),
		actors:    make(map[rayid.Actor]int32),
		actorName: actorName,
	}
	if len(q.Filters) == 0 {
		// Growing the slices would copy and discard several times their size. Actors and groups are few.
		b.nodes, b.counts = make([]lineageNode, 0, t.n+t.n/32), make([]numberCount, 0, t.n)
	}
	out := &Lineage{}
	var err error
	if out.Listed, err = visitRows(t, q, LineagePart, func(_ int, r Row) {
		out.Matching++
		out.TaskCounts.add(r.Type(), 1)
		b.add(r)
	}); err != nil {
		return nil, err
	}
	// Only tasks are among the nodes yet. Placing them adds their actors, which are placed at once.
	for i := range int32(len(b.nodes)) {
		if err := q.checkStop(int(i)); err != nil {
			return nil, err
		}
		b.placingFor = i
		const calls = 0
		b.place(i, calls)
	}
	out.Deep, out.Orphans = b.deep, b.orphans
	// Siblings of one name become a group. Then come counts, the order, and what is shown.
	top, _ := b.groupByName(b.top)
	for _, i := range top {
		b.addCountsBelow(i)
	}
	b.sortSiblings(top)
	if out.Matching <= q.Limit {
		maxChildren = math.MaxInt
	}
	for _, i := range top {
		out.Tops = append(out.Tops, b.result(i, maxChildren, &out.Cut))
	}
	return out, nil
}

// LineageBytes estimates the memory that Lineage takes in addition to the session.
func (t *Table) LineageBytes() int64 { return 1<<20 + int64(t.n)*lineageRowBytes }

// lineageRowBytes is for a row's node, its count, its places among its siblings, and what these are sorted by.
const lineageRowBytes = int64(unsafe.Sizeof(lineageNode{})+unsafe.Sizeof(numberCount{})+unsafe.Sizeof(lineageRank{})) +
	32

// lineageBuilder builds the tree. Nodes refer to each other by number instead of by pointer, because there may be as
// many as tasks.
type lineageBuilder struct {
	t         *Table
	nodes     []lineageNode         // of tasks first, in the order of their IDs; then of actors and groups
	tasks     int32                 // how many are tasks
	counts    []numberCount         // where nodes' first counts lie
	names     []string              // by number
	numbers   map[string]int32      // of names
	numbersOf map[sameName]int32    // of names of rows
	creators  map[rayid.Actor]int32 // actor → the task that created it
	actors    map[rayid.Actor]int32 // actor → its node
	actorName func(rayid.Actor) string

	placingFor int32 // the task the tree is being extended for
	deep       bool  // see Lineage.Deep
	orphans    int   // see Lineage.Orphans
	top        []int32
	groups     []int32 // scratch of groupByName, by name: the node of the last group that was made of it, or -1
}

type lineageNode struct {
	id       rayid.Task     // an actor's own part is its first bytes
	parent   stringtable.ID // task, binary
	actor    stringtable.ID // binary
	def      defID
	kind     nodeKind
	placed   bool
	placing  bool
	name     int32 // index of lineageBuilder.names
	depth    int32 // below the top
	time     int64 // Unix milliseconds, 0 if not known
	states   []numberCount
	children []int32
}

type nodeKind uint8

const (
	otherTask nodeKind = iota
	methodTask
	creatingTask
	actorNode
	groupNode
)

// add adds a row to the node of its task. The rows of one task must follow each other.
func (b *lineageBuilder) add(r Row) {
	id := r.ID()
	state, _ := r.state()
	if len(b.nodes) == 0 || b.nodes[len(b.nodes)-1].id != id {
		n := lineageNode{id: id, parent: r.p.parent[r.i], actor: r.p.actor[r.i], def: r.p.def[r.i]}
		switch string(r.Type()) {
		case eventjson.TypeActor:
			n.kind = methodTask
		case eventjson.TypeActorCreation:
			n.kind = creatingTask
			b.creators[b.actorOf(&n)] = int32(len(b.nodes))
		}
		// Most tasks have one state, so their lists lie in one array. A list that grows is copied: it has no free
		// capacity.
		b.counts = append(b.counts, numberCount{state, 1})
		n.states = b.counts[len(b.counts)-1 : len(b.counts) : len(b.counts)]
		b.nodes = append(b.nodes, n)
	} else {
		n := &b.nodes[len(b.nodes)-1]
		n.states = addCount(n.states, state, 1)
	}
	// Of several attempts the last one listed counts, which is the first one made.
	n := &b.nodes[len(b.nodes)-1]
	n.time, n.name = r.createdMillis(), b.nameOf(r)
	b.tasks = int32(len(b.nodes))
}

// nameOf returns the number of a row's name, by which the tree groups it.
func (b *lineageBuilder) nameOf(r Row) int32 {
	k := sameName{r.p.def[r.i], r.p.reprName[r.i]}
	i, known := b.numbersOf[k]
	if !known {
		i = b.intern(string(r.nameOrFunction()))
		b.numbersOf[k] = i
	}
	return i
}

// intern returns the number of a name, a new one for a new name.
func (b *lineageBuilder) intern(name string) int32 {
	i, known := b.numbers[name]
	if !known {
		i = int32(len(b.names))
		b.numbers[name] = i
		b.names = append(b.names, name)
		b.groups = append(b.groups, -1) // none yet
	}
	return i
}

func (b *lineageBuilder) actorOf(n *lineageNode) (id rayid.Actor) {
	copy(id[:], b.t.strings.Get(n.actor))
	return id
}

// findTask returns a task's node; -1 if the task is not known.
func (b *lineageBuilder) findTask(id []byte) int32 {
	i, found := slices.BinarySearchFunc(b.nodes[:b.tasks], id,
		func(n lineageNode, id []byte) int { return bytes.Compare(n.id[:], id) })
	if !found {
		return -1
	}
	return int32(i)
}

// place puts node i, a task, below what it belongs to, unless that was done before: a call or a creation of an actor
// below that actor, any other task below the task that submitted it. What it is put below is placed first, so the
// functions from here to actorAbove call each other. calls is how often they have, which putBelowTask counts and
// bounds. A node is placing until it is placed: putBelowTask meets such a node if tasks are below each other in a
// circle.
func (b *lineageBuilder) place(i, calls int32) {
	n := &b.nodes[i]
	if n.placed {
		return
	}
	n.placed, n.placing = true, true
	if n.kind == methodTask || n.kind == creatingTask {
		b.addChild(i, b.actorAbove(i, calls))
	} else {
		b.putBelowTask(i, n.parent, calls)
	}
	b.nodes[i].placing = false // not n, which adding nodes may have moved
}

// addChild makes a node a child of another one. If that would be too deep, the node goes to the top.
func (b *lineageBuilder) addChild(i, parent int32) {
	depth := b.nodes[parent].depth + 1
	if depth > maxLineageDepth {
		b.deep = true
		b.top = append(b.top, i)
		return
	}
	b.nodes[i].depth = depth
	b.nodes[parent].children = append(b.nodes[parent].children, i)
}

// driverParent is what the task IDs of drivers begin with, before the job ID.
var driverParent = bytes.Repeat([]byte{0xff}, rayid.TaskSize-rayid.JobSize)

// putBelowTask places the task with the ID parent, and makes the node its child. A node that a driver submitted goes to
// the top, and so does one whose parent is not listed or is itself below the node, or is more than maxLineageDepth
// deep. calls is as in place.
func (b *lineageBuilder) putBelowTask(i int32, parent stringtable.ID, calls int32) {
	id := b.t.strings.Get(parent)
	if len(id) != rayid.TaskSize || bytes.HasPrefix(id, driverParent) {
		b.top = append(b.top, i)
		return
	}
	p := b.findTask(id)
	switch {
	case p < 0, b.nodes[p].placing: // it is not known, or below this one
		b.orphans++
		b.top = append(b.top, i)
	case calls > maxLineageDepth:
		b.deep = true
		b.top = append(b.top, i)
	default:
		b.place(p, calls+1)
		b.addChild(i, p)
	}
}

// actorAbove returns the node of a task's actor, which it adds if there is none yet: below the submitter of the task
// that created the actor, or on top if that task is not listed. calls is as in place.
func (b *lineageBuilder) actorAbove(task, calls int32) int32 {
	id := b.actorOf(&b.nodes[task])
	if i, known := b.actors[id]; known {
		return i
	}
	creator, created := b.creators[id]
	if !created {
		creator = task // its function names the class too
	}
	name := b.actorName(id)
	if name == "" {
		class, _, _ := bytes.Cut(b.t.strings.Get(b.t.defs.At(int(b.nodes[creator].def)).Function), []byte("."))
		name = string(class)
	}
	// Ray, too, uses the time of the task for which the actor's node is made.
	n := lineageNode{kind: actorNode, name: b.intern(name), time: b.nodes[b.placingFor].time}
	copy(n.id[:], id[:])
	i := int32(len(b.nodes))
	b.nodes = append(b.nodes, n)
	b.actors[id] = i
	if created {
		b.putBelowTask(i, b.nodes[creator].parent, calls)
	} else {
		b.orphans++
		b.top = append(b.top, i)
	}
	return i
}

// createdMillis is when the attempt was submitted, Unix milliseconds as Ray's `ns // 1e6` gives them, which has ns as a
// float first; 0 if that is not known.
func (r Row) createdMillis() int64 {
	at := r.p.times[argsColumn][r.i]
	if !r.p.entered(int(r.i), argsColumn) || at > r.at {
		return 0
	}
	return int64(float64(at)) / 1_000_000
}

// result returns a node and everything below it, with at most maxChildren children in each group; the others are
// removed from b, too. It sets cut if a group has more.
func (b *lineageBuilder) result(i int32, maxChildren int, cut *bool) *Node {
	n := &b.nodes[i]
	out := &Node{Name: b.names[n.name], Time: n.time}
	switch n.kind {
	case groupNode:
		out.Type, out.Key = "GROUP", out.Name
		if len(n.children) > maxChildren {
			n.children, *cut = n.children[:maxChildren], true
		}
	case actorNode:
		out.Type, out.LinkType, out.LinkID = "ACTOR", "actor", rayid.Actor(n.id[:rayid.ActorSize]).String()
		out.Key = "actor:" + out.LinkID
	default:
		out.Type, out.LinkType, out.LinkID = string(b.t.strings.Get(b.t.defs.At(int(n.def)).Kind)), "task",
			n.id.String()
		out.Key = out.LinkID
	}
	out.States = b.t.withStateNames(n.states)
	for _, child := range n.children {
		out.Children = append(out.Children, b.result(child, maxChildren, cut))
	}
	return out
}
