package collector

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/node"
)

// runs follows which sessions Ray runs on this node: those whose raylets listen. A collector may outlive sessions, as a
// service of a machine does over `ray stop` and `ray start`, and a session may outlive its raylet, as with GCS fault
// tolerance when the container of the head is restarted.
type runs struct {
	raylets func() (map[string]bool, error)

	mu   sync.Mutex
	runs map[string]run // sessions whose raylet was seen
	now  map[string]bool
}

// run is what was seen of a session's raylet.
type run struct {
	began time.Time // it was seen first, after it was not
	last  time.Time // it was seen last; zero: by an earlier collector
	gone  time.Time // since when it is not seen; zero: it runs
}

// endDelay is how long a raylet stays away before its session counts as ended. A container that is restarted takes some
// seconds.
const endDelay = time.Minute

// newRuns begins with the sessions whose raylets earlier collectors saw.
func newRuns(before []string) *runs {
	r := &runs{raylets: node.Raylets, runs: make(map[string]run)}
	for _, name := range before {
		r.runs[name] = run{}
	}
	return r
}

// look looks for raylets, and returns the sessions that run.
func (r *runs) look(now time.Time) (map[string]bool, error) {
	running, err := r.raylets()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range running {
		seen, ok := r.runs[name]
		if !ok || !seen.gone.IsZero() {
			seen = run{began: now}
		}
		seen.last = now
		r.runs[name] = seen
	}
	for name, seen := range r.runs {
		if !running[name] && seen.gone.IsZero() {
			seen.gone = now
			r.runs[name] = seen
		}
	}
	r.now = running
	return running, nil
}

// keep forgets sessions that are no longer in Ray's temporary folder and do not run.
func (r *runs) keep(present []logs.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.runs, func(name string, seen run) bool {
		return !seen.gone.IsZero() && !slices.ContainsFunc(present, func(s logs.Session) bool { return s.Name == name })
	})
}

// ran says whether a session's raylet was seen, and since when it runs or ran.
func (r *runs) ran(name string) (began time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, ok := r.runs[name]
	return seen.began, ok
}

// latest is the newest session that ran when look was called last; "" if there was none.
func (r *runs) latest() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := ""
	for name := range r.now {
		newest = max(newest, name)
	}
	return newest
}

// ended says whether a session that does not run has ended, and when. another says that this node runs another session,
// closing that the collector ends, after Ray.
func (r *runs) ended(s logs.Session, latest string, another, closing bool, now time.Time) (at time.Time, ended bool) {
	r.mu.Lock()
	seen, ran := r.runs[s.Name]
	r.mu.Unlock()
	switch {
	case ran:
		return seen.end(s.LastWrite), another || closing || now.Sub(seen.gone) >= endDelay
	case s.LastWrite.IsZero():
		return now, closing && s.Name == latest
	case s.Name == latest && !another:
		return s.LastWrite, closing // its raylet may be about to start, or is in another network namespace
	}
	return s.LastWrite, another || closing || s.Quiet
}

// end is when a session ended whose raylet is gone: at the last sign of it.
func (r run) end(lastWrite time.Time) time.Time {
	switch {
	case lastWrite.After(r.last):
		return lastWrite
	case r.last.IsZero():
		return r.gone
	}
	return r.last
}
