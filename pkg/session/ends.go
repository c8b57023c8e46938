package session

import (
	"bytes"
	"cmp"
	"time"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// fill puts the rows of all tables into s.
func (t *entityTables) fill(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Actors = rows(t.actors, func(a, b *Actor) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.Nodes = rows(t.nodes, func(a, b *Node) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.Jobs = rows(t.jobs, func(a, b *Job) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.Submissions = rows(t.submissions, func(a, b *Submission) int { return cmp.Compare(a.ID, b.ID) })
	s.Workers = rows(t.workers, func(a, b *Worker) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	s.PlacementGroups = rows(t.groups, func(a, b *PlacementGroup) int { return bytes.Compare(a.ID[:], b.ID[:]) })
}

// ends gives when jobs ended and workers died, in whole milliseconds, as Ray's own tables have it.
func (s *Session) ends(t *texts) (jobs map[rayid.Job]int64, workers map[textID]death) {
	ms := func(ns int64) int64 { return ns - ns%int64(time.Millisecond) }
	jobs = make(map[rayid.Job]int64)
	for i := range s.Jobs {
		for _, tr := range s.Jobs[i].Transitions {
			if tr.State == "FINISHED" {
				jobs[s.Jobs[i].ID] = ms(tr.Time)
			}
		}
	}
	workers = make(map[textID]death)
	for i := range s.Workers {
		w := &s.Workers[i]
		for _, tr := range w.Transitions {
			if tr.State != "DEAD" {
				continue
			}
			d := death{time: ms(tr.Time), exit: tr.ExitType, detail: tr.ExitDetail}
			if tr.EndMs > 0 && tr.EndMs < 1<<43 {
				d.time = int64(tr.EndMs) * int64(time.Millisecond)
			}
			workers[t.intern(w.ID[:])] = d
		}
	}
	return jobs, workers
}
