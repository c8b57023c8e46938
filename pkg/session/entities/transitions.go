package entities

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
)

// row is a pointer to a row of type E.
type row[E any, T transition] interface {
	*E
	key() string       // identifies the row; sets have the order of keys
	transitions() *[]T // of the row's states
	end() string       // the state that no other can follow; "" if there is none
}

func (a *Actor) key() string          { return string(a.ID[:]) }
func (n *Node) key() string           { return string(n.ID[:]) }
func (j *Job) key() string            { return string(j.ID[:]) }
func (s *Submission) key() string     { return s.ID }
func (w *Worker) key() string         { return string(w.ID[:]) }
func (g *PlacementGroup) key() string { return string(g.ID[:]) }

// key is of one delivery. Times before 1970 are negative, and come first.
func (p *PlatformEvent) key() string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(p.Time)^1<<63)) + p.ID
}

func (a *Actor) transitions() *[]ActorTransition                   { return &a.Transitions }
func (n *Node) transitions() *[]NodeTransition                     { return &n.Transitions }
func (j *Job) transitions() *[]JobTransition                       { return &j.Transitions }
func (s *Submission) transitions() *[]SubmissionTransition         { return &s.Transitions }
func (w *Worker) transitions() *[]WorkerTransition                 { return &w.Transitions }
func (g *PlacementGroup) transitions() *[]PlacementGroupTransition { return &g.Transitions }
func (p *PlatformEvent) transitions() *[]noTransition              { return new([]noTransition) }

// end is DEAD unless the actor was made again because somebody still needed what its tasks had returned: Ray restarts
// no other dead actor.
func (a *Actor) end() string {
	if slices.ContainsFunc(a.Transitions, func(t ActorTransition) bool {
		return t.RestartReason == "LINEAGE_RECONSTRUCTION"
	}) {
		return ""
	}
	return "DEAD"
}

func (n *Node) end() string           { return "DEAD" }
func (j *Job) end() string            { return "FINISHED" }
func (s *Submission) end() string     { return "" } // a deleted one's ID may be submitted again
func (w *Worker) end() string         { return "DEAD" }
func (g *PlacementGroup) end() string { return "REMOVED" }
func (p *PlatformEvent) end() string  { return "" }

// transition is a change of a row's state.
type transition interface{ key() transitionKey }

// transitionKey identifies a transition: nothing enters the same state twice at the same nanosecond.
type transitionKey struct {
	time       int64
	state, sub string
}

// compareTransitions orders by time, but what ends a row comes last: the head's clock may have been ahead and then set
// back, so that an end has an earlier time than what was before it.
func compareTransitions(a, b transitionKey, end string) int {
	switch aEnds, bEnds := end != "" && a.state == end, end != "" && b.state == end; {
	case aEnds && !bEnds:
		return 1
	case bEnds && !aEnds:
		return -1
	}
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.state, b.state), cmp.Compare(a.sub, b.sub))
}

func (t ActorTransition) key() transitionKey      { return transitionKey{t.Time, t.State, ""} }
func (t NodeTransition) key() transitionKey       { return transitionKey{t.Time, t.State, t.SubState} }
func (t JobTransition) key() transitionKey        { return transitionKey{t.Time, t.State, ""} }
func (t SubmissionTransition) key() transitionKey { return transitionKey{t.Time, t.State, ""} }
func (t WorkerTransition) key() transitionKey     { return transitionKey{t.Time, t.State, ""} }
func (t PlacementGroupTransition) key() transitionKey {
	return transitionKey{t.Time, t.State, t.SchedulingState}
}

// noTransition is for events of the platform, which have no states.
type noTransition struct{}

func (noTransition) key() transitionKey { return transitionKey{} }

// maxUnsorted is how many unsorted transitions an entity with few transitions may have.
const maxUnsorted = 32

// addTransitions appends transitions to those of an entity. They are sorted, and those that the entity has already are
// removed, only when they have become more than maxUnsorted and more than the sorted ones: putting each in its place
// would take time by the square of their number, and stored events decide about that.
func addTransitions[E any, T transition, P row[E, T]](bytes *int64, e *entity[E], more []T) {
	all := P(&e.row).transitions()
	*all = append(*all, more...)
	e.unsorted += len(more)
	if e.unsorted > max(maxUnsorted, len(*all)/2) {
		sortRow[E, T, P](bytes, e)
	}
}

// sortRow sorts an entity's transitions, removes those that are there twice, and takes the memory that this frees from
// bytes. It changes a copy, because sets made earlier read the list. The copy has no free capacity, because more than
// one builder may append to what a set has.
func sortRow[E any, T transition, P row[E, T]](bytes *int64, e *entity[E]) {
	if e.unsorted == 0 {
		return
	}
	e.unsorted = 0
	all := P(&e.row).transitions()
	before := MemoryBytes(&e.row)
	*all = slices.Clone(*all)
	endState := P(&e.row).end()
	slices.SortFunc(*all, func(a, b T) int {
		if c := compareTransitions(a.key(), b.key(), endState); c != 0 || reflect.DeepEqual(a, b) {
			return c
		}
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) // damage: the one that stays must not depend on the order
	})
	*all = slices.Clip(slices.CompactFunc(*all, func(a, b T) bool { return a.key() == b.key() }))
	*bytes -= before - MemoryBytes(&e.row)
}
