// Package explain finds out, in the background of a server, how every ended session ended and why. It has each session
// loaded once, which keeps its findings and writes its index. Of several servers over one store one does this at a
// time, and another follows it if it ends.
package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/blob/metered"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/outcomes"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/index"
)

// Options of an Explainer.
type Options struct {
	Store blob.Store // a *metered.Store, which paces the requests
	Root  string
	// Sessions returns the ended sessions whose outcome is not known, or was found out by rules of an earlier version,
	// the most urgent first.
	Sessions func() iter.Seq[catalog.Entry]
	// Kept opens what is kept of a session's findings.
	Kept outcomes.Open
	// Explain loads a session and keeps its findings and its index.
	Explain func(context.Context, layout.Session) error
	// Keep stores what is kept of a session whose findings cannot be kept.
	Keep func(ctx context.Context, ref layout.Session, kept []byte) error
	// Learned is told of sessions whose findings are kept now.
	Learned func(layout.Session)
	// Requests is how many requests a minute are sent to the store at most; 0: nothing is explained.
	Requests   int
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

const (
	// interval is the time between two looks for sessions.
	interval = 10 * time.Second
	// afterEnd is how long nothing must have been stored of a session: logs are stored after the end. What is stored
	// later has it explained again.
	afterEnd = 40 * time.Second
	// leaseTime is how long a server counts as alive that explains sessions; then another one follows it.
	leaseTime = time.Minute
	// sessionTime is how long one session may take.
	sessionTime = 10 * time.Minute
	// maxTries is how often explaining a session is tried before the reason that it fails is kept as its cause.
	maxTries = 4
	// minWait is the time between the first two tries of a session, which grows up to maxWait.
	minWait, maxWait = time.Minute, time.Hour
	// maxFailing is how many sessions are remembered that were tried.
	maxFailing = 10_000
	// maxPause is the longest pause after sessions that could not be explained: the store may be down.
	maxPause = time.Minute
)

// Explainer explains sessions.
type Explainer struct {
	opts    Options
	limiter *rate.Limiter
	results *prometheus.CounterVec
	loop    background.Worker

	// Used only by the loop:
	queue   *queue
	failing *cache.Cache[layout.Session, *attempts]
	pause   backoff.Backoff // after sessions that failed, or the lease
	alone   blob.Denied     // the store takes no lease, so each server explains for itself
}

// attempts says how often explaining one session has failed.
type attempts struct {
	of      time.Time       // when the session was last written to; a session may go on and end again
	tries   int             // that failed
	due     time.Time       // when the next one may begin
	waiting backoff.Backoff // between two
	deaths  int             // of servers, while they explained it
}

// New makes an Explainer. Start begins its work.
func New(opts Options) *Explainer {
	perSecond, atOnce := rate.Limit(float64(opts.Requests)/60), max(1, opts.Requests/6) // those of ten seconds
	return &Explainer{
		opts: opts, limiter: rate.NewLimiter(perSecond, atOnce),
		results: promauto.With(opts.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_explained_sessions_total",
			Help: "Ended sessions whose findings were kept in the background (ok), could not be (error), " +
				"or were given up (given_up).",
		}, []string{"result"}),
		queue:   &queue{served: make(map[string]uint64)},
		failing: cache.New[layout.Session, *attempts](maxFailing, cache.Forever, nil),
		pause:   backoff.Backoff{Min: time.Second, Max: maxPause},
	}
}

// Start explains sessions until Close.
func (x *Explainer) Start() {
	if x.opts.Requests > 0 {
		x.loop.Start(x.run)
	}
}

// Close ends the work. The session that is being explained then is left to another server, or to the next start.
func (x *Explainer) Close() { x.loop.Close() }

// run looks for sessions to explain at each interval, and explains them while this server holds the lease.
func (x *Explainer) run(ctx context.Context) {
	for backoff.Sleep(ctx, interval) == nil {
		if !x.fillQueue() {
			continue // nothing is due, so the lease is not needed
		}
		err := x.work(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, lease.ErrBusy):
			x.opts.Log.WithError(err).Debug("another server explains sessions")
			_ = backoff.Sleep(ctx, leaseTime/2)
		case errors.Is(err, lease.ErrLost):
			x.opts.Log.WithError(err).Warn("another server finds out from now on how sessions ended")
		case err != nil:
			x.opts.Log.WithError(err).Warn("cannot find out how ended sessions ended; the server tries again")
			_ = backoff.Sleep(ctx, x.pause.Next())
		}
	}
}

// work explains sessions while some are due, under the lease. If the store refuses the lease, it works without.
func (x *Explainer) work(ctx context.Context) error {
	if x.alone.Holds() {
		return x.explainAll(metered.Paced(ctx, x.limiter))
	}
	// Only ctx inside is paced, so the requests that renew the lease do not wait for their turn.
	err := lease.Hold(ctx, x.opts.Store, layout.ExplainingKey(x.opts.Root), leaseTime, func(ctx context.Context) error {
		ctx = metered.Paced(ctx, x.limiter)
		x.takeOverNote(ctx)
		return x.explainAll(ctx)
	})
	if blob.IsDenied(err) {
		x.opts.Log.WithError(err).Info("the store refuses a lease below index/packs/, so each server finds out for " +
			"itself how sessions ended: to have one do it, grant the right to write there")
		x.alone.Set()
	}
	return err
}

