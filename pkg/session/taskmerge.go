package session

import (
	"bytes"
	"cmp"
)

// apply merges what an event told into its attempt's row.
//
// The dashboard of Ray merges messages as they arrive (ray/dashboard/modules/task_events/task_event_storage.py, before 2.60 in
// src/ray/gcs/gcs_server/gcs_task_manager.cc): a later value replaces an earlier one, a state's last time wins, profile events add up.
// Stored events come in any order and may repeat, so here the greater of two values wins where order would decide, and repeated profile
// events count once; on what Ray sends the two are the same.
func (t *taskTables) apply(u *taskUpdate) {
	s := &t.shards[shardOf(&u.id)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped {
		return
	}
	p, i := s.find(&u.id, u.attempt)
	if !u.job.Nil() {
		p.job[i] = u.job
	}
	if u.def != 0 {
		p.def[i] = t.defs.greater(p.def[i], u.def, t.texts.compareDefinitions)
		p.parent[i] = t.texts.greater(p.parent[i], u.parent)
		p.actor[i] = t.texts.greater(p.actor[i], u.actor)
	}
	for _, tr := range u.transitions {
		s.enter(p, i, tr)
	}
	p.node[i] = t.texts.greater(p.node[i], u.node)
	p.worker[i] = t.texts.greater(p.worker[i], u.worker)
	p.pid[i] = max(p.pid[i], u.pid)
	p.reprName[i] = t.texts.greater(p.reprName[i], u.reprName)
	if u.hasError {
		s.fail(t.texts, p, i, u)
	}
	if u.flags != 0 {
		s.mergeFlagged(t.texts, p, i, u)
	}
	if u.profiler != 0 {
		p.profiler[i] = t.profilers.greater(p.profiler[i], u.profiler, t.texts.compareProfilers)
		s.addProfile(p, i, u.profile)
	}
}

// enter notes a transition. Of a state that has no column every time counts, so that any moment shows the same in whatever order they came.
func (s *taskShard) enter(p *taskPage, i int, tr transition) {
	if c := commonColumn(tr.state); c >= 0 {
		p.times[c][i] = max(p.times[c][i], tr.time)
		p.flags[i] |= hasTime << c
		return
	}
	for at := p.rest[i]; at != 0; {
		known := s.transitions.at(int(at - 1))
		if known.state == tr.state && known.time == tr.time {
			return
		}
		at = known.next
	}
	p.rest[i] = uint32(s.transitions.add(laterTransition{time: tr.time, next: p.rest[i], state: tr.state})) + 1
}

// fail notes an error: the last one, by the time of the failure.
func (s *taskShard) fail(t *texts, p *taskPage, i int, u *taskUpdate) {
	time := u.failedAt()
	if p.failure[i] != 0 {
		known := s.failures.at(int(p.failure[i] - 1))
		c := cmp.Or(cmp.Compare(known.time, time), bytes.Compare(t.get(known.kind), t.get(u.errorType)),
			bytes.Compare(s.bytes.get(known.text, int(known.length)), u.errorText))
		if c >= 0 {
			return
		}
	}
	f := failure{time: time, kind: u.errorType, text: s.bytes.put(u.errorText), length: uint32(len(u.errorText))}
	p.failure[i] = uint32(s.failures.add(f)) + 1
}

// mergeFlagged merges the fields whose absence differs from their zero value.
func (s *taskShard) mergeFlagged(t *texts, p *taskPage, i int, u *taskUpdate) {
	p.flags[i] |= u.flags &^ (hasPaused | isPaused)
	p.stdoutFile[i] = t.greater(p.stdoutFile[i], u.stdoutFile)
	p.stderrFile[i] = t.greater(p.stderrFile[i], u.stderrFile)
	p.stdoutStart[i], p.stdoutEnd[i] = max(p.stdoutStart[i], u.stdoutStart), max(p.stdoutEnd[i], u.stdoutEnd)
	p.stderrStart[i], p.stderrEnd[i] = max(p.stderrStart[i], u.stderrStart), max(p.stderrEnd[i], u.stderrEnd)
	if u.flags&hasPaused == 0 {
		return
	}
	key := attemptKey{u.id, u.attempt}
	told, known := s.paused[key]
	switch {
	case known && told > u.time:
		return
	case known && told == u.time:
		p.flags[i] |= u.flags & isPaused
		return
	case s.paused == nil:
		s.paused = make(map[attemptKey]int64)
	}
	s.paused[key] = u.time
	p.flags[i] = p.flags[i]&^isPaused | u.flags&(hasPaused|isPaused)
}

// greater chooses one of two texts, whichever was met first: the one that is greater byte by byte, so any over none.
func (t *texts) greater(a, b textID) textID {
	switch {
	case a == b || b == 0:
		return a
	case a == 0:
		return b
	case bytes.Compare(t.get(a), t.get(b)) < 0:
		return b
	}
	return a
}
