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
	p, i := s.findOrAdd(&u.ID, u.Attempt)
	if !u.Job.Nil() {
		p.job[i] = u.Job
	}
	if def != 0 {
		p.def[i] = t.defs.Greater(p.def[i], def, t.compareDefinitions)
		p.parent[i] = t.Strings.Greater(p.parent[i], u.Parent)
		p.actor[i] = t.Strings.Greater(p.actor[i], u.Actor)
	}
	for _, tr := range u.Transitions {
		s.addTransition(p, i, tr)
	}
	p.node[i] = t.Strings.Greater(p.node[i], u.Node)
	p.worker[i] = t.Strings.Greater(p.worker[i], u.Worker)
	p.pid[i] = max(p.pid[i], u.PID)
	p.reprName[i] = t.Strings.Greater(p.reprName[i], u.ReprName)
	if u.HasError {
		s.mergeError(t.Strings, p, i, failedAt(u), u.ErrorType, u.ErrorText)
	}
	if u.Flags != 0 {
		s.mergeFlagged(t.Strings, p, i, u)
	}
	if by != 0 {
		p.profiler[i] = t.profilers.Greater(p.profiler[i], by, t.compareProfilers)
		s.addProfile(p, i, u.Profile)
	}
}

// mergeRow merges row j of page q into row i of page p of shard s, which is of the same attempt, by the rules of
// MergeTask. First it removes from row j what DeriveLogs has computed.
func (t *Builder) mergeRow(s *shard, p *page, i int, q *page, j int) {
	q.forgetDerivedLog(j)
	if q.job[j] != q.id[j].Job() { // an event said it; else a row has the job that its task's ID names
		p.job[i] = q.job[j]
	}
	p.def[i] = t.defs.Greater(p.def[i], q.def[j], t.compareDefinitions)
	p.parent[i] = t.Strings.Greater(p.parent[i], q.parent[j])
	p.actor[i] = t.Strings.Greater(p.actor[i], q.actor[j])
	for c := range p.times {
		p.times[c][i] = max(p.times[c][i], q.times[c][j])
	}
	p.flags[i] |= q.flags[j]
	if q.rare[j] != 0 {
		for tr := range q.arenas.rareTransitions(q.rare[j]) {
			s.addTransition(p, i, eventjson.Transition{State: tr.state, Time: tr.time})
		}
	}
	p.node[i] = t.Strings.Greater(p.node[i], q.node[j])
	p.worker[i] = t.Strings.Greater(p.worker[i], q.worker[j])
	p.pid[i] = max(p.pid[i], q.pid[j])
	p.reprName[i] = t.Strings.Greater(p.reprName[i], q.reprName[j])
	if q.failure[j] != 0 {
		f := q.arenas.failures.At(q.failure[j].index())
		s.mergeError(t.Strings, p, i, f.time, f.kind, q.arenas.bytes.Get(f.text, int(f.length)))
	}
	p.stdoutFile[i] = t.Strings.Greater(p.stdoutFile[i], q.stdoutFile[j])
	p.stderrFile[i] = t.Strings.Greater(p.stderrFile[i], q.stderrFile[j])
	p.stdoutStart[i], p.stdoutEnd[i] = max(p.stdoutStart[i], q.stdoutStart[j]), max(p.stdoutEnd[i], q.stdoutEnd[j])
	p.stderrStart[i], p.stderrEnd[i] = max(p.stderrStart[i], q.stderrStart[j]), max(p.stderrEnd[i], q.stderrEnd[j])
	p.profiler[i] = t.profilers.Greater(p.profiler[i], q.profiler[j], t.compareProfilers)
	for at := q.profile[j]; at != 0; {
		var events []byte
		at, events = q.arenas.profileBlock(at)
		s.addProfileBlock(p, i, events)
	}
}

// maxSearched bounds how many of an attempt's transitions, or blocks of profile events, are searched for one that is
// known. A driver may have a hundred thousand, and looking through all of them for each would take time by the square
// of their number. What comes again is mostly near; otherwise it is stored twice, and shown once all the same.
const maxSearched = 256

// addTransition adds a transition to row i of page p. A state with a column (commonStates) has one time, the latest. Of
// a state without a column every time is kept, so that the state at any moment does not depend on the order of the
// events.
func (s *shard) addTransition(p *page, i int, tr eventjson.Transition) {
	if c := commonColumn(tr.State); c >= 0 {
		p.times[c][i] = max(p.times[c][i], tr.Time)
		p.flags[i] |= hasTime << c
		return
	}
	for at, n := p.rare[i], 0; at != 0 && n < maxSearched; n++ {
		known := s.transitions.At(at.index())
		if known.state == tr.State && known.time == tr.Time {
			return
		}
		at = known.next
	}
	p.rare[i] = refTo(s.transitions.Add(rareTransition{time: tr.Time, next: p.rare[i], state: tr.State}))
}

// mergeError sets the error of the attempt in row i of page p, unless it has one that counts more: an error with a text
// counts more than one without (in Ray, too, an empty text does not replace another), then one with a later time of
// failure.
func (s *shard) mergeError(t *stringtable.Table, p *page, i int, time int64, kind stringtable.ID, text []byte) {
	if p.failure[i] != 0 {
		known := s.failures.At(p.failure[i].index())
		c := cmp.Or(cmp.Compare(min(known.length, 1), min(uint32(len(text)), 1)), cmp.Compare(known.time, time),
			bytes.Compare(t.Get(known.kind), t.Get(kind)),
			bytes.Compare(s.bytes.Get(known.text, int(known.length)), text))
		if c >= 0 {
			return
		}
	}
	f := failure{time: time, kind: kind, text: s.bytes.Put(text), length: uint32(len(text))}
	p.failure[i] = refTo(s.failures.Add(f))
}

// mergeFlagged merges into row i of page p the fields of u whose absence differs from their zero value: where the logs
// are, and whether a debugger paused the attempt. Of the latter the latest event counts, and of two at the same time
// the one that says so.
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
	key, paused := attemptKey{u.ID, u.Attempt}, flags&isPaused != 0
	switch latest, known := s.paused[key]; {
	case known && latest.time > u.Time:
		return
	case known && latest.time == u.Time:
		paused = paused || latest.paused
	case s.paused == nil:
		s.paused = make(map[attemptKey]pausedAt)
	}
	s.paused[key] = pausedAt{u.Time, paused}
	p.flags[i] = p.flags[i]&^isPaused | hasPaused
	if paused {
		p.flags[i] |= isPaused
	}
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
