package session

import (
	"bytes"
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Session is the state of one stored session. It is never changed once it is made: Refresh makes a new one. It may be used by several
// goroutines.
type Session struct {
	Ref layout.Session

	// Tables, sorted by ID.
	Tasks           *Tasks
	Actors          []Actor
	Nodes           []Node
	Jobs            []Job
	Submissions     []Submission
	Workers         []Worker
	PlacementGroups []PlacementGroup
	Logs            *LogSet
	Snapshots       *SnapshotSet

	// Warnings say what could not be read, a sentence each, at most some more than maxWarnings.
	Warnings []string
	// Foreign counts the objects below the session's prefix that are none of the layout's.
	Foreign int
	// Start and End are the times of the first and the last thing that events tell, Unix nanoseconds; 0 where there are none.
	Start, End int64
	// Ended says that the session's own end was stored: nothing will be added.
	Ended bool

	source *source
	damage int // see Damage
	// fingerprint is that of the sources the tables were made of.
	fingerprint string
	read        map[string]progressOf // how far the events among them were, by key of the whole; nil if an index's tables were taken as they are
	checkpoint  *checkpoint           // likewise
	stored      time.Time             // see LastStored
}

// Options of Load.
type Options struct {
	// Progress, if set, is updated while the session is loaded.
	Progress *Progress
	// Concurrency is how many files of events are read at a time; 0 is a default.
	Concurrency int
	// Room, if set, is told every now and then how many bytes the load holds, and says whether it may hold so many. One that may not
	// goes on with less: it reads the session several times, and leaves its rows in a temporary file.
	Room func(held int64) bool
	// Index, if set, is asked for the tables before events are replayed.
	Index Index
	Log   logrus.FieldLogger
}

// Progress tells how far a load is. Totals grow while objects are listed.
type Progress struct {
	ObjectsTotal, ObjectsDone atomic.Int64 // chunks of events
	BytesTotal, BytesDone     atomic.Int64 // of them, as stored
}

// Broken says that rows of the session can no longer be read, see Tasks.Err: it is to be loaded again.
func (s *Session) Broken() bool { return s.Tasks.Err() != nil }

// Damage are the warnings about what is wrong with what is stored, all but those about what this version does not know.
func (s *Session) Damage() []string { return s.Warnings[:s.damage] }

// MemoryBytes estimates the memory the session holds.
func (s *Session) MemoryBytes() int64 {
	const each = 1 << 10 // about what a row of a small table holds, with its transitions
	rows := len(s.Actors) + len(s.Nodes) + len(s.Jobs) + len(s.Submissions) + len(s.Workers) + len(s.PlacementGroups)
	return s.Tasks.memory() + s.Logs.MemoryBytes() + s.Snapshots.MemoryBytes() + int64(rows)*each
}

func find[E any](rows []E, compare func(*E) int) *E {
	i, found := slices.BinarySearchFunc(rows, struct{}{}, func(row E, _ struct{}) int { return compare(&row) })
	if !found {
		return nil
	}
	return &rows[i]
}

// Actor, Node, Job, Worker, Submission and PlacementGroup find one row; nil if no event told of it.
func (s *Session) Actor(id rayid.Actor) *Actor {
	return find(s.Actors, func(a *Actor) int { return bytes.Compare(a.ID[:], id[:]) })
}

// Node finds a node; nil if no event told of it.
func (s *Session) Node(id rayid.Node) *Node {
	return find(s.Nodes, func(n *Node) int { return bytes.Compare(n.ID[:], id[:]) })
}

// Job finds a driver's job; nil if no event told of it.
func (s *Session) Job(id rayid.Job) *Job {
	return find(s.Jobs, func(j *Job) int { return bytes.Compare(j.ID[:], id[:]) })
}

// Worker finds a worker; nil if no event told of it.
func (s *Session) Worker(id rayid.Worker) *Worker {
	return find(s.Workers, func(w *Worker) int { return bytes.Compare(w.ID[:], id[:]) })
}

// Submission finds a submitted job; nil if no event told of it.
func (s *Session) Submission(id string) *Submission {
	return find(s.Submissions, func(j *Submission) int { return cmp.Compare(j.ID, id) })
}

// PlacementGroup finds a placement group; nil if no event told of it.
func (s *Session) PlacementGroup(id rayid.PlacementGroup) *PlacementGroup {
	return find(s.PlacementGroups, func(g *PlacementGroup) int { return bytes.Compare(g.ID[:], id[:]) })
}
