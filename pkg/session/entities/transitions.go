package entities

import (
	"cmp"
	"slices"
)

// transitions says where the rows of a kind have their transitions, and what identifies each.
type transitions[E, T any] struct {
	list   func(*E) *[]T
	moment func(T) moment
}

// moment identifies a transition: nothing enters the same state twice at the same nanosecond.
type moment struct {
	time       int64
	state, sub string
}

func compareMoments(a, b moment) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.state, b.state), cmp.Compare(a.sub, b.sub))
}

var (
	ofActor = transitions[Actor, ActorTransition]{
		list:   func(a *Actor) *[]ActorTransition { return &a.Transitions },
		moment: func(t ActorTransition) moment { return moment{t.Time, t.State, ""} },
	}
	ofNode = transitions[Node, NodeTransition]{
		list:   func(n *Node) *[]NodeTransition { return &n.Transitions },
		moment: func(t NodeTransition) moment { return moment{t.Time, t.State, t.SubState} },
	}
	ofJob = transitions[Job, JobTransition]{
		list:   func(j *Job) *[]JobTransition { return &j.Transitions },
		moment: func(t JobTransition) moment { return moment{t.Time, t.State, ""} },
	}
	ofSubmission = transitions[Submission, SubmissionTransition]{
		list:   func(s *Submission) *[]SubmissionTransition { return &s.Transitions },
		moment: func(t SubmissionTransition) moment { return moment{t.Time, t.State, ""} },
	}
	ofWorker = transitions[Worker, WorkerTransition]{
		list:   func(w *Worker) *[]WorkerTransition { return &w.Transitions },
		moment: func(t WorkerTransition) moment { return moment{t.Time, t.State, ""} },
	}
	ofGroup = transitions[PlacementGroup, PlacementGroupTransition]{
		list:   func(g *PlacementGroup) *[]PlacementGroupTransition { return &g.Transitions },
		moment: func(t PlacementGroupTransition) moment { return moment{t.Time, t.State, t.SchedulingState} },
	}
)

// maxUnsorted is how many unsorted transitions an entity may have at least.
const maxUnsorted = 32

// add appends transitions to those of an entity. They are sorted, and those that the entity has already are removed,
// only when they have become as many as the sorted ones: putting each in its place would take time by the square of
// their number, and stored events decide about that.
func add[E, T any, P rowOf[E]](bytes *int64, e *entity[E], more []T, of transitions[E, T]) {
	all := of.list(&e.row)
	*all = append(*all, more...)
	e.unsorted += len(more)
	if e.unsorted > max(maxUnsorted, len(*all)/2) {
		sortRow[E, T, P](bytes, e, of)
	}
}

// sortRow sorts an entity's transitions and removes those that are there twice. It changes a copy, because sets made
// earlier read the list, and the copy has no free capacity, because more than one builder may add to what a set has.
func sortRow[E, T any, P rowOf[E]](bytes *int64, e *entity[E], of transitions[E, T]) {
	if e.unsorted == 0 {
		return
	}
	e.unsorted = 0
	all := of.list(&e.row)
	before := P(&e.row).MemoryBytes()
	*all = slices.Clone(*all)
	slices.SortStableFunc(*all, func(a, b T) int { return compareMoments(of.moment(a), of.moment(b)) })
	*all = slices.Clip(slices.CompactFunc(*all, func(a, b T) bool { return of.moment(a) == of.moment(b) }))
	*bytes -= before - P(&e.row).MemoryBytes()
}

// sortAll sorts the transitions of all rows of a kind.
func sortAll[ID comparable, E, T any, P rowOf[E]](bytes *int64, t table[ID, E], of transitions[E, T]) {
	for _, e := range t {
		sortRow[E, T, P](bytes, e, of)
	}
}
