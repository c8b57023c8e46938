package ship

import (
	"cmp"
	"slices"
	"time"
)

const (
	// stateAge is the age at which the state of a stream that no longer grows is forgotten. If it grows later, that costs a listing.
	stateAge = 24 * time.Hour
	// leastStates is the number of states that are kept at any age. Of more than maxStates those that nothing was shipped of for a minute are
	// forgotten, unless they have failed.
	leastStates = 1024
	maxStates   = 32 << 10
	// spoolBlock is the number of bytes that the spool hands out without looking for a line to cut at (spool.Stream.Pending).
	spoolBlock = 1 << 20
)

// due collects the jobs to do now, the longest waiting first (with all: the shortest first), and returns when the next of the others
// becomes due.
func (s *Shipper) due(now time.Time, all bool) (jobs []job, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.opts.Groups {
		group := &s.opts.Groups[i]
		for _, source := range group.Sources() {
			j, ok := s.job(now, group, source)
			switch {
			case !ok:
			case all || !j.due.After(now):
				jobs = append(jobs, j)
			case next.IsZero() || j.due.Before(next):
				next = j.due
			}
		}
	}
	s.prune(now)
	slices.SortStableFunc(jobs, func(a, b job) int {
		if all {
			return shortestFirst(a, b)
		}
		return a.oldest.Compare(b.oldest)
	})
	return jobs, next
}

// job returns the next chunk of a source; false if there is none, or one is being shipped.
func (s *Shipper) job(now time.Time, group *Group, source Source) (job, bool) {
	st := s.states[source.Key()]
	if st != nil && st.busy {
		return job{}, false
	}
	// Twice the limit: a source that is cut between lines may have no cut at the limit itself.
	_, n, oldest := source.Pending(2 * max(s.opts.MaxChunk, spoolBlock))
	if n == 0 {
		return job{}, false
	}
	if st == nil {
		st = &state{group: group.Name, failures: newFailures()}
		s.states[source.Key()] = st
	}
	st.used = now
	j := job{group: group, source: source, state: st, n: n, oldest: oldest, due: oldest.Add(s.opts.PushInterval), failedAt: st.failedAt}
	chunk := s.chunkBytes(now, &st.limit)
	if n >= chunk {
		j.due = oldest
	}
	if j.failedAt.IsZero() {
		j.newcomer = j.due
	}
	if j.due.Before(st.notBefore) {
		j.due = st.notBefore
	}
	j.suspect = st.own > 0 || st.slow || (chunk < s.opts.MaxChunk && n >= chunk)
	return j, true
}

// shortestFirst is the order in which the most streams are stored completely before time runs out. Failed streams come last.
func shortestFirst(a, b job) int {
	if a.failedAt.IsZero() != b.failedAt.IsZero() {
		if a.failedAt.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.n, b.n)
}

// prune forgets streams that no longer grow, such as those of past hours.
func (s *Shipper) prune(now time.Time) {
	if len(s.states) < leastStates {
		return
	}
	for stream, st := range s.states {
		idle := now.Sub(st.used)
		if !st.busy && (idle >= stateAge || (len(s.states) > maxStates && idle > time.Minute && st.failedAt.IsZero())) {
			delete(s.states, stream)
		}
	}
}
