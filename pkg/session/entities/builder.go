package entities

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
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

// entity is a row while events come in.
type entity[E any] struct {
	row     E
	defined defined
	// unsorted is how many of the row's last transitions are in the order they came, see add.
	unsorted int
}

// defined identifies the event that a row's definition came from.
type defined struct {
	Time int64  // Unix nanoseconds
	Hash uint64 // of its text; 0 while there is none
}

// newer reports whether a definition replaces the row's current one: the latest counts.
func (e *entity[E]) newer(u *Update) bool {
	if e.defined.Hash != 0 && cmp.Or(cmp.Compare(u.Time, e.defined.Time), cmp.Compare(u.Hash, e.defined.Hash)) <= 0 {
		return false
	}
	e.defined = defined{u.Time, u.Hash}
	return true
}

// table is a small table while events come in.
type table[ID comparable, E any] map[ID]*entity[E]

// Builder collects the entities while events come in. It is safe for concurrent use.
type Builder struct {
	mu          sync.Mutex
	actors      table[rayid.Actor, Actor]
	nodes       table[rayid.Node, Node]
	jobs        table[rayid.Job, Job]
	submissions table[string, Submission]
	workers     table[rayid.Worker, Worker]
	groups      table[rayid.PlacementGroup, PlacementGroup]
	platform    table[delivery, PlatformEvent]
	bytes       int64 // estimate of the memory of all rows
}

func (t *Builder) MemoryBytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

func NewBuilder() *Builder {
	return &Builder{
		actors: make(table[rayid.Actor, Actor]), nodes: make(table[rayid.Node, Node]),
		jobs:        make(table[rayid.Job, Job]),
		submissions: make(table[string, Submission]), workers: make(table[rayid.Worker, Worker]),
		groups:   make(table[rayid.PlacementGroup, PlacementGroup]),
		platform: make(table[delivery, PlatformEvent]),
	}
}

// MergeEntity merges an event.
func (t *Builder) MergeEntity(u *Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch u.Kind {
	case KindActor:
		mergeRow(&t.bytes, t.actors, u.Actor.ID, u, u.Actor, ofActor)
	case KindNode:
		mergeRow(&t.bytes, t.nodes, u.Node.ID, u, u.Node, ofNode)
	case KindJob:
		mergeRow(&t.bytes, t.jobs, u.Job.ID, u, u.Job, ofJob)
	case KindSubmission:
		mergeRow(&t.bytes, t.submissions, u.Submission.ID, u, u.Submission, ofSubmission)
	case KindWorker:
		// A worker's job comes with its transitions, everything else with its definition.
		if e := t.workers[u.Worker.ID]; e != nil && u.Worker.Job.Nil() {
			u.Worker.Job = e.row.Job
		}
		e := mergeRow(&t.bytes, t.workers, u.Worker.ID, u, u.Worker, ofWorker)
		e.row.Job = u.Worker.Job
	case KindPlacementGroup:
		mergeRow(&t.bytes, t.groups, u.Group.ID, u, u.Group, ofGroup)
	case KindPlatformEvent:
		t.mergePlatform(u)
	}
}

// mergePlatform merges an event of the platform. Each delivery is a row: of an event that happens again, the platform
// delivers a later state.
func (t *Builder) mergePlatform(u *Update) {
	e := t.platform[u.Platform.delivery()]
	if e == nil {
		e = &entity[PlatformEvent]{}
		t.platform[u.Platform.delivery()] = e
	}
	if e.newer(u) {
		t.bytes += u.Platform.MemoryBytes()
		e.row = u.Platform
	}
}

// mergeRow merges row, the content of an event, into the row of id.
func mergeRow[ID comparable, E, T any, P rowOf[E]](bytes *int64, t table[ID, E], id ID, u *Update, row E,
	of transitions[E, T]) *entity[E] {
	e, known := t[id]
	if !known {
		e = &entity[E]{}
		t[id] = e
	}
	*bytes += P(&row).MemoryBytes()
	all, more := *of.list(&e.row), *of.list(&row)
	*of.list(&row) = nil
	if defined := u.Defines && e.newer(u); defined || !known {
		e.row = row // what the row had before stays in bytes, an upper bound
	} else {
		*bytes -= P(&row).MemoryBytes()
	}
	*of.list(&e.row) = all
	add[E, T, P](bytes, e, more, of)
	return e
}

