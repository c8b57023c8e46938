// Package snapshot stores answers of the live Ray dashboard that events do not contain: workers' processes, hardware, placement groups,
// objects, Serve applications, datasets.
//
// It asks in rounds, one request at a time: every 30 s while answers change, up to every 5 minutes while they do not. An answer is stored
// only if more than hardware figures, counters and clocks changed in it. The nodes' hardware figures go into a series of compact samples
// instead (layout.Sample). Of nodes and jobs that have ended, a URL that fails is asked ever more rarely. The more of a session's bytes (--snapshot-max-bytes) are used, the
// longer a URL waits before its next version is stored, so that there is always space for the last one. When the session ends, the last
// answer about the nodes is stored with all of its figures.
package snapshot

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// Options of a taker. All except Additional, AdditionalEvery, Interval and MaxBytes must be set.
type Options struct {
	Client *Client
	Store  blob.Creator
	// Key returns the key of the first stored answer to a URL.
	Key func(session, url string) string
	// Series takes an hour's lines of hardware figures.
	Series func(ctx context.Context, session string, hour time.Time, lines []byte) error
	// Prepare is called before anything of a session is stored or passed on; if it fails, nothing is.
	Prepare func(ctx context.Context, session string) error
	// Dir is the folder for the state of each session, and for answers that wait to be stored; it must exist.
	Dir string
	// Version receives the dashboard's session and Ray version in each round.
	Version func(session, rayVersion string)
	// Nodes receives the number of the session's nodes in each round.
	Nodes func(session string, count int)
	// Additional are further URLs to save, each AdditionalEvery (0: every round).
	Additional      []string
	AdditionalEvery time.Duration
	// Interval is the shortest time between two rounds; 0 means 30 s.
	Interval time.Duration
	// MaxBytes bounds the snapshots of one session, and separately those that are kept on disk until its end; 0 means 256 MiB.
	MaxBytes   int64
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

const (
	defaultInterval = 30 * time.Second
	maxInterval     = 5 * time.Minute // unless Options.Interval is longer
	defaultMaxBytes = 256 << 20
	// firstWait is the time between rounds until the dashboard answers for the first time.
	firstWait = 5 * time.Second
	// leastRestart is less than any restart of Ray takes.
	leastRestart = time.Second
	// maxVersion is longer than any version of Ray.
	maxVersion   = 100
	storeTimeout = time.Minute
)

// Taker takes snapshots. Call New, then Start, then Close; or only New, and Round by hand.
type Taker struct {
	opts     Options
	metrics  *metrics
	interval time.Duration        // until the next round
	session  *sessionState        // nil before the dashboard named one
	named    time.Time            // when the dashboard named that session last
	next     map[string]time.Time // by URL, when it may be asked again
	nextNode int                  // the node that the next round begins with
	warned   map[string]bool      // URLs whose refusal was logged
	failures map[string]int       // by URL about what has ended, how often it failed in a row
	failing  bool                 // the last round failed
	unstored logthrottle.Throttle // answers that were not stored: while the store is down, all of them

	cancel context.CancelFunc
	done   chan struct{}
}

// New makes a taker.
func New(o Options) *Taker {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	return &Taker{
		opts: o, metrics: newMetrics(o.Registerer), interval: firstWait,
		next: make(map[string]time.Time), warned: make(map[string]bool), failures: make(map[string]int), unstored: logthrottle.Throttle{Log: o.Log}, done: make(chan struct{}),
	}
}

// Start takes snapshots in the background until Close.
func (t *Taker) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go func() {
		defer close(t.done)
		for {
			t.Round(ctx)
			timer := time.NewTimer(t.interval)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	}()
}

// Close stops the background work. Final and Finish still work.
func (t *Taker) Close() {
	t.cancel()
	<-t.done
}

// Round requests all URLs that are due, once.
func (t *Taker) Round(ctx context.Context) {
	changed, err := t.round(ctx, false)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.metrics.errors.Inc()
		log := t.opts.Log.WithError(err)
		if !t.failing {
			log.Info("no snapshots of the dashboard can be taken now; the collector tries again")
		} else {
			log.Debug("no snapshots of the dashboard")
		}
		t.failing = true
		if t.session != nil {
			t.interval = t.opts.Interval
		}
	default:
		if t.failing {
			t.opts.Log.Info("snapshots of the dashboard are taken")
		}
		t.failing = false
		if changed {
			t.interval = t.opts.Interval
		} else {
			t.interval = min(max(t.opts.Interval, t.interval*3/2), max(maxInterval, t.opts.Interval))
		}
	}
}
