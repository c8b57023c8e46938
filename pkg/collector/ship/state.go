package ship

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
)

// state is what a shipper remembers of one stream. While it is busy it belongs to the worker that ships a chunk of the
// stream.
type state struct {
	// Guarded by the shipper's mu:
	busy  bool
	used  time.Time // when the stream last had something to ship
	group string

	prepared    bool // Options.Prepare succeeded
	listed      bool // a listing found the end before
	endKnown    bool // the source was resumed at end
	end         int64
	storedEmpty bool      // the stream is stored as an empty object, as earlier versions did
	notBefore   time.Time // of the next try after an error
	failures
	limit  chunkLimit
	upload upload
	// refused says that the stream had refusedAfter own errors in a row. The metrics read it at any time.
	refused atomic.Bool
}

// failures are the errors of a stream since its last stored chunk. The zero value means none.
type failures struct {
	backoff backoff.Backoff
	// failedAt is when the store last failed for this stream, zero if it did not. chunksThen is the number of chunks of
	// all streams that were stored by then.
	failedAt   time.Time
	chunksThen int64
	lastError  string
	// ownErrors counts the errors in a row that are blamed on the object or its size, not on the store.
	ownErrors int
	slow      bool // the last put took too long
}

// upload is the current put, or the last one.
type upload struct {
	bytes     int64 // uncompressed; 0 before there is one
	sentBytes int64 // bytes of it that were sent
}

// chunkLimit is how large a stream's chunks may be.
type chunkLimit struct {
	bytes    int64 // 0: Options.MaxChunk
	since    time.Time
	unproven bool // no chunk of about that size has passed yet
}

const (
	// LeastChunk is the size in bytes below which chunks are not cut further: if such a chunk fails, its size is not
	// the reason.
	LeastChunk = 64 << 10
	// limitAge is how long a stream's chunks stay smaller before twice the size is tried.
	limitAge = time.Hour
)

// halve makes the next chunk half as long as the failed one, or as long as the bytes of it that were sent in time.
func (l *chunkLimit) halve(now time.Time, u upload, slow bool) {
	bytes := u.bytes / 2
	if slow && u.sentBytes > 0 {
		bytes = min(bytes, u.sentBytes/2)
	}
	*l = chunkLimit{bytes: max(bytes, LeastChunk), since: now, unproven: true}
}

// chunkBytes returns the maximum size of a stream's next chunk in bytes, and keeps the stream's limit l up to date: a
// limit that is older than limitAge is doubled, until it reaches Options.MaxChunk and there is none.
func (s *Shipper) chunkBytes(now time.Time, l *chunkLimit) int64 {
	if l.bytes > 0 && now.Sub(l.since) >= limitAge {
		l.bytes, l.since = 2*l.bytes, now
	}
	if l.bytes >= s.opts.MaxChunk {
		l.bytes = 0
	}
	if l.bytes > 0 {
		return l.bytes
	}
	// A limit that another stream has found recently holds also for this one, if it never had one of its own: they
	// share the way to the store.
	if p := s.passedLimit.Load(); p != nil && l.since.IsZero() && now.Sub(p.since) < limitAge &&
		p.bytes < s.opts.MaxChunk {
		*l = *p
		return l.bytes
	}
	return s.opts.MaxChunk
}

func newFailures() failures { return failures{backoff: backoff.Backoff{Min: time.Second}} }

const (
	// stateAge is the age at which the state of a stream that no longer grows is forgotten. If it grows later, that
	// costs a listing.
	stateAge = 24 * time.Hour
	// leastStates is the number of states that are kept at any age. Of more than maxStates those that nothing was
	// shipped of for a minute are forgotten, unless they have failed.
	leastStates = 1024
	maxStates   = 32 << 10
	// spoolBlock is the number of bytes that the spool hands out without looking for a line to cut at
	// (spool.Stream.Pending).
	spoolBlock = 1 << 20
)

// dueJobs returns the jobs that are due, the longest waiting first, and when the next of the others becomes due.
func (s *Shipper) dueJobs(now time.Time) (jobs []job, next time.Time) {
	jobs = slices.DeleteFunc(s.nextJobs(now), func(j job) bool {
		waits := j.due.After(now)
		if waits && (next.IsZero() || j.due.Before(next)) {
			next = j.due
		}
		return waits
	})
	slices.SortStableFunc(jobs, func(a, b job) int { return a.oldest.Compare(b.oldest) })
	return jobs, next
}

// allJobs returns all jobs, due or not, the shortest first.
func (s *Shipper) allJobs(now time.Time) []job {
	jobs := s.nextJobs(now)
	slices.SortStableFunc(jobs, shortestFirst)
	return jobs
}

// nextJobs returns the next chunk of each source that has one, due or not, in the sources' order.
func (s *Shipper) nextJobs(now time.Time) (jobs []job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.opts.Groups {
		group := &s.opts.Groups[i]
		for _, source := range group.Sources() {
			if j, ok := s.nextJob(now, group, source); ok {
				jobs = append(jobs, j)
			}
		}
	}
	s.forgetIdle(now)
	return jobs
}

// nextJob returns the next chunk of a source. ok is false if it has none, or if one is being shipped.
func (s *Shipper) nextJob(now time.Time, group *Group, source Source) (next job, ok bool) {
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
	j := job{group: group, source: source, state: st, bytes: n, oldest: oldest, due: oldest.Add(s.opts.PushInterval),
		failedAt: st.failedAt}
	chunk := s.chunkBytes(now, &st.limit)
	if n >= chunk { // a full chunk need not wait
		j.due = oldest
	}
	if j.failedAt.IsZero() {
		j.freshDue = j.due
	}
	if j.due.Before(st.notBefore) {
		j.due = st.notBefore
	}
	// The stream has failed by itself, was slow, or had its chunks made smaller.
	j.suspect = st.ownErrors > 0 || st.slow || (chunk < s.opts.MaxChunk && n >= chunk)
	return j, true
}

// shortestFirst is the order in which the most streams are stored completely before time runs out. Failed streams come
// last.
func shortestFirst(a, b job) int {
	if a.failedAt.IsZero() != b.failedAt.IsZero() {
		if a.failedAt.IsZero() {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.bytes, b.bytes)
}

// forgetIdle forgets streams that no longer grow, such as those of past hours.
func (s *Shipper) forgetIdle(now time.Time) {
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
