package webhooks

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// work is one session, or one failed job of a running session, about which events are sent. The Sender's mutex guards
// busy, and due while it is not busy; a worker owns the rest.
type work struct {
	s     *Sender
	entry catalog.Entry
	job   *moment.Job // the job that failed; nil: the session has ended
	scope string      // what the names of its records begin with, except those of deliveries: see ledger.read
	late  bool        // nothing is sent unless events about an earlier end were, see Sender.addWork
	busy  bool        // a worker has it
	due   time.Time   // when the next step may begin

	claimed     bool
	claimNumber int       // the number of the last claim that was tried
	claimTime   time.Time // when it was tried
	claimEnd    time.Time // until when the claim is valid
	sent        map[string]bool
	continued   bool             // events about an earlier end of the session were sent
	ready       bool             // what to send is known
	report      *findings.Report // nil: the session could not be read
	failedReads int              // of the session
	readTime    time.Duration    // how long all of its reads took
	sending     time.Time        // when sending would have begun if claims had been held ever since
	backoff     *backoff.Backoff
}

// delay delays the next step, each time longer.
func (w *work) delay() {
	if w.backoff == nil {
		w.backoff = &backoff.Backoff{Min: w.s.opts.Timing.MinWait, Max: w.s.opts.Timing.MaxWait}
	}
	w.due = time.Now().Add(w.backoff.Next())
}

// claimLasts says whether the claim is valid for longer than sending and recording an event may take.
func (w *work) claimLasts() bool { return lease.Until(w.claimEnd) > 2*w.s.opts.Timing.Request }

// step does as much of the work as is possible now. It stops early when turnCtx ends, because others wait, or when ctx
// ends. finished says that nothing is left, or that another replica has done it. Errors are logged, and delay the next
// step.
func (w *work) step(ctx, turnCtx context.Context) (finished bool) {
	err := guard.CatchPanic("webhooks about "+w.entry.Ref.String(), func() (err error) {
		finished, err = w.advance(ctx, turnCtx)
		return err
	})
	if err != nil && ctx.Err() == nil {
		w.s.warnStore("webhooks cannot read or record what was sent about a session, and try again", err)
		w.delay()
	}
	return finished
}

// advance claims the session or job, reads its findings, and sends the events, as far as that is possible now. It stops
// early when turnCtx ends, because others wait, or when ctx ends. finished says that nothing is left, or that another
// replica has done it. Whatever keeps it from going on sets due, or leaves it where the next step may be at once.
func (w *work) advance(ctx, turnCtx context.Context) (finished bool, err error) {
	if w.claimed && !w.claimLasts() {
		w.claimed = false
		w.due = w.claimEnd.Add(w.s.opts.Timing.Lease / 10) // when the next claim may be made, see ledger.claimExpiry
		return false, nil
	}
	if !w.claimed {
		if w.job != nil && w.s.isSending(w.entry.Ref) {
			// The work on the session's end waits until no job is claimed, and then sends the events of all of them.
			return true, nil
		}
		if finished, err = w.claim(ctx); finished || err != nil || !w.claimed {
			return finished, err
		}
	}
	if !w.ready && !w.read(turnCtx) {
		return false, nil
	}
	if !w.claimLasts() {
		return false, nil // the next step renews the claim
	}
	progress, complete := w.sendAll(ctx, turnCtx)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case !complete && turnCtx.Err() != nil:
		return false, nil // the next step continues
	case complete:
		return w.finish(ctx)
	case progress && w.backoff != nil:
		w.backoff.Reset()
	}
	w.delay()
	return false, nil
}

// finish records that all events are sent; done is false if that failed.
func (w *work) finish(ctx context.Context) (done bool, err error) {
	err = w.s.ledger.finish(ctx, w.entry.Ref, w.scope, w.entry.End, w.receivers())
	return err == nil, err
}

// receivers returns the names of the receivers that may get the events.
func (w *work) receivers() (names []string) {
	for _, t := range w.s.targets {
		if t.mayWant(w.entry.Ref, w.happenedAt()) {
			names = append(names, t.Name)
		}
	}
	return names
}

