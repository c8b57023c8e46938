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
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// work is one session, or one failed job of a running session, about which events are sent. The Sender's mutex guards
// busy, and due while it is not busy; a worker owns the rest.
type work struct {
	s     *Sender
	entry catalog.Entry
	job   *moment.Job // that failed; nil: the session has ended
	scope string      // the beginning of its records' names, except those of deliveries
	busy  bool
	due   time.Time

	held    bool
	claimed int       // the number of the last claim that was tried
	began   time.Time // when that was
	until   time.Time // the claim is valid
	told    map[string]bool
	again   bool             // an earlier end of the session was told
	known   bool             // what to send is
	report  *findings.Report // nil: the session could not be read
	looks   int              // that failed
	looked  time.Duration    // how long all of them took
	waiting *backoff.Backoff
}

// wait delays the next step.
func (w *work) wait() {
	if w.waiting == nil {
		w.waiting = &backoff.Backoff{Min: w.s.opts.Timing.MinWait, Max: w.s.opts.Timing.MaxWait}
	}
	w.due = time.Now().Add(w.waiting.Next())
}

// left says whether the claim is valid for as long as sending and recording an event may take.
func (w *work) left() bool { return time.Until(w.until) > 2*w.s.opts.Timing.Request }

// step does what can be done now, until working ends because others wait; finished says that nothing is left, or that
// another replica has done it.
func (w *work) step(ctx, working context.Context) (finished bool) {
	err := guard.Do("what webhooks tell of "+w.entry.Ref.String(), func() (err error) {
		finished, err = w.try(ctx, working)
		return err
	})
	if err != nil && ctx.Err() == nil {
		w.s.failed("webhooks cannot read or record what was sent about a session, and try again: the server needs "+
			"the right to list and create "+
			"below webhooks/ in the store", err)
		w.wait()
	}
	return finished
}

func (w *work) try(ctx, working context.Context) (finished bool, err error) {
	if w.held && !w.left() {
		w.held = false
		w.due = w.until.Add(w.s.opts.Timing.Lease / 10)
		return false, nil
	}
	if !w.held {
		if w.job != nil && w.s.handles(w.entry.Ref) {
			// the session waits for the claims of its jobs, and then the events of all of them are sent
			return true, nil
		}
		if finished, err = w.claim(ctx); finished || err != nil || !w.held {
			return finished, err
		}
	}
	if !w.known && !w.look(working) {
		return false, nil
	}
	if !w.left() {
		return false, nil // the next step claims it again
	}
	progress, whole := w.sendAll(ctx, working)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case !whole && working.Err() != nil:
		return false, nil // the next turn goes on
	case whole:
		if err := w.s.ledger.finish(ctx, w.entry.Ref, w.scope, w.entry.End); err != nil {
			return false, err
		}
		return true, nil
	case progress && w.waiting != nil:
		w.waiting.Reset()
	}
	w.wait()
	return false, nil
}

// claim claims the session, unless it is done or another replica has it.
func (w *work) claim(ctx context.Context) (done bool, err error) {
	state, err := w.s.ledger.read(ctx, w.entry.Ref, w.scope, w.since())
	if err != nil || state.done {
		return state.done, err
	}
	w.again = state.again
	for told := range w.told { // some may not be recorded
		state.told[told] = true
	}
	w.told = state.told
	l := &w.s.ledger
	mine := false
	switch {
	case time.Now().Before(state.jobs): // most are handled in seconds
		state.expiry = time.Now().Add(l.lease / 20)
	case time.Now().After(state.expiry):
		w.claimed, w.began = state.claim+1, time.Now()
		if mine, err = l.claim(ctx, w.entry.Ref, w.scope, w.claimed); err == nil && !mine {
			state.expiry = time.Now().Add(l.lifetime(w.claimed) + l.lease/10)
		}
	case w.claimed == state.claim: // the answer was lost
		mine, err = l.mine(ctx, w.entry.Ref, w.scope, w.claimed)
	}
	if mine {
		w.held, w.until = true, w.began.Add(l.lifetime(w.claimed))
	} else if err == nil {
		w.due = state.expiry
	}
	return false, err
}

// since returns the time after which records are about this event, by the store's clock.
func (w *work) since() time.Time {
	if at := w.at(); at.Before(w.entry.LastWrite) {
		return at
	}
	return w.entry.LastWrite
}

// at returns when the event happened.
func (w *work) at() time.Time {
	switch {
	case w.job == nil:
		return w.entry.End
	case w.job.End > 0:
		return time.Unix(0, w.job.End)
	}
	return w.entry.LastWrite
}

