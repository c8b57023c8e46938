package collector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/node"
)

// runs follows which sessions Ray runs on this node: those whose raylets listen. A collector may outlive sessions, as a
// service of a machine does over `ray stop` and `ray start`, and a session may outlive its raylet, as with GCS fault
// tolerance when the container of the head is restarted.
type runs struct {
	raylets func() (map[string]string, error) // node.Raylets

	looking sync.Mutex // held during a look, so that none ends after a later one

	mu   sync.Mutex
	runs map[string]run // sessions whose raylet was seen
	now  map[string]string
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

// lookForRaylets asks which raylets listen at the time now, and notes when those of each session began and went away.
// It returns the sessions whose raylets listen.
func (r *runs) lookForRaylets(now time.Time) (map[string]string, error) {
	r.looking.Lock()
	defer r.looking.Unlock()
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
		if running[name] == "" && seen.gone.IsZero() {
			seen.gone = now
			r.runs[name] = seen
		}
	}
	r.now = running
	return running, nil
}

// keepOnly forgets sessions that are no longer in Ray's temporary folder and do not run.
func (r *runs) keepOnly(present []logs.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.runs, func(name string, seen run) bool {
		return !seen.gone.IsZero() && !slices.ContainsFunc(present, func(s logs.Session) bool { return s.Name == name })
	})
}

// ranSince says whether a session's raylet was seen, and since when it runs or ran.
func (r *runs) ranSince(name string) (began time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, ok := r.runs[name]
	return seen.began, ok
}

// newestSession is the newest session that ran when lookForRaylets was called last; "" if there was none.
func (r *runs) newestSession() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := ""
	for name := range r.now {
		newest = max(newest, name)
	}
	return newest
}

// endOf says whether a session whose raylet does not listen has ended, and when. Its end is not certain before the
// raylet has been away for endDelay, or before nothing was written for a while, unless one of two things shows it:
// otherRuns, that this node runs another session, or closing, that the collector ends, which it does after Ray. latest
// is the session that session_latest names.
func (r *runs) endOf(s logs.Session, latest string, otherRuns, closing bool, now time.Time) (at time.Time, ended bool) {
	r.mu.Lock()
	seen, ran := r.runs[s.Name]
	r.mu.Unlock()
	switch {
	case ran && seen.gone.IsZero():
		return now, false // it runs again since
	case ran:
		return seen.endTime(s.LastWrite), otherRuns || closing || now.Sub(seen.gone) >= endDelay
	case s.LastWrite.IsZero(): // Ray has written nothing to its logs
		return now, closing && s.Name == latest
	case s.Name == latest && !otherRuns:
		return s.LastWrite, closing // its raylet may be about to start, or is in another network namespace
	}
	return s.LastWrite, otherRuns || closing || s.Quiet
}

// endTime is when a session ended whose raylet is gone: at the last sign of it.
func (r run) endTime(lastWrite time.Time) time.Time {
	switch {
	case lastWrite.After(r.last):
		return lastWrite
	case r.last.IsZero():
		return r.gone
	}
	return r.last
}

const (
	// lookInterval is the time between two looks for raylets that began or ended.
	lookInterval = 5 * time.Second
	// metadataInterval is the time between two attempts to store the metadata of sessions.
	metadataInterval = 15 * time.Second
)

// watchRaylets wakes the shipper when there is something new, and looks for raylets and a deleted spool folder every
// lookInterval, until ctx ends. It never waits for the store.
func (c *Collector) watchRaylets(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	folderErrors := logthrottle.Throttle{Log: c.opts.Log}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.spool.Notify():
			c.shipper.Wake()
		case <-c.tailer.Notify():
			c.shipper.Wake()
		case <-ticker.C:
			_, _ = c.runs.lookForRaylets(time.Now()) // what fails is told of with the metadata
			if err := c.keepFolder(); err != nil {
				folderErrors.Warn(time.Now(), "nothing can be kept in the spool's folder", err)
			}
		}
	}
}

func (c *Collector) keepMetadata(ctx context.Context) {
	metadataErrors := logthrottle.Throttle{Log: c.opts.Log}
	for backoff.Sleep(ctx, metadataInterval) == nil {
		if err := c.storeMetadata(ctx); err != nil && ctx.Err() == nil {
			metadataErrors.Warn(time.Now(), "the metadata of a session is not stored yet; it is tried again", err)
		}
	}
}

// storeMetadata stores the start of each running session's head, and the ends of sessions that are over and completely
// stored. One session's error does not keep the others from being stored.
func (c *Collector) storeMetadata(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	now := time.Now()
	running, err := c.runs.lookForRaylets(now)
	if err != nil {
		return err
	}
	present, latest, err := c.tailer.Sessions()
	if err != nil {
		return err
	}
	c.runs.keepOnly(present)
	otherRuns := anyRuns(present, running) // for a session that does not run itself
	var failed error
	for _, s := range present {
		_, ran := c.runs.ranSince(s.Name)
		// The latest session may run without a raylet that can be seen, as in another network namespace.
		if running[s.Name] != "" || (s.Name == latest && !ran && !otherRuns) {
			failed = errors.Join(failed, c.storeStart(ctx, s.Name, running[s.Name] != ""))
			continue
		}
		const closing = false
		at, ended := c.runs.endOf(s, latest, otherRuns, closing, now)
		if !ended {
			continue
		}
		if isNew := c.tailer.SetEnded(s.Name, true); isNew {
			continue // the next scan reads what its logs held back
		}
		if s.Stored && !c.sessions.stateOf(s.Name).Ended && !s.LastWrite.IsZero() && !c.isSpooled(s.Name) {
			failed = errors.Join(failed, c.sessions.storeEnd(ctx, s.Name, c.headOf(s.Name), at))
		}
	}
	return failed
}

// storeStart stores what is known of a session that runs, but not before Ray's version is known or will not be. raylet
// says that its raylet is seen.
func (c *Collector) storeStart(ctx context.Context, session string, raylet bool) error {
	c.tailer.SetEnded(session, false)
	var failed error
	if raylet {
		failed = c.sessions.recordRaylet(session)
	}
	return errors.Join(failed, c.sessions.storeStart(ctx, session, c.headOf(session), false),
		c.storeGrafana(ctx, session))
}

func (c *Collector) headOf(session string) headNode {
	id, ok := c.finder.Cached(session)
	began, _ := c.runs.ranSince(session)
	if !ok {
		return headNode{began: began}
	}
	return headNode{id: id.String(), began: began}
}