// claim claims the session or the job. done says that nothing is to be sent, because all is sent or the session ended
// too long ago. Otherwise w.claimed says whether the claim succeeded. If another replica has a valid claim, or claims
// of jobs are valid, w.due is when to try again.
func (w *work) claim(ctx context.Context) (done bool, err error) {
	state, err := w.s.ledger.read(ctx, w.entry.Ref, w.scope, w.recordsSince(), w.receivers())
	if err != nil || state.done || w.late && !state.continued {
		return err == nil, err
	}
	w.continued = state.continued
	for delivery := range w.sent { // recording one may have failed
		state.sent[delivery] = true
	}
	w.sent = state.sent
	l := &w.s.ledger
	jobsWait, jobsErr := l.timeUntil(ctx, state.jobsUntil)
	wait, claimErr := l.timeUntil(ctx, state.expiry)
	if err := errors.Join(jobsErr, claimErr); err != nil {
		return false, err
	}
	mine, soon := false, l.lease/20
	switch {
	case jobsWait > 0: // the end waits for events about jobs, most of which are sent in seconds
		wait = soon
	case wait <= 0:
		w.claimNumber, w.claimTime = state.claim+1, time.Now()
		mine, err = l.claim(ctx, w.entry.Ref, w.scope, w.claimNumber)
		wait = l.claimLifetime(w.claimNumber) + l.lease/10 // until that of the replica that got it expires, if it fails
	case w.claimNumber == state.claim: // the store's answer to this replica's claim may have been lost
		mine, err = l.isOwn(ctx, w.entry.Ref, w.scope, w.claimNumber)
	}
	if mine && err == nil {
		// A job and its session may have been claimed at once, each before the other's claim was listed.
		if state, err = l.read(ctx, w.entry.Ref, w.scope, w.recordsSince(), w.receivers()); err != nil {
			return false, err
		}
		if state.done { // whoever claimed the session sends this job's events, and waits until the job is finished
			return w.finish(ctx)
		}
		jobsWait, err = l.timeUntil(ctx, state.jobsUntil)
		mine, wait = jobsWait <= 0, soon
	}
	if err == nil && mine {
		w.claimed, w.claimEnd = true, w.claimTime.Add(l.claimLifetime(w.claimNumber))
		w.sending = w.claimEnd.Add(-state.claimed)
	} else if err == nil {
		w.due = time.Now().Add(wait)
	}
	return false, err
}

// recordsSince returns the time, by the store's clock, from which on records are about this end or this failure.
func (w *work) recordsSince() time.Time {
	if at := w.happenedAt(); at.Before(w.entry.LastWrite) {
		return at
	}
	return w.entry.LastWrite
}

// happenedAt returns when the session ended or the job failed; the session's last write if that is not known.
func (w *work) happenedAt() time.Time {
	switch {
	case w.job == nil:
		return w.entry.End
	case w.job.End > 0:
		return time.Unix(0, w.job.End)
	}
	return w.entry.LastWrite
}

// read reads the session's findings, from which events are made. It returns false if it must be called again, at w.due.
// After maxReads errors, or if reading took as long as a claim lasts, it goes on without findings: ready is set, and
// report is nil.
func (w *work) read(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lease.Until(w.claimEnd))
	defer cancel()
	turn, done, err := w.s.reading.Take(ctx, w.entry.Ref.Namespace, turns.NoLimit)
	if err != nil {
		return false
	}
	var report *findings.Report
	began := time.Now()
	err = guard.CatchPanic(w.entry.Ref.String(), func() (err error) {
		report, err = w.s.opts.Findings(turn, w.entry)
		return err
	})
	done()
	w.readTime += time.Since(began)
	switch cause := context.Cause(turn); {
	case err == nil:
		w.ready, w.report = true, report
		return true
	case ctx.Err() != nil && errors.Is(cause, context.Canceled):
		return false // the server stops
	case errors.Is(err, ErrNotYet):
		w.delay()
		return false
	case cause != nil && !errors.Is(cause, context.Canceled) && w.readTime < w.s.opts.Timing.Lease:
		w.delay() // it was interrupted, because others wait or the claim has ended
		return false
	}
	log := w.s.opts.Log.WithError(err).WithField("session", w.entry.Ref.String())
	if w.failedReads++; w.failedReads >= maxReads || w.readTime >= w.s.opts.Timing.Lease {
		w.ready = true
		if w.job != nil {
			log.Warn("webhooks cannot find out why a job failed: they only report that it failed")
			return true
		}
		log.Warn("webhooks cannot find out how a session ended: they report its end with the outcome unknown")
		return true
	}
	log.Debug("webhooks cannot read a session; they try again")
	w.delay()
	return false
}