// look finds out what to send; false: not yet.
func (w *work) look(ctx context.Context) bool {
	ctx, cancel := context.WithDeadline(ctx, w.until)
	defer cancel()
	looking, done, err := w.s.looking.Take(ctx, w.entry.Ref.Namespace, 0)
	if err != nil {
		return false
	}
	var report *findings.Report
	began := time.Now()
	err = guard.Do(w.entry.Ref.String(), func() (err error) {
		report, err = w.s.opts.Look(looking, w.entry)
		return err
	})
	done()
	w.looked += time.Since(began)
	switch cause := context.Cause(looking); {
	case err == nil:
		w.known, w.report = true, report
		return true
	case ctx.Err() != nil && errors.Is(cause, context.Canceled):
		return false // the server stops
	case errors.Is(err, ErrNotYet):
		w.wait()
		return false
	case cause != nil && !errors.Is(cause, context.Canceled) && w.looked < w.s.opts.Timing.Lease:
		w.wait() // others wait, or the claim has ended
		return false
	}
	log := w.s.opts.Log.WithError(err).WithField("session", w.entry.Ref.String())
	if w.looks++; w.looks >= maxLooks || w.looked >= w.s.opts.Timing.Lease {
		w.known = true
		if w.job != nil {
			log.Warn("webhooks cannot find out why a job failed: they only report that it failed")
			return true
		}
		log.Warn("webhooks cannot find out how a session ended: they report its end with the outcome unknown")
		return true
	}
	log.Debug("webhooks cannot read a session; they try again")
	w.wait()
	return false
}

// sendAll sends each receiver the events that it did not get yet. It returns whether something was sent, and whether
// everything is sent. What is being sent when working ends is sent to its end: a request that is cut off would be sent
// twice.
func (w *work) sendAll(ctx, working context.Context) (progress, whole bool) {
	var failed []moment.Job
	switch {
	case w.job != nil:
		failed = []moment.Job{*w.job}
	case w.report != nil:
		failed = failedOf(w.report)
	}
	all := events(w.entry, w.report, failed, w.again, w.s.opts.Config.PublicURL)
	if w.job != nil {
		all = slices.DeleteFunc(all, func(e *Event) bool { return e.Type != JobFailed })
	}
	whole = true
	var mu sync.Mutex
	var receivers sync.WaitGroup
	for _, t := range w.s.targets {
		if !w.at().After(t.since) {
			continue
		}
		receivers.Go(func() {
			for _, e := range forReceiver(t.Receiver, all) {
				key := t.Name + "." + e.ID
				mu.Lock()
				told, ended := w.told[key], working.Err() != nil
				whole = whole && (told || !ended)
				mu.Unlock()
				if told {
					continue
				}
				if ended {
					return
				}
				err := guard.Do("event "+e.ID, func() error { return w.sendOne(ctx, t, e, key) })
				mu.Lock()
				progress, whole = progress || err == nil, whole && err == nil
				if err == nil {
					w.told[key] = true
				}
				mu.Unlock()
				if errors.Is(err, errRests) {
					return
				}
			}
		})
	}
	receivers.Wait()
	return progress, whole
}

// sendOne sends one event and records this.
func (w *work) sendOne(ctx context.Context, t *target, e *Event, key string) error {
	if !w.left() {
		return context.DeadlineExceeded
	}
	err := w.s.tell(ctx, t, e)
	// If only events that were tried were given up, each pause would keep all others waiting, and sessions would fill
	// the work for days.
	giveUp := w.s.opts.Timing.GiveUp
	tried := !errors.Is(err, errRests) || t.failedFor(giveUp)
	if err != nil && tried && ctx.Err() == nil && time.Since(endOf(w.entry)) > giveUp {
		w.s.metrics.givenUp.WithLabelValues(t.Name).Inc()
		w.s.opts.Log.WithError(err).WithFields(map[string]any{"receiver": t.Name, "session": w.entry.Ref.String(),
			"event": e.Type}).
			Warn("an event is given up: the receiver did not take it for a day")
		err = nil
	}
	if err != nil {
		return err
	}
	return w.note(ctx, key)
}

// note records a delivery, so that a successor does not send the event again. It continues when the server is told to
// stop, and tries for as long as the claim is valid.
func (w *work) note(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.s.opts.Timing.Request)
	defer cancel()
	retry := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for {
		err := w.s.ledger.create(ctx, w.entry.Ref, "told."+key)
		if err == nil || errors.Is(err, os.ErrExist) {
			return nil
		}
		if ctx.Err() != nil {
			// This process knows that the event is sent; another may send it again.
			w.s.failed("webhooks cannot record that an event was sent; another replica may send it again", err)
			return nil
		}
		_ = backoff.Sleep(ctx, retry.Next())
	}
}
