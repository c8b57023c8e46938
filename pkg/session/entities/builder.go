package entities

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Kind is a kind of entity: anything but tasks that events are about.
type Kind uint8

const (
	KindActor Kind = iota
	KindNode
	KindJob
	KindSubmission
	KindWorker
	KindPlacementGroup
	KindPlatformEvent
)

// Update is the content of one event about an entity. Only the row of its Kind is set.
type Update struct {
	Kind    Kind
	Time    int64  // of the event, Unix nanoseconds
	Hash    uint64 // of its text, to decide between two contradicting events
	Defines bool   // the event is a definition; otherwise it has transitions

	Actor      Actor
	Node       Node
	Job        Job
	Submission Submission
	Worker     Worker
	Group      PlacementGroup
	Platform   PlatformEvent
}

// Row returns a pointer to the row of the update's kind.
func (u *Update) Row() any {
	return [...]any{
		KindActor: &u.Actor, KindNode: &u.Node, KindJob: &u.Job, KindSubmission: &u.Submission, KindWorker: &u.Worker,
		KindPlacementGroup: &u.Group, KindPlatformEvent: &u.Platform,
	}[u.Kind]
}

// entity is a row while events come in.
type entity[E any] struct {
	row     E
	defined defined
	// unsorted is how many of the row's last transitions are in the order they came, see addTransitions.
	unsorted int
}

// defined identifies the event that a row's definition came from.
type defined struct {
	Time int64  // Unix nanoseconds
	Hash uint64 // of its text; 0 while there is none
}

// isNewer reports whether a definition replaces the row's current one: the latest counts.
func (e *entity[E]) isNewer(u *Update) bool {
	if e.defined.Hash != 0 && cmp.Or(cmp.Compare(u.Time, e.defined.Time), cmp.Compare(u.Hash, e.defined.Hash)) <= 0 {
		return false
	}
	e.defined = defined{u.Time, u.Hash}
	return true
}

// table is the rows of a kind while events come in, by key.
type table[E any, T transition, P row[E, T]] map[string]*entity[E]

// Builder collects the entities while events come in. It is safe for concurrent use.
type Builder struct {
	mu          sync.Mutex
	actors      table[Actor, ActorTransition, *Actor]
	nodes       table[Node, NodeTransition, *Node]
	jobs        table[Job, JobTransition, *Job]
	submissions table[Submission, SubmissionTransition, *Submission]
	workers     table[Worker, WorkerTransition, *Worker]
	groups      table[PlacementGroup, PlacementGroupTransition, *PlacementGroup]
	platform    table[PlatformEvent, noTransition, *PlatformEvent]
	bytes       int64 // estimate of the memory of all rows
}

// MemoryBytes is an upper bound of the memory of all rows.
func (t *Builder) MemoryBytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

func NewBuilder() *Builder { return new(Builder) }

// MergeEntity merges an event. An event of the platform that happens again is delivered again, with a later state: each
// delivery is a row of its own.
func (t *Builder) MergeEntity(u *Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch u.Kind {
	case KindActor:
		t.actors.merge(&t.bytes, u, u.Actor)
	case KindNode:
		t.nodes.merge(&t.bytes, u, u.Node)
	case KindJob:
		t.jobs.merge(&t.bytes, u, u.Job)
	case KindSubmission:
		t.submissions.merge(&t.bytes, u, u.Submission)
	case KindWorker:
		// A worker's job comes with its transitions, everything else with its definition.
		if e := t.workers[u.Worker.key()]; e != nil && u.Worker.Job.Nil() {
			u.Worker.Job = e.row.Job
		}
		t.workers.merge(&t.bytes, u, u.Worker).row.Job = u.Worker.Job
	case KindPlacementGroup:
		t.groups.merge(&t.bytes, u, u.Group)
	case KindPlatformEvent:
		t.platform.merge(&t.bytes, u, u.Platform)
	}
}

// merge merges row, the content of an event, into the table's row with the same key. A definition replaces the one that
// is there if it is newer; transitions are added. bytes, the memory of all rows, is kept up to date; it may be more
// than they take.
func (t *table[E, T, P]) merge(bytes *int64, u *Update, row E) *entity[E] {
	key := P(&row).key()
	e, known := (*t)[key]
	if !known {
		if *t == nil {
			*t = make(table[E, T, P])
		}
		e = &entity[E]{}
		(*t)[key] = e
	}
	*bytes += MemoryBytes(&row) // with its transitions, which the entity gets in any case
	before, more := *P(&e.row).transitions(), *P(&row).transitions()
	*P(&row).transitions() = nil
	if defined := u.Defines && e.isNewer(u); defined || !known {
		e.row = row // what the row had before stays in bytes, an upper bound
	} else {
		*bytes -= MemoryBytes(&row) // the rest of row is dropped
	}
	*P(&e.row).transitions() = before
	addTransitions[E, T, P](bytes, e, more)
	return e
}

// set returns the rows in order, and which definition each has. Before that it sorts the transitions that
// addTransitions has left unsorted.
func (t table[E, T, P]) set(bytes *int64) (all []E, which []defined) {
	all, which = make([]E, len(t)), make([]defined, len(t))
	for i, key := range slices.Sorted(maps.Keys(t)) {
		sortRow[E, T, P](bytes, t[key])
		all[i], which[i] = t[key].row, t[key].defined
	}
	return all, which
}

// restore puts back the result of set; false if it is not that of one set.
func (t *table[E, T, P]) restore(bytes *int64, all []E, which []defined) bool {
	if len(all) != len(which) {
		return false
	}
	*t = make(table[E, T, P], len(all))
	*bytes += rowsBytes(all)
	for i := range all {
		(*t)[P(&all[i]).key()] = &entity[E]{row: all[i], defined: which[i]}
	}
	return true
}

// Set returns the rows as they are now, sorted by key, and which events define them. Restore takes both.
func (t *Builder) Set() (s Set, definitions Definitions) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Actors, definitions.Actors = t.actors.set(&t.bytes)
	s.Nodes, definitions.Nodes = t.nodes.set(&t.bytes)
	s.Jobs, definitions.Jobs = t.jobs.set(&t.bytes)
	s.Submissions, definitions.Submissions = t.submissions.set(&t.bytes)
	s.Workers, definitions.Workers = t.workers.set(&t.bytes)
	s.PlacementGroups, definitions.PlacementGroups = t.groups.set(&t.bytes)
	s.PlatformEvents, definitions.PlatformEvents = t.platform.set(&t.bytes)
	return s, definitions
}

// Definitions identify the definition of every row, in the order of the rows.
type Definitions struct {
	Actors, Nodes, Jobs, Submissions, Workers, PlacementGroups, PlatformEvents []defined
}

// Restore puts back the result of Set. If it returns false, rows and definitions do not match, and the builder must not
// be used.
func (t *Builder) Restore(from *Set, which *Definitions) bool {
	return t.actors.restore(&t.bytes, from.Actors, which.Actors) &&
		t.nodes.restore(&t.bytes, from.Nodes, which.Nodes) &&
		t.jobs.restore(&t.bytes, from.Jobs, which.Jobs) &&
		t.submissions.restore(&t.bytes, from.Submissions, which.Submissions) &&
		t.workers.restore(&t.bytes, from.Workers, which.Workers) &&
		t.groups.restore(&t.bytes, from.PlacementGroups, which.PlacementGroups) &&
		t.platform.restore(&t.bytes, from.PlatformEvents, which.PlatformEvents)
}