// rows returns the rows in order, and which definition each has.
func rows[ID comparable, E any](t table[ID, E], compare func(a, b *E) int) (all []E, which []defined) {
	sorted := slices.SortedFunc(maps.Values(t), func(a, b *entity[E]) int { return compare(&a.row, &b.row) })
	all, which = make([]E, len(sorted)), make([]defined, len(sorted))
	for i, e := range sorted {
		all[i], which[i] = e.row, e.defined
	}
	return all, which
}

// restoreRows puts back the result of rows.
func restoreRows[ID comparable, E any, P rowOf[E]](bytes *int64, t table[ID, E], all []E, which []defined,
	id func(*E) ID) {
	*bytes += rowsBytes[E, P](all)
	for i := range all {
		t[id(&all[i])] = &entity[E]{row: all[i], defined: which[i]}
	}
}

// Set returns the rows as they are now, and which events define them, for Restore. Before that it sorts the transitions
// that add has left unsorted; events of the platform have none.
func (t *Builder) Set() (s Set, which Definitions) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sortAll(&t.bytes, t.actors, ofActor)
	sortAll(&t.bytes, t.nodes, ofNode)
	sortAll(&t.bytes, t.jobs, ofJob)
	sortAll(&t.bytes, t.submissions, ofSubmission)
	sortAll(&t.bytes, t.workers, ofWorker)
	sortAll(&t.bytes, t.groups, ofGroup)
	s.Actors, which.Actors = rows(t.actors, func(a, b *Actor) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.Nodes, which.Nodes = rows(t.nodes, func(a, b *Node) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.Jobs, which.Jobs = rows(t.jobs, func(a, b *Job) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.Submissions, which.Submissions = rows(t.submissions,
		func(a, b *Submission) int { return cmp.Compare(a.ID, b.ID) })
	s.Workers, which.Workers = rows(t.workers, func(a, b *Worker) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.PlacementGroups, which.PlacementGroups = rows(t.groups,
		func(a, b *PlacementGroup) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.PlatformEvents, which.PlatformEvents = rows(t.platform, comparePlatformEvents)
	return s, which
}

// Definitions identify the definition of every row, in the order of the rows.
type Definitions struct {
	Actors, Nodes, Jobs, Submissions, Workers, PlacementGroups, PlatformEvents []defined
}

// Restore puts back the result of Set. It returns false if rows and definitions do not match.
func (t *Builder) Restore(from *Set, which *Definitions) bool {
	if len(from.Actors) != len(which.Actors) || len(from.Nodes) != len(which.Nodes) ||
		len(from.Jobs) != len(which.Jobs) ||
		len(from.Submissions) != len(which.Submissions) || len(from.Workers) != len(which.Workers) ||
		len(from.PlacementGroups) != len(which.PlacementGroups) ||
		len(from.PlatformEvents) != len(which.PlatformEvents) {
		return false
	}
	restoreRows(&t.bytes, t.actors, from.Actors, which.Actors, func(a *Actor) rayid.Actor { return a.ID })
	restoreRows(&t.bytes, t.nodes, from.Nodes, which.Nodes, func(n *Node) rayid.Node { return n.ID })
	restoreRows(&t.bytes, t.jobs, from.Jobs, which.Jobs, func(j *Job) rayid.Job { return j.ID })
	restoreRows(&t.bytes, t.submissions, from.Submissions, which.Submissions,
		func(s *Submission) string { return s.ID })
	restoreRows(&t.bytes, t.workers, from.Workers, which.Workers, func(w *Worker) rayid.Worker { return w.ID })
	restoreRows(&t.bytes, t.groups, from.PlacementGroups, which.PlacementGroups,
		func(g *PlacementGroup) rayid.PlacementGroup { return g.ID })
	restoreRows(&t.bytes, t.platform, from.PlatformEvents, which.PlatformEvents, (*PlatformEvent).delivery)
	return true
}
