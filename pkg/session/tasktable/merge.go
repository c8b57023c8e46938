package tasktable

import (
	"bytes"
	"cmp"

	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// MergeTask merges the content of an event into its attempt's row.
//
// The dashboard of Ray merges messages as they arrive (ray/dashboard/modules/task_events/task_event_storage.py, before
// 2.60 in src/ray/gcs/gcs_server/gcs_task_manager.cc): a later value replaces an earlier one, a state's last time wins,
// profile events add up. Stored events come in any order and may repeat, so here the greater of two values wins where
// order would decide, and repeated profile events count once; on what Ray sends the two are the same.
func (t *Builder) MergeTask(u *eventjson.TaskUpdate) {
	var def defID
	if u.Definition != nil {
		def = t.defs.Intern(*u.Definition)
	}
	var by profilerID
	if u.Profiler != (eventjson.Profiler{}) {
		by = t.profilers.Intern(u.Profiler)
	}
	s := &t.shards[shardOf(&u.ID)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped {
		return
	}
	p, i := s.find(&u.ID, u.Attempt)
	if !u.Job.Nil() {
		p.job[i] = u.Job
	}
	if def != 0 {
		p.def[i] = t.defs.Greater(p.def[i], def, t.compareDefinitions)
		p.parent[i] = t.Strings.Greater(p.parent[i], u.Parent)
		p.actor[i] = t.Strings.Greater(p.actor[i], u.Actor)
	}
	for _, tr := range u.Transitions {
		s.enter(p, i, tr)
	}
	p.node[i] = t.Strings.Greater(p.node[i], u.Node)
	p.worker[i] = t.Strings.Greater(p.worker[i], u.Worker)
	p.pid[i] = max(p.pid[i], u.PID)
	p.reprName[i] = t.Strings.Greater(p.reprName[i], u.ReprName)
	if u.HasError {
		s.fail(t.Strings, p, i, u)
	}
	if u.Flags != 0 {
		s.mergeFlagged(t.Strings, p, i, u)
	}
	if by != 0 {
		p.profiler[i] = t.profilers.Greater(p.profiler[i], by, t.compareProfilers)
		s.addProfile(p, i, u.Profile)
	}
}

// maxSearched bounds how many of an attempt's transitions, or blocks of profile events, are searched for one that is
// known. A driver may have a hundred thousand, and looking through all of them for each would take time by the square
// of their number. What comes again is mostly near; otherwise it is stored twice, and shown once all the same.
const maxSearched = 256

// enter adds a transition. If the state has no column, every time is kept, so that the state at any moment does not
// depend on the order of the events.
func (s *shard) enter(p *page, i int, tr eventjson.Transition) {
	if c := commonColumn(tr.State); c >= 0 {
		p.times[c][i] = max(p.times[c][i], tr.Time)
		p.flags[i] |= hasTime << c
		return
	}
	for at, n := p.rest[i], 0; at != 0 && n < maxSearched; n++ {
		known := s.transitions.At(int(at - 1))
		if known.state == tr.State && known.time == tr.Time {
			return
		}
		at = known.next
	}
	p.rest[i] = uint32(s.transitions.Add(laterTransition{time: tr.Time, next: p.rest[i], state: tr.State})) + 1
}

// fail sets the attempt's error. Of several errors the one with the latest time of failure is kept; one without a text,
// which says less, only if all are (in Ray, too, an empty text does not replace another).
func (s *shard) fail(t *stringtable.Table, p *page, i int, u *eventjson.TaskUpdate) {
	time := failedAt(u)
	if p.failure[i] != 0 {
		known := s.failures.At(int(p.failure[i] - 1))
		c := cmp.Or(cmp.Compare(min(known.length, 1), min(uint32(len(u.ErrorText)), 1)), cmp.Compare(known.time, time),
			bytes.Compare(t.Get(known.kind), t.Get(u.ErrorType)),
			bytes.Compare(s.bytes.Get(known.text, int(known.length)), u.ErrorText))
		if c >= 0 {
			return
		}
	}
	f := failure{time: time, kind: u.ErrorType, text: s.bytes.Put(u.ErrorText), length: uint32(len(u.ErrorText))}
	p.failure[i] = uint32(s.failures.Add(f)) + 1
}

// mergeFlagged merges the fields whose absence differs from their zero value.
func (s *shard) mergeFlagged(t *stringtable.Table, p *page, i int, u *eventjson.TaskUpdate) {
	flags := rowFlags(u.Flags) << flagsShift
	p.flags[i] |= flags &^ (hasPaused | isPaused)
	p.stdoutFile[i] = t.Greater(p.stdoutFile[i], u.StdoutFile)
	p.stderrFile[i] = t.Greater(p.stderrFile[i], u.StderrFile)
	p.stdoutStart[i], p.stdoutEnd[i] = max(p.stdoutStart[i], u.StdoutStart), max(p.stdoutEnd[i], u.StdoutEnd)
	p.stderrStart[i], p.stderrEnd[i] = max(p.stderrStart[i], u.StderrStart), max(p.stderrEnd[i], u.StderrEnd)
	if flags&hasPaused == 0 {
		return
	}
	key := attemptKey{u.ID, u.Attempt}
	told, known := s.paused[key]
	switch {
	case known && told > u.Time:
		return
	case known && told == u.Time:
		p.flags[i] |= flags & isPaused
		return
	case s.paused == nil:
		s.paused = make(map[attemptKey]int64)
	}
	s.paused[key] = u.Time
	p.flags[i] = p.flags[i]&^isPaused | flags&(hasPaused|isPaused)
}

// failedAt is the time of the update's transition to FAILED; 0 if it has none.
func failedAt(u *eventjson.TaskUpdate) (t int64) {
	for _, tr := range u.Transitions {
		if tr.State == taskstate.Failed {
			t = max(t, tr.Time)
		}
	}
	return t
}
