// Package catalog lists the stored clusters and sessions, for the homepage, commands and background work.
//
// Sessions are listed from their markers, in both layouts. Everything else about a session (its size, its last write,
// the metadata that the head's collector stored) costs requests for each session: these details are read in the
// background and kept.
package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Options of a Catalog.
type Options struct {
	Store blob.Reader
	Root  string
	// Interval is the time between two listings of the markers; DefaultInterval if 0.
	Interval time.Duration
	// FullRequests limits the requests a day for listing the markers of all sessions; DefaultFullRequests if 0.
	// Sessions with a time-ordered marker are found every Interval, however rarely all markers are listed.
	FullRequests int
	// Quiet is the time without writes after which a session without an end marker counts as ended; lifetime.Idle if 0.
	Quiet time.Duration
	// Facts says that jobs, hours and outcomes of ended sessions are read too, for searches and Packs.
	Facts bool
	// Packs, if set, hold the facts of ended sessions. They are read at the start instead of each session's objects.
	// Start writes them if Facts is set.
	Packs *packs.Packs
	// Ending, if set, returns how an ended session ended; false if that is not known. It is called again for sessions
	// that somebody looks at, see ReadOutcomes.
	Ending func(context.Context, Entry) (Ending, bool)
	// Unlogged says that the callers of Refresh log failed listings.
	Unlogged   bool
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// Catalog is the list of stored sessions. Safe for concurrent use.
type Catalog struct {
	opts    Options
	metrics metrics

	listingAll    chan struct{}                     // holds a token while all markers are listed
	listingRecent chan struct{}                     // holds a token while time-ordered markers are listed
	misses        *rate.Limiter                     // of looking for single clusters
	missed        *cache.Cache[[2]string, struct{}] // namespace and name of those looked for within missAge

	mu       sync.Mutex
	table    table
	changed  map[layout.Session]bool      // sessions about which more may be stored
	failed   map[layout.Session]time.Time // when reading a session's details failed, if the last attempt did
	jobs     map[layout.Session]answer    // the answers from which the jobs of running sessions are known
	schedule schedule
	large    *turns.Slots // for reading large answers, one at a time
	packed   packing
	endings  endings
	recent   map[layout.Session]time.Time // when sessions were found between two listings of all markers
	full     fullListings
	listed   time.Time // when the last successful listing ended
	tried    time.Time // when the last listing ended
	err      error     // why it failed
	live     withRunning
	// beginning says that packs are read for the first time.
	beginning bool
	first     chan struct{} // closed when the first listing has ended or failed

	work background.Worker
}

// fullListings is what is known of the listings of all markers.
type fullListings struct {
	began    time.Time // the last successful one
	due      time.Time // when the next one may begin
	ended    time.Time // the last one
	err      error     // why the last one failed
	requests int       // how many the last one took
}

// Listing is the state of the list at one moment. It does not change.
type Listing struct {
	// At is the time of the last successful listing, zero if there was none.
	At time.Time
	// Err is why the last listing failed. Then the sessions are those of the last successful one.
	Err error
	// Beginning says that older sessions are still being read.
	Beginning bool

	list    *list           // nil: empty
	allowed map[string]bool // namespaces that are shown; nil: all
}

// Defaults of Options.
const (
	DefaultInterval     = 30 * time.Second
	DefaultFullRequests = 20_000
)

// retry is the pause after a failed listing, if it is shorter than Interval.
const retry = 5 * time.Second

// New creates an empty catalog, and registers its metrics. Start fills it.
func New(opts Options) *Catalog {
	opts.Interval = cmp.Or(opts.Interval, DefaultInterval)
	opts.FullRequests = cmp.Or(opts.FullRequests, DefaultFullRequests)
	opts.Quiet = cmp.Or(opts.Quiet, lifetime.Idle)
	c := &Catalog{
		opts: opts, table: newTable(), changed: make(map[layout.Session]bool),
		failed: make(map[layout.Session]time.Time),
		jobs:   make(map[layout.Session]answer), recent: make(map[layout.Session]time.Time),
		schedule: schedule{reading: make(map[layout.Session]bool), wake: make(chan struct{}, 1)},
		large:    turns.New(1, turns.NoLimit),
		endings: endings{slots: turns.New(outcomeReads, turns.NoLimit),
			looked:  cache.New[lookedAt, struct{}](maxLooked, outcomeAge, nil),
			reading: make(map[layout.Session]chan struct{})},
		listingAll: make(chan struct{}, 1), listingRecent: make(chan struct{}, 1), first: make(chan struct{}),
		misses: rate.NewLimiter(missesPerSecond, missesPerSecond),
		missed: cache.New[[2]string, struct{}](maxMissed, missAge, nil),
		packed: packing{
			read: make(map[string]bool), unpacked: make(map[layout.Session]*packs.Facts),
			fresh: make(map[layout.Session]*packs.Facts), removed: make(map[time.Time]map[layout.Session]bool),
			fullPacks: make(map[time.Time]int),
			wake:      make(chan struct{}, 1),
		},
	}
	c.metrics = newMetrics(opts.Registerer, c)
	return c
}

// Start keeps the catalog fresh in the background until Close. Markers are listed every Interval, however long reading
// details takes.
func (c *Catalog) Start() {
	c.work.Start(c.keepListing)
	c.work.Start(c.keepDescribing)
	if c.opts.Packs != nil {
		c.work.Start(c.keepPacking)
	}
}

// keepListing lists the sessions every interval, sooner after an error, until ctx ends. Each round lists the recent
// markers; it lists all markers only if that is due.
func (c *Catalog) keepListing(ctx context.Context) {
	c.fillFromPacks(ctx)
	for ctx.Err() == nil {
		pause := c.opts.Interval
		if err := c.refresh(ctx, false); err != nil {
			pause = min(pause, retry)
		}
		_ = backoff.Sleep(ctx, pause)
	}
}

// fillFromPacks fills the list from packs. All other sessions are found by listing all markers, which may take minutes.
// If that was not done yet and packs have sessions, it also adds sessions that began lately, and callers that wait for
// the first list get this one.
func (c *Catalog) fillFromPacks(ctx context.Context) {
	if c.opts.Packs == nil {
		return
	}
	c.mu.Lock()
	c.beginning = true
	c.mu.Unlock()
	_, err := c.readPacks(ctx, allDays)
	if err != nil && ctx.Err() == nil {
		c.opts.Log.WithError(err).Warn("cannot read the packs of sessions; all sessions are listed instead")
	}
	c.mu.Lock()
	c.beginning = false
	filled := c.table.rows > 0 && c.full.ended.IsZero() // by packs: all markers were not listed yet
	if filled {
		c.endFirstWait()
	}
	c.mu.Unlock()
	if filled {
		_ = c.refreshRecent(ctx, time.Now().Add(-beginMargin)) // logged
		c.Cached().prepare()                                   // so that the first search need not
	}
}

// endFirstWait ends the wait of List for the first listing, if it still waits; c.mu must be held.
func (c *Catalog) endFirstWait() {
	if c.tried.IsZero() {
		c.tried, c.listed = time.Now(), time.Now()
		close(c.first)
	}
}

// Close stops the background work.
func (c *Catalog) Close() { c.work.Close() }

// Refresh lists all markers now. New sessions have no details at first.
func (c *Catalog) Refresh(ctx context.Context) error { return c.refresh(ctx, true) }

// refresh lists all markers if that is due or if all is set, otherwise the markers of sessions that began lately: since
// recentMargin before the last listing of all markers began.
func (c *Catalog) refresh(ctx context.Context, all bool) error {
	began := time.Now()
	c.mu.Lock()
	all = all || !began.Before(c.full.due)
	since := c.full.began
	c.mu.Unlock()
	if !all {
		return c.refreshRecent(ctx, since.Add(-recentMargin))
	}
	return c.listOnce(ctx, c.listingAll, &c.full.ended, func() error {
		return c.refreshAll(ctx, since)
	})
}

// listOnce calls list while it holds token, which only one caller can. If another caller has listed while this one
// waited for the token, it returns that caller's error instead. listed points to the time of the last such listing;
// c.mu guards it.
func (c *Catalog) listOnce(ctx context.Context, token chan struct{}, listed *time.Time, list func() error) error {
	began := time.Now()
	select {
	case token <- struct{}{}:
		defer func() { <-token }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	done, err := listed.After(began), c.err
	c.mu.Unlock()
	if done {
		return err
	}
	return list()
}

// refreshAll lists all markers, and meanwhile again and again those of sessions that began since the last such listing,
// which began at since; zero: there was none. The next one is due after a time that grows with how many requests this
// one took. Sessions that have no marker any more leave the list only if all markers could be listed.
func (c *Catalog) refreshAll(ctx context.Context, since time.Time) error {
	began := time.Now()
	if since.IsZero() {
		since = began
	}
	stop := c.keepListingRecent(ctx, since.Add(-recentMargin))
	removed, pages, err := c.listAll(ctx)
	stop()
	heads, _ := c.listRecent(ctx, since.Add(-recentMargin)) // one request; if it fails, further heads are noticed later
	const ofAll = true
	return c.finishListing(ctx, err, ofAll, func() {
		c.rereadContinued(heads)
		c.full.requests, c.full.ended = pages, time.Now()
		if err != nil {
			leastPause := min(retry, c.opts.Interval)
			c.full.err, c.full.due = err, time.Now().Add(c.pauseAfterAll(pages, leastPause))
			return
		}
		const anyPause = 0
		c.full.err, c.full.began, c.full.due = nil, began, began.Add(c.pauseAfterAll(pages, anyPause))
		c.removeMissing(removed)
	})
}

// refreshRecent lists the markers of sessions that began after a moment.
func (c *Catalog) refreshRecent(ctx context.Context, since time.Time) error {
	return c.listOnce(ctx, c.listingRecent, &c.tried, func() error {
		found, err := c.listRecent(ctx, since)
		const ofAll = false
		return c.finishListing(ctx, err, ofAll, func() { c.addRecent(found) }) // found is empty after an error
	})
}

// keepListingRecent lists recent markers every Interval until stop returns. Meanwhile all markers are listed, which
// takes minutes if there are many.
func (c *Catalog) keepListingRecent(ctx context.Context, since time.Time) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var loop sync.WaitGroup
	loop.Go(func() {
		for backoff.Sleep(ctx, c.opts.Interval) == nil {
			_ = c.refreshRecent(ctx, since) // logged
		}
	})
	return func() {
		cancel()
		loop.Wait()
	}
}

// finishListing records that a listing has ended with err: one of all markers if ofAll is set, else one of recent
// markers. take puts what was found into the list, and is called with c.mu held. If ctx has ended, nothing is recorded.
// A successful listing has the schedule decide anew whose details are read next. Callers who wait for the first list
// (c.first) go on after the first listing of all markers, even if it failed. The returned error is why the list shown
// is not up to date.
func (c *Catalog) finishListing(ctx context.Context, err error, ofAll bool, take func()) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.metrics.refreshes.WithLabelValues(resultLabel(err)).Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	first, before := c.tried.IsZero(), c.err
	take()
	if first && !ofAll {
		if err == nil {
			c.schedule.reset()
		}
		return err // the list is not complete yet
	}
	c.tried, c.err = time.Now(), cmp.Or(err, c.full.err)
	if c.err != nil && before == nil && !c.opts.Unlogged {
		c.opts.Log.WithError(c.err).Error("cannot list the stored sessions; the previous list is shown")
	} else if c.err == nil && before != nil {
		c.opts.Log.Info("the stored sessions can be listed again")
	}
	if c.err == nil {
		c.listed = c.tried
	}
	if err == nil {
		c.schedule.reset()
	}
	if first {
		close(c.first)
	}
	return c.err
}

