package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// fill puts the rows of all tables into s.
func (t *entityTables) fill(s *Session) (which entitiesDefined) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Actors, which.Actors = rows(t.actors, func(a, b *Actor) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.Nodes, which.Nodes = rows(t.nodes, func(a, b *Node) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.Jobs, which.Jobs = rows(t.jobs, func(a, b *Job) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.Submissions, which.Submissions = rows(t.submissions, func(a, b *Submission) int { return cmp.Compare(a.ID, b.ID) })
	s.Workers, which.Workers = rows(t.workers, func(a, b *Worker) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.PlacementGroups, which.PlacementGroups = rows(t.groups, func(a, b *PlacementGroup) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return which
}

// entitiesDefined are the definitions of all rows of the small tables, in the order of those.
type entitiesDefined struct {
	Actors, Nodes, Jobs, Submissions, Workers, PlacementGroups []defined
}

// restore puts back what fill gave; false if that does not fit together.
func (t *entityTables) restore(from *Tables, which *entitiesDefined) bool {
	if len(from.Actors) != len(which.Actors) || len(from.Nodes) != len(which.Nodes) || len(from.Jobs) != len(which.Jobs) ||
		len(from.Submissions) != len(which.Submissions) || len(from.Workers) != len(which.Workers) ||
		len(from.PlacementGroups) != len(which.PlacementGroups) {
		return false
	}
	restore(t.actors, from.Actors, which.Actors, func(a *Actor) rayid.Actor { return a.ID })
	restore(t.nodes, from.Nodes, which.Nodes, func(n *Node) rayid.Node { return n.ID })
	restore(t.jobs, from.Jobs, which.Jobs, func(j *Job) rayid.Job { return j.ID })
	restore(t.submissions, from.Submissions, which.Submissions, func(s *Submission) string { return s.ID })
	restore(t.workers, from.Workers, which.Workers, func(w *Worker) rayid.Worker { return w.ID })
	restore(t.groups, from.PlacementGroups, which.PlacementGroups, func(g *PlacementGroup) rayid.PlacementGroup { return g.ID })
	return true
}

// ends gives when jobs ended and workers died, in whole milliseconds, as Ray's own tables have it.
func (s *Session) ends(ctx context.Context, t *texts) (jobs map[rayid.Job]int64, workers map[textID]death, err error) {
	jobs = make(map[rayid.Job]int64)
	for i := range s.Jobs {
		for _, tr := range s.Jobs[i].Transitions {
			if tr.State == "FINISHED" {
				jobs[s.Jobs[i].ID] = tr.Time - tr.Time%int64(time.Millisecond)
			}
		}
	}
	workers = make(map[textID]death)
	for i := range s.Workers {
		w := &s.Workers[i]
		for _, tr := range w.Transitions {
			if tr.State == "DEAD" {
				workers[t.intern(w.ID[:])] = newDeath(tr.EndMs, tr.Time, tr.ExitType, tr.ExitDetail)
			}
		}
	}
	if len(s.Workers) == 0 {
		err = s.savedDeaths(ctx, t, workers)
	}
	return jobs, workers, err
}

// newDeath tells of a death at endMs, Unix milliseconds, or if that is not known at about other, Unix nanoseconds.
func newDeath(endMs uint64, other int64, exit, detail string) death {
	d := death{time: other - other%int64(time.Millisecond), exit: exit, detail: detail}
	if endMs > 0 && endMs < math.MaxInt64/uint64(time.Millisecond) {
		d.time = int64(endMs) * int64(time.Millisecond)
	}
	return d
}

// savedDeaths reads the workers' deaths from the last snapshot of the State API's list of workers: Ray before 2.58 has no events of them.
func (s *Session) savedDeaths(ctx context.Context, t *texts, workers map[textID]death) error {
	for _, url := range s.Snapshots.URLs("/api/v0/workers") {
		last, err := s.Snapshots.Last(url, 0)
		if err != nil {
			return err
		}
		value, err := s.Snapshots.Value(ctx, last)
		if errors.Is(err, ErrMalformed) || errors.Is(err, os.ErrNotExist) {
			continue // what it told stays unknown
		}
		if err != nil {
			return err
		}
		answer, _ := value.(*pyjson.Object)
		for _, row := range answer.Object("data").Object("result").List("result") {
			w, _ := row.(*pyjson.Object)
			id, err := rayid.Parse[rayid.Worker](w.String("worker_id"))
			end, _ := w.Get("end_time_ms").(pyjson.Number)
			ms, endErr := strconv.ParseUint(string(end), 10, 64)
			if err == nil && endErr == nil && ms > 0 && w.Get("is_alive") == false {
				workers[t.intern(id[:])] = newDeath(ms, 0, w.String("exit_type"), w.String("exit_detail"))
			}
		}
	}
	return nil
}
