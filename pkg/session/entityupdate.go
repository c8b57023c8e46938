package session

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"sync"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// entityUpdate is what one event tells of something that is not a task: the one field that the event is about is set.
type entityUpdate struct {
	time    int64  // of the event, Unix nanoseconds
	hash    uint64 // of its text, to choose between two that contradict each other
	defines bool   // it is a definition, otherwise transitions

	actor      Actor
	node       Node
	job        Job
	submission Submission
	worker     Worker
	group      PlacementGroup
}

// entity is a row while events come in.
type entity[E any] struct {
	row     E
	defined defined
}

// defined tells which definition a row has, by the event it came with.
type defined struct {
	Time int64  // Unix nanoseconds
	Hash uint64 // of its text; 0 while there is none
}

// newer says whether a definition replaces the one the row has: the last one counts.
func (e *entity[E]) newer(u *entityUpdate) bool {
	if e.defined.Hash != 0 && cmp.Or(cmp.Compare(u.time, e.defined.Time), cmp.Compare(u.hash, e.defined.Hash)) <= 0 {
		return false
	}
	e.defined = defined{u.time, u.hash}
	return true
}

// table is a small table while events come in.
type table[ID comparable, E any] map[ID]*entity[E]

// moment identifies a transition: nothing enters the same state twice at the same nanosecond.
type moment struct {
	state string
	time  int64
}

func compareMoments(a, b moment) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.state, b.state))
}

// mergeTransitions adds the transitions in more that all does not have, in order of time. It does not change all: tables made earlier read it.
func mergeTransitions[T any](all, more []T, of func(T) moment) []T {
	for i := range more {
		at, known := slices.BinarySearchFunc(all, of(more[i]), func(t T, m moment) int { return compareMoments(of(t), m) })
		if !known {
			all = slices.Concat(all[:at], more[i:i+1], all[at:])
		}
	}
	return all
}

// entityTables are the small tables while events come in. They may be used by several goroutines.
type entityTables struct {
	mu          sync.Mutex
	actors      table[rayid.Actor, Actor]
	nodes       table[rayid.Node, Node]
	jobs        table[rayid.Job, Job]
	submissions table[string, Submission]
	workers     table[rayid.Worker, Worker]
	groups      table[rayid.PlacementGroup, PlacementGroup]
}

func newEntityTables() *entityTables {
	return &entityTables{
		actors: make(table[rayid.Actor, Actor]), nodes: make(table[rayid.Node, Node]), jobs: make(table[rayid.Job, Job]),
		submissions: make(table[string, Submission]), workers: make(table[rayid.Worker, Worker]), groups: make(table[rayid.PlacementGroup, PlacementGroup]),
	}
}

// merge merges an event.
func (t *entityTables) merge(about subject, u *entityUpdate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch about {
	case ofActor:
		mergeEntity(t.actors, u.actor.ID, u, u.actor, func(a *Actor) *[]ActorTransition { return &a.Transitions }, ActorTransition.moment)
	case ofNode:
		mergeEntity(t.nodes, u.node.ID, u, u.node, func(n *Node) *[]NodeTransition { return &n.Transitions }, NodeTransition.moment)
	case ofJob:
		mergeEntity(t.jobs, u.job.ID, u, u.job, func(j *Job) *[]JobTransition { return &j.Transitions }, JobTransition.moment)
	case ofSubmission:
		mergeEntity(t.submissions, u.submission.ID, u, u.submission, func(s *Submission) *[]SubmissionTransition { return &s.Transitions },
			SubmissionTransition.moment)
	case ofWorker:
		// A worker's job is told with its transitions, everything else by its definition.
		if e := t.workers[u.worker.ID]; e != nil && u.worker.Job.Nil() {
			u.worker.Job = e.row.Job
		}
		e := mergeEntity(t.workers, u.worker.ID, u, u.worker, func(w *Worker) *[]WorkerTransition { return &w.Transitions }, WorkerTransition.moment)
		e.row.Job = u.worker.Job
	case ofGroup:
		mergeEntity(t.groups, u.group.ID, u, u.group, func(g *PlacementGroup) *[]PlacementGroupTransition { return &g.Transitions },
			PlacementGroupTransition.moment)
	}
}

// mergeEntity merges what an event tells, row, into the row of id.
func mergeEntity[ID comparable, E, T any](t table[ID, E], id ID, u *entityUpdate, row E, transitions func(*E) *[]T, of func(T) moment) *entity[E] {
	e, known := t[id]
	if !known {
		e = &entity[E]{}
		t[id] = e
	}
	merged := mergeTransitions(*transitions(&e.row), *transitions(&row), of)
	if defined := u.defines && e.newer(u); defined || !known {
		e.row = row
	}
	*transitions(&e.row) = merged
	return e
}

func (t ActorTransition) moment() moment          { return moment{t.State, t.Time} }
func (t NodeTransition) moment() moment           { return moment{t.State + t.SubState, t.Time} }
func (t JobTransition) moment() moment            { return moment{t.State, t.Time} }
func (t SubmissionTransition) moment() moment     { return moment{t.State, t.Time} }
func (t WorkerTransition) moment() moment         { return moment{t.State, t.Time} }
func (t PlacementGroupTransition) moment() moment { return moment{t.State + t.SchedulingState, t.Time} }

// rows gives the rows in order, and which definition each has.
func rows[ID comparable, E any](t table[ID, E], compare func(a, b *E) int) (all []E, which []defined) {
	sorted := slices.SortedFunc(maps.Values(t), func(a, b *entity[E]) int { return compare(&a.row, &b.row) })
	all, which = make([]E, len(sorted)), make([]defined, len(sorted))
	for i, e := range sorted {
		all[i], which[i] = e.row, e.defined
	}
	return all, which
}

// restore puts rows back that rows gave.
func restore[ID comparable, E any](t table[ID, E], all []E, which []defined, id func(*E) ID) {
	for i := range all {
		t[id(&all[i])] = &entity[E]{all[i], which[i]}
	}
}

// hashOf hashes an event's text; never 0.
func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64() | 1
}