// sendAll sends each receiver the events that it did not get yet. progress says that something was sent, complete that
// everything is sent or given up. Requests that are under way when turnCtx ends are finished, because the receiver
// would get an interrupted one twice.
func (w *work) sendAll(ctx, turnCtx context.Context) (progress, complete bool) {
	var failed []moment.Job
	switch {
	case w.job != nil:
		failed = []moment.Job{*w.job}
	case w.report != nil:
		failed = failedJobs(w.report)
	}
	all := events(w.entry, w.report, failed, w.continued, w.s.opts.Config.PublicURL)
	if w.job == nil && w.report != nil && w.s.wantsRegressions(w.entry) {
		all = append(all, regressions(all[len(all)-1], w.entry, w.s.opts.Earlier(w.entry))...)
	}
	if w.job != nil {
		all = slices.DeleteFunc(all, func(e *Event) bool { return e.Type != JobFailed })
	}
	complete = true
	var mu sync.Mutex
	var receivers sync.WaitGroup
	for _, t := range w.s.targets {
		if !t.mayWant(w.entry.Ref, w.happenedAt()) {
			continue
		}
		receivers.Go(func() {
			for _, e := range forReceiver(t.Receiver, all) {
				key := t.Name + "." + e.ID
				mu.Lock()
				sent, interrupted := w.sent[key], turnCtx.Err() != nil
				complete = complete && (sent || !interrupted)
				mu.Unlock()
				if sent {
					continue
				}
				if interrupted {
					return
				}
				err := guard.CatchPanic("event "+e.ID, func() error { return w.sendOne(ctx, t, e, key) })
				mu.Lock()
				progress, complete = progress || err == nil, complete && err == nil
				if err == nil {
					w.sent[key] = true
				}
				mu.Unlock()
				if errors.Is(err, errPaused) {
					return
				}
			}
		})
	}
	receivers.Wait()
	return progress, complete
}

// sendOne sends one event and records its delivery under key. If the event is given up, that is recorded as a delivery,
// too, and there is no error.
func (w *work) sendOne(ctx context.Context, t *target, e *Event, key string) error {
	if !w.claimLasts() {
		return context.DeadlineExceeded
	}
	err := w.s.sendTo(ctx, t, e)
	// An event is given up when sending it has failed for giveUp since sending began. The session's end does not count,
	// because no server may have run since then. While the receiver is paused, nothing is tried. Then the events that
	// wait are given up together, once the receiver has taken nothing for giveUp. If each waited that long by itself,
	// work would pile up for days.
	giveUp := w.s.opts.Timing.GiveUp
	givenUp := time.Since(w.sending) > giveUp
	if errors.Is(err, errPaused) {
		givenUp = t.failedFor(giveUp) && time.Since(w.entry.Latest()) > giveUp
	}
	if err != nil && givenUp && ctx.Err() == nil {
		w.s.metrics.givenUp.WithLabelValues(t.Name).Inc()
		w.s.opts.Log.WithError(err).WithFields(map[string]any{"receiver": t.Name, "session": w.entry.Ref.String(),
			"event": e.Type}).
			Warn("an event is given up: the receiver did not take it for a day")
		err = nil
	}
	if err != nil {
		return err
	}
	return w.recordSent(ctx, key)
}

// recordSent records a delivery, so that no other replica sends the event again. It tries this for Timing.Request, even
// if the server stops meanwhile. If it cannot, that is logged, and there is no error.
func (w *work) recordSent(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.s.opts.Timing.Request)
	defer cancel()
	retry := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for {
		err := w.s.ledger.record(ctx, w.entry.Ref, "told."+key, record{})
		if err == nil || errors.Is(err, os.ErrExist) {
			return nil
		}
		if ctx.Err() != nil {
			// There is no error, because this process knows by w.sent that the event is sent.
			w.s.warnStore("webhooks cannot record that an event was sent; another replica may send it again", err)
			return nil
		}
		_ = backoff.Sleep(ctx, retry.Next())
	}
}
