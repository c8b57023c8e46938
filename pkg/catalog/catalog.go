// Package catalog knows which clusters and sessions are stored.
//
// Sessions are listed from their marker objects, in both layouts. Everything else about a session (its size, when it was last written, the
// facts the head's collector left) costs requests for each session; that is learned in the background and kept.
package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Options of a Catalog.
type Options struct {
	Store blob.Reader
	Root  string
	// Interval is the time between two listings of the markers; 30 s if 0.
	Interval time.Duration
	// Quiet is how long a session without an end marker may be silent before it counts as ended; 10 min if 0.
	Quiet      time.Duration
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// Catalog is the list of stored sessions. It may be used by several goroutines.
type Catalog struct {
	opts    Options
	metrics metrics

	refreshing chan struct{} // a token, taken while markers are listed

	mu      sync.Mutex
	markers map[layout.Session]time.Time // session → when its marker was written
	details map[layout.Session]detail
	listed  time.Time     // the last listing that succeeded
	tried   time.Time     // the last listing that ended
	err     error         // why the last one failed
	entries []Entry       // made from the above, nil when they changed
	first   chan struct{} // closed when the first listing ended, well or not

	stop context.CancelFunc
	done chan struct{}
}

// Listing is the state of the list at one moment.
type Listing struct {
	// Entries are sorted by start, newest first. They are shared: callers must not change them.
	Entries []Entry
	// At is when the store was last listed, zero if it never could be.
	At time.Time
	// Err is why the last listing failed; Entries are then those of the one before.
	Err error
}

// retry is when a listing that failed is tried again, if that is sooner than the next one.
const retry = 5 * time.Second

// New makes a catalog that knows nothing yet: Start fills it.
func New(opts Options) *Catalog {
	if opts.Interval == 0 {
		opts.Interval = 30 * time.Second
	}
	if opts.Quiet == 0 {
		opts.Quiet = 10 * time.Minute
	}
	c := &Catalog{opts: opts, details: make(map[layout.Session]detail), refreshing: make(chan struct{}, 1), first: make(chan struct{}), done: make(chan struct{})}
	c.metrics = newMetrics(opts.Registerer, c)
	return c
}

// Start keeps the catalog fresh in the background until Close.
func (c *Catalog) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	go func() {
		defer close(c.done)
		for ctx.Err() == nil {
			rest := c.opts.Interval
			if err := c.Refresh(ctx); err == nil {
				c.describeDue(ctx)
			} else {
				rest = min(rest, retry)
			}
			select {
			case <-ctx.Done():
			case <-time.After(rest):
			}
		}
	}()
}

// Close ends what Start began.
func (c *Catalog) Close() {
	c.stop()
	<-c.done
}

// Refresh lists the markers now. Sessions that are new are listed without details at first.
func (c *Catalog) Refresh(ctx context.Context) error {
	began := time.Now()
	select {
	case c.refreshing <- struct{}{}:
		defer func() { <-c.refreshing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.triedSince(began) {
		// Another caller listed while this one waited.
		return c.lastError()
	}
	markers, err := c.list(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.metrics.refreshes.WithLabelValues(result(err)).Inc()

	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.tried.IsZero()
	if err != nil && c.err == nil {
		c.opts.Log.WithError(err).Error("cannot list the stored sessions; what was listed before stays")
	} else if err == nil && c.err != nil {
		c.opts.Log.Info("the stored sessions can be listed again")
	}
	c.tried, c.err = time.Now(), err
	if err == nil {
		c.listed, c.markers, c.entries = c.tried, markers, nil
		for ref := range c.details {
			if _, ok := markers[ref]; !ok {
				delete(c.details, ref)
			}
		}
	}
	if first {
		close(c.first)
	}
	return err
}

func (c *Catalog) triedSince(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tried.After(t)
}

func (c *Catalog) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// list reads the markers of both layouts. What is no marker is skipped.
func (c *Catalog) list(ctx context.Context) (map[layout.Session]time.Time, error) {
	markers := make(map[layout.Session]time.Time)
	for _, prefix := range layout.MetaPrefixes(c.opts.Root) {
		for o, err := range c.opts.Store.List(ctx, prefix, blob.ListOptions{}) {
			if err != nil {
				return nil, fmt.Errorf("look for sessions: %w", err)
			}
			ref, err := layout.ParseMeta(c.opts.Root, o.Key)
			if err != nil {
				c.opts.Log.WithError(err).Debug("skipped what is no session marker")
				continue
			}
			markers[ref] = o.ModTime
		}
	}
	return markers, nil
}

// describeDue looks at the objects of all sessions that need it, newest first.
func (c *Catalog) describeDue(ctx context.Context) {
	const concurrency = 8
	var g errgroup.Group
	g.SetLimit(concurrency)
	for _, e := range c.Known().Entries {
		if ctx.Err() != nil {
			break
		}
		if !c.due(e.Ref) {
			continue
		}
		g.Go(func() error {
			c.describe(ctx, e.Ref)
			return nil
		})
	}
	_ = g.Wait()
}

// List tells of all sessions, once the store has answered the first time or failed to. It waits for that no longer than ctx.
func (c *Catalog) List(ctx context.Context) Listing {
	select {
	case <-c.first:
	case <-ctx.Done():
		return Listing{Err: fmt.Errorf("the store has not answered yet: %w", context.Cause(ctx))}
	}
	return c.Known()
}

// Known is List without waiting: before the store has answered for the first time it is empty.
func (c *Catalog) Known() Listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = make([]Entry, 0, len(c.markers))
		for ref, at := range c.markers {
			c.entries = append(c.entries, c.entry(ref, at))
		}
		slices.SortFunc(c.entries, newestFirst)
		c.entries = slices.CompactFunc(c.entries, sameSession)
	}
	return Listing{Entries: c.entries, At: c.listed, Err: c.err}
}

// newestFirst orders by start. Of a session stored in both layouts ours comes first.
func newestFirst(a, b Entry) int {
	if n := b.Start.Compare(a.Start); n != 0 {
		return n
	}
	if n := strings.Compare(a.Ref.String(), b.Ref.String()); n != 0 {
		return n
	}
	return int(a.Ref.Version) - int(b.Ref.Version)
}

func sameSession(a, b Entry) bool { return a.Ref.String() == b.Ref.String() }
