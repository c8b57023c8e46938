package webhooks

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	// maxWork is how many sessions are worked on or waited for; others are found in later looks at the list. A
	// namespace that has less than its share of them may have more.
	maxWork = 500
	// workers is how many sessions are handled at a time.
	workers = 8
	// maxReads is how often reading a session is tried before its end is sent with the outcome unknown.
	maxReads = 3
)

// ErrNotYet is returned by Options.Findings while another server is finding out how the session ended: call it again
// soon.
var ErrNotYet = errors.New("how the session ended is not known yet")

// unit is what one replica handles: an ended session, or a failed job of a running one, by its event's ID.
type unit struct {
	session layout.Session
	job     string
}

// Sender sends events to the receivers about ended sessions, and about failed jobs of running ones.
type Sender struct {
	opts     Options
	ledger   ledger
	client   *http.Client
	metrics  metrics
	reading  *turns.Slots // one slot, for Options.Findings
	workers  *turns.Slots
	wake     chan struct{} // has a token when work may be due
	storeLog logthrottle.Throttle
	targets  []*target

	loop background.Worker

	// Used only by the loop:
	watermark time.Time // events about all sessions that ended before are sent
	ready     bool      // watermark and the targets' since are known

	mu       sync.Mutex
	work     map[unit]*work
	counts   map[string]int            // how much work each namespace has
	finished map[layout.Session]ending // sessions that need no more work, unless they end again
	watched  map[layout.Session]*watch // running sessions
}

// ending is when a session ended, and when its last object was stored.
type ending struct{ end, written time.Time }

// New makes a Sender. Start begins its work.
func New(opts Options) *Sender {
	opts.Timing.setDefaults()
	name, _ := os.Hostname()
	s := &Sender{
		opts:    opts,
		ledger:  ledger{store: opts.Store, root: opts.Root, lease: opts.Timing.Lease, name: name + " " + rand.Text()},
		client:  newHTTPClient(opts.Timing.Request),
		reading: turns.New(1, opts.Timing.Turn), workers: turns.New(workers, opts.Timing.Turn),
		wake:     make(chan struct{}, 1),
		storeLog: logthrottle.Throttle{Log: opts.Log}, work: make(map[unit]*work), counts: make(map[string]int),
		finished: make(map[layout.Session]ending),
		watched:  make(map[layout.Session]*watch),
	}
	s.metrics = newMetrics(opts.Registerer, s)
	if opts.Config != nil {
		for _, r := range opts.Config.Receivers {
			s.targets = append(s.targets, &target{Receiver: r,
				log: logthrottle.Throttle{Log: opts.Log.WithField("receiver", r.Name)}})
		}
	}
	return s
}

// Start sends events until Close.
func (s *Sender) Start() {
	if len(s.targets) > 0 {
		s.loop.Start(s.run)
	}
}

// Close ends work in progress. Other replicas, or the next start, continue it when its claims have expired.
func (s *Sender) Close() { s.loop.Close() }

// run looks at the list of sessions at each interval, and has workers do the work that is due, until ctx ends. Between
// two looks it only has due work done: often enough for the shortest wait, and when a worker has finished.
func (s *Sender) run(ctx context.Context) {
	list := time.NewTicker(s.opts.Timing.Interval)
	defer list.Stop()
	// soon ticks often enough for work that waits for MinWait.
	soon := time.NewTicker(max(time.Millisecond, s.opts.Timing.MinWait/4))
	defer soon.Stop()
	for scan := true; ctx.Err() == nil; {
		if scan {
			err := guard.CatchPanic("the sessions that webhooks look at",
				func() error { s.scan(ctx, time.Now()); return nil })
			if err != nil {
				s.warnStore("webhooks cannot look for sessions; they try again", err)
			}
		}
		s.dispatch(ctx)
		select {
		case <-ctx.Done():
		case <-list.C:
			scan = true
			continue
		case <-soon.C:
		case <-s.wake:
		}
		scan = false
	}
}