// fillQueue replaces the queue by the sessions that are due now; false if there are none.
func (x *Explainer) fillQueue() bool {
	now := time.Now()
	err := guard.CatchPanic("the sessions to explain", func() error {
		x.queue.refill(x.opts.Sessions(), func(e catalog.Entry) bool { return x.isDue(e, now) })
		return nil
	})
	if err != nil {
		x.opts.Log.WithError(err).Warn("cannot look for sessions that have ended")
	}
	return len(x.queue.waiting) > 0
}

// isDue says whether a session may be explained now: it ended some time ago, and its next try is not later.
func (x *Explainer) isDue(e catalog.Entry, now time.Time) bool {
	if now.Sub(e.Latest()) < afterEnd {
		return false
	}
	a, known := x.failing.Get(e.Ref)
	return !known || !now.Before(a.due) || !a.of.Equal(e.LastWrite)
}

// explainAll explains sessions, the newest first and the namespaces in turns, until none is due. After each it pauses
// for as long as the session took, so that requests get most of the processors.
func (x *Explainer) explainAll(ctx context.Context) error {
	filled := time.Now()
	for ctx.Err() == nil {
		if len(x.queue.waiting) == 0 || time.Since(filled) >= interval { // sessions that have ended since come first
			if filled = time.Now(); !x.fillQueue() {
				return nil
			}
		}
		began := time.Now()
		pause := time.Duration(0)
		if err := x.explain(ctx, x.queue.take()); err != nil {
			pause = x.pause.Next()
		} else {
			x.pause.Reset()
		}
		_ = backoff.Sleep(ctx, max(pause, time.Since(began)))
	}
	return context.Cause(ctx)
}

// explain has a session's findings stored, unless they are by now. An error means that the session is tried again
// later. After maxTries errors, or too many deaths of servers, it stores the reason instead and returns nil.
func (x *Explainer) explain(ctx context.Context, e catalog.Entry) error {
	a := x.attemptsOf(e)
	a.due = time.Now().Add(a.waiting.Next())
	if x.isKept(ctx, e) {
		x.opts.Learned(e.Ref)
		return nil
	}
	done := x.noteExplaining(ctx, e.Ref, a.deaths)
	defer done()
	err := errDied
	if a.deaths < maxDeaths {
		err = x.explainOnce(ctx, e)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		a.tries, a.deaths = 0, 0
		x.results.WithLabelValues("ok").Inc()
		x.opts.Learned(e.Ref)
		return nil
	}
	x.results.WithLabelValues("error").Inc()
	log := x.opts.Log.WithError(err).WithField("session", e.Ref.String())
	if a.tries++; a.tries < maxTries && a.deaths < maxDeaths {
		log.Debug("cannot find out how a session ended; the server tries again")
		return err
	}
	if giveErr := x.giveUp(ctx, e, err); giveErr != nil {
		return errors.Join(err, giveErr)
	}
	log.Warn("cannot find out how a session ended: it is shown as unknown, with the reason, or as before an upgrade")
	x.results.WithLabelValues("given_up").Inc()
	x.opts.Learned(e.Ref)
	return nil
}

var errTime = fmt.Errorf("it takes more than %s", sessionTime)

// explainOnce explains one session. The error is errTime if it takes too long, and index.ErrPartial if its findings are
// not stored because it could not be read completely.
func (x *Explainer) explainOnce(ctx context.Context, e catalog.Entry) error {
	limited, cancel := context.WithTimeoutCause(ctx, sessionTime, errTime)
	defer cancel()
	err := guard.CatchPanic(e.Ref.String(), func() error { return x.opts.Explain(limited, e.Ref) })
	switch {
	case err != nil && errors.Is(context.Cause(limited), errTime):
		return errTime
	case err == nil && !x.isKept(ctx, e): // ctx, because limited may have ended after the findings were stored
		return index.ErrPartial
	}
	return err
}

// isKept says whether findings of the session as it is listed are stored that were made by the current rules or later
// ones, or that such rules have given it up. If they cannot be read, it is false.
func (x *Explainer) isKept(ctx context.Context, e catalog.Entry) bool {
	head, ok := outcomes.Read(ctx, x.opts.Kept, e)
	return ok && head.TriedBy() >= findings.KeptVersion
}

// giveUp stores that a session cannot be explained by the current rules, and why. Findings that another version has
// stored stay.
func (x *Explainer) giveUp(ctx context.Context, e catalog.Entry, why error) error {
	var before []byte
	body, err := x.opts.Kept(ctx, e.Ref, findings.MaxKeptBytes)
	switch {
	case err == nil:
		before, err = io.ReadAll(body)
		err = errors.Join(err, body.Close())
	case errors.Is(err, os.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	kept, err := findings.EncodeGivenUp(before, e.Ref, e.LastWrite, why.Error())
	if err != nil {
		return err
	}
	return x.opts.Keep(ctx, e.Ref, kept)
}

// attemptsOf returns the attempts at a session as it is; it remembers new ones if there are none. Of what was stored
// before, only the deaths count.
func (x *Explainer) attemptsOf(e catalog.Entry) *attempts {
	a, known := x.failing.Get(e.Ref)
	if !known {
		a = &attempts{}
		x.failing.Put(e.Ref, a)
	}
	if !known || !a.of.Equal(e.LastWrite) {
		*a = attempts{of: e.LastWrite, deaths: a.deaths, waiting: backoff.Backoff{Min: minWait, Max: maxWait}}
	}
	return a
}
