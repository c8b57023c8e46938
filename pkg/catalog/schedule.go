package catalog

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// maxReads is the number of sessions whose details are read at a time.
const maxReads = 8

// maxEndedReads is how many ended sessions are read again after each listing: with the usual interval 5,760 a day,
// however many there are.
const maxEndedReads = 2

// maxPlanned is how many sessions of each kind are planned at a time; of those that were never read, half may be of one
// namespace.
const maxPlanned = 10_000

// maxRequested is the maximum number of requested sessions that are described before the others.
const maxRequested = 64

// schedule decides which sessions' details are read next. The catalog's mutex guards all fields except the channel.
type schedule struct {
	requested   []layout.Session        // to be read before all others
	undescribed []layout.Session        // their details were never read; namespaces in turns, of each the newest first
	rereads     []layout.Session        // to be read again; the one that was read longest ago first
	endedBudget int                     // how many ended sessions may still be read again until the next reset
	rereadNext  bool                    // the next session comes from rereads, if there is any
	reading     map[layout.Session]bool // details are being read
	listed      bool                    // the markers were listed, so the newest sessions are known
	wake        chan struct{}           // has a token when more may be due
}

// reset has the order computed again by the next plan. It is called after each successful listing of markers.
func (s *schedule) reset() {
	s.undescribed, s.rereads, s.endedBudget, s.listed = nil, nil, maxEndedReads, true
	background.Signal(s.wake)
}

// request puts a session before those that no user has requested.
func (s *schedule) request(ref layout.Session) {
	if !s.reading[ref] && len(s.requested) < maxRequested && !slices.Contains(s.requested, ref) {
		s.requested = append(s.requested, ref)
		background.Signal(s.wake)
	}
}

// next removes the next session from the schedule and returns it; false if there is none. Requested sessions come
// first. Then those without details take turns with those whose details are to be read again, so neither kind waits
// until the other is done.
func (s *schedule) next() (ref layout.Session, ok bool) {
	from := &s.undescribed
	switch {
	case len(s.requested) > 0:
		from = &s.requested
	case len(s.rereads) > 0 && (s.rereadNext || len(s.undescribed) == 0):
		from, s.rereadNext = &s.rereads, false
	case len(s.undescribed) > 0:
		s.rereadNext = true
	default:
		return ref, false
	}
	ref, *from = (*from)[0], (*from)[1:]
	return ref, true
}

// nextDue returns the session whose details should be read next, and marks it as being read; false if none is due. It
// refills an empty schedule, but not before the markers were listed. Sessions that were removed, are being read or were
// read since they were scheduled are skipped.
func (c *Catalog) nextDue() (layout.Session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.schedule
	if s.listed && len(s.requested)+len(s.undescribed)+len(s.rereads) == 0 {
		c.plan()
	}
	for {
		ref, ok := s.next()
		if !ok {
			return ref, false
		}
		if listed, ok := c.table.get(ref); ok && !s.reading[ref] && c.isDue(ref, listed) {
			s.reading[ref] = true
			return ref, true
		}
	}
}

// plan refills the schedule with sessions that were never read, for which namespaces take turns, running ones whose
// interval is over, and up to endedBudget ended ones. Of these, at most half are those that ended last (another head
// may continue them); then come those that were not read for a day (compaction may have changed their sizes), and those
// in c.changed. nextDue skips those that are not due or are being read. c.mu must be held.
func (c *Catalog) plan() {
	s := &c.schedule
	l := c.table.list(c.opts.Quiet)
	now := time.Now()
	byRead := func(a, b place) int { return cmp.Compare(l.row(a).readAt, l.row(b).readAt) } // the longest ago first
	idle := func(r *row) time.Duration { return time.Duration(r.readAt-r.lastWritten()) * time.Microsecond }
	byIdle := func(a, b place) int { return cmp.Compare(idle(l.row(a)), idle(l.row(b))) }
	running := top[place]{limit: maxPlanned, compare: byRead}
	lastEnded := top[place]{limit: (s.endedBudget + 1) / 2, compare: byIdle}
	longUnread := top[place]{limit: s.endedBudget, compare: byRead}
	turn := map[layout.Session]int{} // of those never read
	ofNamespace := map[string]int{}  // how many
	for p := range l.all() {
		r := l.row(p)
		age := now.Sub(timeOfMicros(r.readAt)) // negative if the clock was set back
		switch {
		case !r.described:
			if len(turn) == maxPlanned {
				break
			}
			ref := l.ref(p)
			if n := ofNamespace[ref.Namespace]; n < maxPlanned/2 && !s.reading[ref] && c.isDue(ref, session{}) {
				turn[ref], ofNamespace[ref.Namespace] = n, n+1
				s.undescribed = append(s.undescribed, ref)
			}
		case age < 0 || idle(r) <= c.opts.Quiet: // it was running when its details were read
			if age < 0 || age > c.opts.Interval-earlySecond {
				running.add(p)
			}
		case s.endedBudget == 0: // until the markers are listed again
		case age > quietInterval:
			longUnread.add(p)
		case age > idle(r)/quietShare:
			lastEnded.add(p)
		}
	}
	slices.SortStableFunc(s.undescribed, func(a, b layout.Session) int { return cmp.Compare(turn[a], turn[b]) })
	ended := slices.Concat(lastEnded.sortAndCut(), longUnread.sortAndCut())
	ended = ended[:min(s.endedBudget, len(ended))]
	s.endedBudget -= len(ended)
	planned := slices.Concat(running.sortAndCut(), ended)
	slices.SortStableFunc(planned, byRead)
	for _, p := range planned {
		s.rereads = append(s.rereads, l.ref(p))
	}
	for ref := range c.changed {
		if s.endedBudget == 0 {
			break
		}
		s.endedBudget--
		s.rereads = append(s.rereads, ref)
	}
}

