package entities

import (
	"bytes"
	"slices"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Set is a session's entities, each kind sorted by ID, but events of the platform by time and ID.
type Set struct {
	Actors          []Actor
	Nodes           []Node
	Jobs            []Job
	Submissions     []Submission
	Workers         []Worker
	PlacementGroups []PlacementGroup
	PlatformEvents  []PlatformEvent
}

// find looks up a row in rows that are sorted; compare compares a row with the one that is wanted. nil: it is not
// there.
func find[E any](rows []E, compare func(*E) int) *E {
	i, found := slices.BinarySearchFunc(rows, struct{}{}, func(row E, _ struct{}) int { return compare(&row) })
	if !found {
		return nil
	}
	return &rows[i]
}

// Actor finds an actor; nil if no event names it.
func (s *Set) Actor(id rayid.Actor) *Actor {
	return find(s.Actors, func(a *Actor) int { return bytes.Compare(a.ID[:], id[:]) })
}

// Node finds a node; nil if no event names it.
func (s *Set) Node(id rayid.Node) *Node {
	return find(s.Nodes, func(n *Node) int { return bytes.Compare(n.ID[:], id[:]) })
}

// Job finds a driver's job; nil if no event names it.
func (s *Set) Job(id rayid.Job) *Job {
	return find(s.Jobs, func(j *Job) int { return bytes.Compare(j.ID[:], id[:]) })
}

// Worker finds a worker; nil if no event names it.
func (s *Set) Worker(id rayid.Worker) *Worker {
	return find(s.Workers, func(w *Worker) int { return bytes.Compare(w.ID[:], id[:]) })
}

// PlacementGroup finds a placement group; nil if no event names it.
func (s *Set) PlacementGroup(id rayid.PlacementGroup) *PlacementGroup {
	return find(s.PlacementGroups, func(g *PlacementGroup) int { return bytes.Compare(g.ID[:], id[:]) })
}

// MemoryBytes estimates the memory of all rows.
func (s *Set) MemoryBytes() int64 {
	return rowsBytes(s.Actors) + rowsBytes(s.Nodes) + rowsBytes(s.Jobs) + rowsBytes(s.Submissions) +
		rowsBytes(s.Workers) + rowsBytes(s.PlacementGroups) + rowsBytes(s.PlatformEvents)
}