// removeMissing removes the sessions whose marker a listing of all markers did not have from the list; c.mu must be
// held. Sessions that were found since that listing began stay.
func (c *Catalog) removeMissing(removed []layout.Session) {
	// What was found before the listing began was listed by it, too.
	maps.DeleteFunc(c.recent, func(ref layout.Session, at time.Time) bool { return at.Before(c.full.began) })
	for _, ref := range removed {
		if _, recent := c.recent[ref]; recent {
			continue // its marker may have been stored after the listing passed its place
		}
		if s, ok := c.table.get(ref); ok && s.facts != nil {
			c.dropFacts(ref, s)
		}
		c.table.remove(ref)
		delete(c.failed, ref)
		delete(c.changed, ref)
		delete(c.jobs, ref)
	}
}

// dropFacts discards the facts of a removed session that wait to be packed and, if packs may have facts of it, has them
// removed from there; c.mu must be held.
func (c *Catalog) dropFacts(ref layout.Session, s session) {
	c.packed.discard(ref)
	if c.wasQuiet(s) && s.facts.Seen.Before(c.full.began) {
		c.removeFromPacks(ref)
	}
}

// removeFromPacks has the next Pack remove a session from the packs; c.mu must be held.
func (c *Catalog) removeFromPacks(ref layout.Session) {
	if c.opts.Packs == nil {
		return
	}
	day := layout.PackDay(ref)
	if c.packed.removed[day] == nil {
		c.packed.removed[day] = make(map[layout.Session]bool)
	}
	c.packed.removed[day][ref] = true
}

// List returns all sessions. It waits for the first listing to end, no longer than ctx.
func (c *Catalog) List(ctx context.Context) Listing {
	select {
	case <-c.first:
	case <-ctx.Done():
		return Listing{Err: fmt.Errorf("the store has not answered yet: %w", context.Cause(ctx))}
	}
	return c.Cached()
}

// Cached is like List, but does not wait. Before the first listing it is empty.
func (c *Catalog) Cached() Listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Packs lack what was not packed before the start: all sessions are known when all markers have been listed.
	beginning := c.beginning || c.opts.Packs != nil && c.full.ended.IsZero()
	return Listing{At: c.listed, Err: c.err, Beginning: beginning, list: c.table.list(c.opts.Quiet)}
}