// keepDescribing reads the details of sessions that are due, at most maxReads at a time, until ctx ends. If none is
// due, it waits until the schedule wakes it.
func (c *Catalog) keepDescribing(ctx context.Context) {
	slots := make(chan struct{}, maxReads)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		ref, ok := c.nextDue()
		for !ok {
			select {
			case <-c.schedule.wake:
			case <-ctx.Done():
				return
			}
			ref, ok = c.nextDue()
		}
		all.Go(func() {
			c.describe(ctx, ref)
			c.mu.Lock()
			delete(c.schedule.reading, ref)
			c.mu.Unlock()
			<-slots
		})
	}
}

// ReadAll lists the markers and reads the details of every session once; for sessions in Packs it takes the details
// from there. It is for commands; servers use Start. A session whose details cannot be read is not Described. The error
// says why the store could not be listed, or that ctx ended.
func (c *Catalog) ReadAll(ctx context.Context) (Listing, error) {
	c.mu.Lock()
	c.packed.disabled = true // a command writes no packs
	c.mu.Unlock()
	if err := c.Refresh(ctx); err != nil {
		return Listing{}, err
	}
	c.fillFromPacks(ctx) // an error is logged: then all sessions are read
	if c.opts.Packs != nil {
		// This finds packed sessions that a further head continues. If it fails, they are shown as they were packed.
		_ = c.refreshRecent(ctx, time.Now().Add(-beginMargin))
	}
	c.describeAll(ctx)
	return c.Cached(), ctx.Err()
}

// endedLately is how long after its end a packed session is read again by ReadAll, because a further head may have
// continued it.
const endedLately = time.Hour

// Lookup returns a Lookup for commands, which lists the store once, for all names. Owners of clusters are known only
// from the details of their sessions. All of these are read when a filter first has an owner: for a name that no
// cluster has.
func (c *Catalog) Lookup(ctx context.Context) Lookup {
	list := sync.OnceValues(func() ([]Entry, error) {
		if err := c.Refresh(ctx); err != nil {
			return nil, err
		}
		return slices.Collect(c.Cached().All()), nil
	})
	readAll := sync.OnceValues(func() ([]Entry, error) {
		c.opts.Log.Info("no cluster has this name: reading of all sessions who made their clusters")
		l, err := c.ReadAll(ctx)
		if err != nil {
			return nil, err
		}
		return slices.Collect(l.All()), nil
	})
	return func(f Filter) ([]Entry, error) {
		read := list
		if f.Owner != "" {
			read = readAll
		}
		entries, err := read()
		if err != nil {
			return nil, err
		}
		return LookupIn(entries)(f)
	}
}

// Describe reads the details of some sessions now, and returns their entries in the same order. It is for commands. A
// session whose objects cannot be listed is not Described.
func (c *Catalog) Describe(ctx context.Context, entries []Entry) ([]Entry, error) {
	refs := make([]layout.Session, len(entries))
	for i, e := range entries {
		refs[i] = e.Ref
	}
	c.describeEach(ctx, refs)
	found := make([]Entry, len(entries))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, ref := range refs {
		s, _ := c.table.get(ref)
		found[i] = s.entry(ref, time.Now(), c.opts.Quiet)
	}
	return found, ctx.Err()
}

// describeEach reads the details of sessions, some at a time, until ctx ends.
func (c *Catalog) describeEach(ctx context.Context, refs []layout.Session) {
	var g errgroup.Group
	g.SetLimit(maxReads)
	for _, ref := range refs {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			c.describe(ctx, ref)
			return nil
		})
	}
	_ = g.Wait()
}

// describeAll reads the details of those sessions that are due, newest first: they were never read, or more was stored
// lately or may be stored. Of packed sessions that ended long ago the packs are enough.
func (c *Catalog) describeAll(ctx context.Context) {
	var due []layout.Session
	l := c.Cached().list
	c.mu.Lock()
	for p := range l.all() {
		ref := l.ref(p)
		s, _ := c.table.get(ref)
		lately := s.facts != nil && time.Since(s.facts.LastWrite) < endedLately
		if c.isDue(ref, s) && (s.facts == nil || c.changed[ref] || lately || !c.wasQuiet(s)) {
			due = append(due, ref)
		}
	}
	c.mu.Unlock()
	c.describeEach(ctx, due)
}
