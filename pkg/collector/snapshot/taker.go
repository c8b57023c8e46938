// Package snapshot stores answers of the live Ray dashboard that events do not contain: workers' processes, hardware,
// placement groups, objects, Serve applications, datasets.
//
// It asks in rounds, one request at a time: every 30 s while answers change, up to every 4 minutes while they do not.
// An answer is stored only if more than hardware figures, counters and clocks changed in it. The nodes' hardware
// figures go into a series of compact samples instead (layout.Sample). Of nodes and jobs that have ended, a URL that
// fails is asked ever more rarely. The more of a session's bytes (--snapshot-max-bytes) are used, the longer a URL
// waits before its next version is stored, so that there is always space for the last one. When the session ends, the
// last answer about the nodes is stored with all of its figures.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Options of a taker. All except Additional, Interval, Redact and MaxBytes must be set.
type Options struct {
	Client *Client
	Store  blob.Creator
	// Key returns the key of the first stored answer to a URL.
	Key func(session, url string) string
	// Series takes an hour's lines of hardware figures.
	Series func(ctx context.Context, session string, hour time.Time, lines []byte) error
	// Check is called before anything of a session is asked for; if it fails, nothing is.
	Check func(session string) error
	// Prepare is called before an answer is stored; if it fails, the answer is not.
	Prepare func(ctx context.Context, session string) error
	// Dir is the folder for the state of each session, and for answers that wait to be stored; it must exist.
	Dir string
	// Version receives the dashboard's session and Ray version in each round, after Zone has got the head's offset from
	// UTC, such as -08:00.
	Version func(session, rayVersion string)
	Zone    func(session, offset string)
	// Nodes receives the number of the session's nodes in each round.
	Nodes func(session string, count int)
	// Additional are further URLs to save in every round.
	Additional []string
	// Interval is the shortest time between two rounds; 0 means DefaultInterval.
	Interval time.Duration
	// Redact overwrites what must not be stored; nil: nothing.
	Redact *redact.Redactor
	// MaxBytes bounds the snapshots of one session, and separately those that are kept on disk until its end; 0 means
	// DefaultMaxBytes.
	MaxBytes   int64
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// Defaults of Options.
const (
	DefaultInterval = 30 * time.Second
	DefaultMaxBytes = 256 << 20
)

const (
	// maxInterval is the longest time between rounds unless Options.Interval is longer. With what a round takes it is
	// less than the 5 minutes for which a value counts in PromQL: otherwise nodes would vanish before each round.
	maxInterval = 4 * time.Minute
	// firstWait is the time between rounds until the dashboard answers for the first time.
	firstWait = 5 * time.Second
	// leastRestart is less than any restart of Ray takes.
	leastRestart = time.Second
	// storeTimeout bounds one put, and hurriedTimeout those that follow when the store has not answered for that long:
	// a round must not take longer than maxInterval because of it. What is not stored is kept.
	storeTimeout   = time.Minute
	hurriedTimeout = 2 * time.Second
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
	unstored logthrottle.Throttle // what was not stored: while the store is down or the spool full, all of it
	waited   time.Duration        // how long puts of this round took that failed

	work background.Worker
}

func New(o Options) *Taker {
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	return &Taker{
		opts: o, metrics: newMetrics(o.Registerer), interval: firstWait,
		next: make(map[string]time.Time), warned: make(map[string]bool), failures: make(map[string]int),
		unstored: logthrottle.Throttle{Log: o.Log},
	}
}

// Start takes snapshots in the background until Close.
func (t *Taker) Start() {
	t.work.Start(func(ctx context.Context) {
		for {
			t.Round(ctx)
			if backoff.Sleep(ctx, t.interval) != nil {
				return
			}
		}
	})
}

// Close stops the background work. Final and Finish still work.
func (t *Taker) Close() { t.work.Close() }

// Round requests all URLs that are due, once, and sets the time until the next round: as long as nothing changes,
// rounds become rarer. That the dashboard does not answer is logged once. Until it has answered for the first time,
// rounds follow soon after each other.
func (t *Taker) Round(ctx context.Context) {
	const final = false
	changed, err := t.runRound(ctx, final)
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

// runRound requests every URL that is due; final says that no round follows. changed says that a new answer was stored.
// The error says that nothing could be requested: the dashboard does not answer, its session is not of this node, or
// the disk fails.
func (t *Taker) runRound(ctx context.Context, final bool) (changed bool, err error) {
	t.waited = 0
	session, version, err := t.requestSession(ctx)
	if err != nil {
		return false, err
	}
	named := time.Now()
	if err := t.opts.Check(session); err != nil {
		return false, err
	}
	if t.session == nil || t.session.Session != session {
		if err := t.beginSession(ctx, session); err != nil {
			t.opts.Version(session, version) // for metrics and the session's start
			return false, err
		}
	}
	t.named = named // before storing what earlier sessions left, which may take minutes
	s := t.session
	defer func() {
		if saveErr := s.saveState(); saveErr != nil {
			t.opts.Log.WithError(saveErr).Warn("snapshots may be stored twice after a restart")
		}
	}()
	ask := func(e endpoint) {
		if ctx.Err() == nil && t.isDue(e, final) {
			stored, _ := t.takeAnswer(ctx, s, e, final)
			changed = changed || stored
		}
	}
	ask(endpoint{url: zoneURL}) // before the version, with which the session's start is stored
	t.opts.Version(session, version)
	for _, url := range onceURLs {
		ask(endpoint{url: url, once: true})
	}
	for _, e := range periodic {
		ask(e)
	}
	for _, url := range t.opts.Additional {
		ask(endpoint{url: url})
	}
	return changed, nil
}

// requestSession requests the dashboard's session and its version of Ray.
func (t *Taker) requestSession(ctx context.Context) (session, rayVersion string, err error) {
	session, rayVersion, err = t.opts.Client.Version(ctx)
	if err != nil {
		return "", "", err
	}
	if err := layout.CheckSessionName(session); err != nil {
		return "", "", fmt.Errorf("read the dashboard's version: %w", err)
	}
	return session, rayVersion, nil
}

// checkSession returns an error if the answer that has just come may be of another session than the dashboard named in
// this round: Ray may have been restarted while a slow store took earlier answers. If the dashboard does not answer
// now, the answer came from the old one.
func (t *Taker) checkSession(ctx context.Context) error {
	if time.Since(t.named) < leastRestart {
		return nil
	}
	session, _, err := t.requestSession(ctx)
	switch {
	case err != nil:
		return nil
	case session != t.session.Session:
		return fmt.Errorf("the dashboard is of session %s now", session)
	}
	t.named = time.Now()
	return nil
}

// beginSession stores what is still kept of earlier sessions, and makes this session the one whose answers are taken.
func (t *Taker) beginSession(ctx context.Context, session string) error {
	err := t.storeOthers(ctx, session, func(earlier string, err error) {
		if err == nil {
			err = os.RemoveAll(filepath.Join(t.opts.Dir, earlier))
		}
		if err != nil {
			t.opts.Log.WithError(err).WithField("session",
				earlier).Warn("could not store the last snapshots of an earlier session; it is tried again at the " +
				"end and at the next start")
		}
	})
	if err != nil {
		return err
	}
	s, err := openState(t.opts.Dir, session)
	if err != nil {
		return err
	}
	t.session, t.next, t.failures, t.nextNode, t.warned = s, make(map[string]time.Time), make(map[string]int), 0,
		make(map[string]bool)
	return nil
}

// isDue says whether to request a URL in this round. The final round requests all URLs whose answers can have changed.
func (t *Taker) isDue(e endpoint, final bool) bool {
	if u := t.session.URLs[e.url]; u != nil && (u.Ended || (e.once && u.Stored > 0)) {
		return false
	}
	return final || !time.Now().Before(t.next[e.url])
}

// Final takes the last snapshots of the session. Finish must follow.
func (t *Taker) Final(ctx context.Context) {
	if _, err := t.runRound(ctx, true); err != nil {
		t.opts.Log.WithError(err).Debug("the dashboard no longer answers; its last answers are stored")
	}
}

// Finish stores the answers that are kept on disk, of this session and of earlier ones: the last one about the nodes
// with all figures, and those that the store did not take before. It does not ask the dashboard, which may have ended.
func (t *Taker) Finish(ctx context.Context) error {
	var failed error
	current := ""
	if t.session != nil {
		current = t.session.Session
		failed = t.storeKept(ctx, t.session)
	}
	err := t.storeOthers(ctx, current, func(_ string, err error) { failed = errors.Join(failed, err) })
	return errors.Join(failed, err)
}

// storeOthers stores the answers that are kept on disk of all sessions other than current. It calls done for each of
// them, with the error or nil. The returned error is that of reading the folder.
func (t *Taker) storeOthers(ctx context.Context, current string, done func(session string, err error)) error {
	entries, err := os.ReadDir(t.opts.Dir)
	if err != nil {
		return fmt.Errorf("read the folder of snapshots: %w", err)
	}
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == current || layout.CheckSessionName(entry.Name()) != nil {
			continue
		}
		s, err := openState(t.opts.Dir, entry.Name())
		if err == nil {
			err = t.storeKept(ctx, s)
		}
		done(entry.Name(), err)
	}
	return nil
}

// storeKept stores the answers of a session that are kept on disk. One that fails does not keep the others from being
// stored; the error is that of the last one.
func (t *Taker) storeKept(ctx context.Context, s *sessionState) error {
	var failed error
	for url, u := range s.URLs {
		if u.Kept == 0 {
			continue
		}
		file, err := regular.OpenFile(s.keptPath(url))
		if errors.Is(err, fs.ErrNotExist) {
			s.dropKept(url)
			continue
		}
		if err == nil {
			err = t.storeAnswer(ctx, s, url, u, file, time.UnixMilli(u.Kept))
			_ = file.Close()
		}
		if err != nil {
			failed = err
			continue
		}
		s.dropKept(url)
	}
	return errors.Join(failed, s.saveState())
}

type metrics struct {
	stored, bytes, errors prometheus.Counter
	refused               *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	const prefix = "rayhistory_collector_snapshot_"
	factory := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	return &metrics{
		stored: counter("stored_total", "Dashboard answers stored."),
		bytes:  counter("stored_bytes_total", "Bytes of dashboard answers stored."),
		errors: counter("errors_total",
			"Dashboard requests that failed, and answers and hardware figures that could not be stored."),
		refused: factory.NewCounterVec(prometheus.CounterOpts{Name: prefix + "refused_total",
			Help: "Dashboard answers beyond what Ray answers, which are not stored, by reason: bytes, depth, tokens " +
				"(names and values), row (bytes in one row or string), nodes, jobs, urls (of the nodes and jobs of one " +
				"session)."}, []string{"reason"}),
	}
}