// readStartTimes reads the times from which on events are sent: since of each target, which it records for a new
// receiver, and the watermark.
func (s *Sender) readStartTimes(ctx context.Context) error {
	now, err := s.ledger.now(ctx)
	if err != nil {
		return err
	}
	for _, t := range s.targets {
		since, err := s.ledger.receiverSince(ctx, t.Name, now)
		if err != nil {
			return err
		}
		t.since = since
	}
	watermark, err := s.ledger.watermark(ctx)
	if err != nil {
		return err
	}
	s.watermark, s.ready = watermark, true
	return nil
}

// scan looks for sessions about which events may have to be sent, because they have ended or because a job may have
// failed.
func (s *Sender) scan(ctx context.Context, now time.Time) {
	if !s.ready {
		if err := s.readStartTimes(ctx); err != nil {
			if ctx.Err() == nil {
				s.warnStore("webhooks cannot start", err)
			}
			return
		}
	}
	watermark, all := s.addWork(now)
	if !all {
		return // sessions that are not known yet may have ended before the watermark
	}
	if err := s.recordWatermark(ctx, watermark); err != nil {
		s.warnStore("cannot record which sessions webhooks have handled; after a restart more sessions are checked "+
			"again", err)
	}
}

// recordWatermark records the watermark, if it is much later than the recorded one. It is written seldom, because after
// a restart the sessions since then are only checked again. Events about sessions that ended before it are never sent,
// so by the store's clock it is at least Timing.Slack before now, even if this machine's clock is ahead.
func (s *Sender) recordWatermark(ctx context.Context, watermark time.Time) error {
	slack := s.opts.Timing.Slack
	now, err := s.ledger.now(ctx)
	if err != nil {
		return err
	}
	if latest := now.Add(-slack); latest.Before(watermark) {
		watermark = latest
	}
	if watermark.Sub(s.watermark) <= slack/4 {
		return nil
	}
	if err := s.ledger.setWatermark(ctx, watermark); err != nil {
		return err
	}
	s.watermark = watermark
	return nil
}

// addWork adds work for ended sessions about which events may have to be sent, and watches running ones. It returns the
// watermark: events about all sessions that ended before it are sent. That holds only if all says that all sessions are
// known.
func (s *Sender) addWork(now time.Time) (watermark time.Time, all bool) {
	watermark = now.Add(-s.opts.Timing.Slack) // sessions that ended later may not be in the list yet
	running := make(map[*watch]bool)
	s.mu.Lock()
	defer s.mu.Unlock()
	known, all := s.opts.Sessions()
	for e := range known {
		if !e.Described || e.Running {
			if !e.Described {
				watermark = lastMomentBefore(watermark, e.LastWrite)
			}
			if s.wantsJobs(e) {
				running[s.updateWatch(e)] = true
			}
			continue
		}
		// Of a session without objects only the marker is stored, so there is nothing to send.
		if e.Objects == 0 || !e.Latest().After(s.watermark) {
			continue
		}
		// The end counts, not the last write: a copy or a compaction writes all objects long afterwards. late says that
		// the session ended before the watermark, but was written after it. Then events are sent only if events about
		// an earlier end of the session were sent.
		late := !e.End.After(s.watermark)
		last, finished := s.finished[e.Ref]
		isSent := finished && !e.End.After(last.end) && (!late || !e.LastWrite.After(last.written))
		if isSent || !s.anyMayWant(e) {
			continue
		}
		// The watermark stays before this session, so that it is found again after a restart.
		if late {
			watermark = lastMomentBefore(watermark, e.Latest())
		} else {
			watermark = lastMomentBefore(watermark, e.End)
		}
		if u := (unit{session: e.Ref}); s.work[u] == nil && now.Sub(e.Latest()) >= s.opts.Timing.Delay &&
			s.hasCapacity(u) {
			s.addUnit(u, &work{s: s, entry: e, late: late, due: now})
		}
	}
	maps.DeleteFunc(s.watched, func(ref layout.Session, w *watch) bool { return !running[w] && !w.busy })
	maps.DeleteFunc(s.finished, func(_ layout.Session, at ending) bool {
		return !at.end.After(s.watermark) && !at.written.After(s.watermark)
	})
	return watermark, all
}

