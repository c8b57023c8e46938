package session

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// jobAndWorkerEnds returns when jobs ended and workers died, in whole milliseconds as in Ray's own tables. If both an
// event and a snapshot tell of a worker's death, the event counts. t is the table of strings that the result's numbers
// belong to.
func (s *Session) jobAndWorkerEnds(ctx context.Context, t *stringtable.Table) (ends tasktable.Ends, err error) {
	jobs, workers := make(map[rayid.Job]int64), make(map[stringtable.ID]tasktable.Death)
	for i := range s.Jobs {
		for _, tr := range s.Jobs[i].Transitions {
			if tr.State == "FINISHED" {
				jobs[s.Jobs[i].ID] = tr.Time - tr.Time%int64(time.Millisecond)
			}
		}
	}
	if err := s.addSavedDeaths(ctx, t, workers); err != nil {
		return ends, err
	}
	for i := range s.Workers {
		w := &s.Workers[i]
		for _, tr := range w.Transitions {
			if tr.State == "DEAD" {
				workers[t.Intern(w.ID[:])] = newDeath(tr.EndMs, tr.Time, tr.ExitType, tr.ExitDetail)
			}
		}
	}
	return tasktable.Ends{Jobs: jobs, Workers: workers}, nil
}

// newDeath returns a death at endMs, Unix milliseconds; if that is 0, at the time of its event, Unix nanoseconds.
func newDeath(endMs uint64, eventTime int64, exit, detail string) tasktable.Death {
	d := tasktable.Death{Time: eventTime - eventTime%int64(time.Millisecond), Exit: exit, Detail: detail}
	if endMs > 0 && endMs < math.MaxInt64/uint64(time.Millisecond) {
		d.Time = int64(endMs) * int64(time.Millisecond)
	}
	return d
}

// addSavedDeaths adds to workers, by their interned IDs, the deaths in the last snapshot of the State API's list of
// workers: Ray before 2.58 has no events of them, and later ones may be lost. A damaged or missing snapshot adds none.
func (s *Session) addSavedDeaths(ctx context.Context, t *stringtable.Table,
	workers map[stringtable.ID]tasktable.Death) error {
	for _, last := range lastLists(s.Snapshots) {
		value, err := s.Snapshots.Value(ctx, last)
		if errors.Is(err, snapshots.ErrMalformed) || errors.Is(err, os.ErrNotExist) {
			continue // its deaths stay unknown
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
				const noEvent = 0
				workers[t.Intern(id[:])] = newDeath(ms, noEvent, w.String("exit_type"), w.String("exit_detail"))
			}
		}
	}
	return nil
}

// lastLists returns the snapshots whose deaths addSavedDeaths adds.
func lastLists(set *snapshots.Set) (last []*snapshots.Snapshot) {
	for _, url := range set.URLs("/api/v0/workers") {
		if snap, err := set.Last(url, tasktable.AtEnd); err == nil { // it fails only for a URL that set does not have
			last = append(last, snap)
		}
	}
	return last
}

// hasDeathsOf reports whether the session's tables have the deaths that newer snapshots tell of: no list was saved
// since.
func (s *Session) hasDeathsOf(newer *snapshots.Set) bool {
	return slices.EqualFunc(lastLists(s.Snapshots), lastLists(newer), func(a, b *snapshots.Snapshot) bool {
		return a.Taken == b.Taken && a.Stored == b.Stored
	})
}