// hasCapacity says whether work on a unit may be added; s.mu must be held. However much work other namespaces have, one
// that has less than its share of maxWork may have more.
func (s *Sender) hasCapacity(u unit) bool {
	n := s.counts[u.session.Namespace]
	return len(s.work) < maxWork || n == 0 || n < maxWork/len(s.counts)
}

// addUnit adds work on a unit; s.mu must be held.
func (s *Sender) addUnit(u unit, w *work) {
	s.work[u] = w
	s.counts[u.session.Namespace]++
}

// removeUnit removes the work on a unit; s.mu must be held.
func (s *Sender) removeUnit(u unit) {
	delete(s.work, u)
	if s.counts[u.session.Namespace]--; s.counts[u.session.Namespace] == 0 {
		delete(s.counts, u.session.Namespace)
	}
}

// lastMomentBefore returns watermark or, if that is earlier, the last moment before a time.
func lastMomentBefore(watermark, at time.Time) time.Time {
	if at = at.Add(-1); at.Before(watermark) {
		return at
	}
	return watermark
}

// anyMayWant says whether a receiver may want events about a session.
func (s *Sender) anyMayWant(e catalog.Entry) bool {
	return slices.ContainsFunc(s.targets, func(t *target) bool { return t.mayWant(e.Ref, e.End) })
}

func (s *Sender) warnStore(text string, err error) {
	s.metrics.errors.Inc()
	s.storeLog.Warn(time.Now(), text, err)
}

// dispatch starts a goroutine for each work that is due, and for each running session whose failed jobs are to be
// looked for. They wait for one of the workers, for which namespaces take turns, until ctx ends.
func (s *Sender) dispatch(ctx context.Context) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for u, w := range s.work {
		if !w.busy && !w.due.After(now) {
			w.busy = true
			s.loop.Start(func(context.Context) { s.doWork(ctx, u, w) })
		}
	}
	for ref, w := range s.watched {
		if w.isDue(now) {
			w.busy = true
			e, answer := w.entry, w.answer // read while s.mu is held
			s.loop.Start(func(context.Context) { s.lookInTurn(ctx, ref, w, e, answer) })
		}
	}
}

// doWork does a step of work on a unit in a worker's turn, and removes the work when it is finished. The step also gets
// ctx, which lasts longer than the turn: a request that is under way when the turn ends is finished and recorded. The
// end of a session is remembered when its work is finished, so that scan adds no work about it again; a failed job its
// watch remembers.
func (s *Sender) doWork(ctx context.Context, u unit, w *work) {
	finished := false
	if turnCtx, done, err := s.workers.Take(ctx, u.session.Namespace, turns.NoLimit); err == nil {
		finished = w.step(ctx, turnCtx)
		done()
	} else { // too many wait, or ctx has ended
		w.due = time.Now().Add(s.opts.Timing.MinWait)
	}
	s.mu.Lock()
	w.busy = false
	if finished {
		s.removeUnit(u)
		if w.job == nil {
			s.finished[u.session] = ending{w.entry.End, w.entry.LastWrite}
		}
	}
	s.mu.Unlock()
	background.Signal(s.wake)
}

// lookInTurn looks for failed jobs of a running session in a worker's turn; lookForFailed says when next.
func (s *Sender) lookInTurn(ctx context.Context, ref layout.Session, w *watch, e catalog.Entry, answer string) {
	if turnCtx, done, err := s.workers.Take(ctx, ref.Namespace, turns.NoLimit); err == nil {
		s.lookForFailed(turnCtx, w, e, answer)
		done()
	} else { // too many wait, or ctx has ended
		s.mu.Lock()
		w.busy, w.due = false, time.Now().Add(s.opts.Timing.MinWait)
		s.mu.Unlock()
	}
	background.Signal(s.wake)
}
