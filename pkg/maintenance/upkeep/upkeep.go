// Package upkeep removes and compacts stored sessions in the background of a server.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/compact"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
)

// Options of an Upkeep. Without Compact and Retention it does nothing.
type Options struct {
	Store    blob.Store
	Root     string
	Sessions func() iter.Seq[catalog.Entry]
	Log      logrus.FieldLogger
	// Compact joins the chunks of ended sessions, and of running sessions' closed hours.
	Compact bool
	// Retention says which sessions are removed; nil keeps all sessions.
	Retention *retention.Policy
	// ReadOutcomes is Catalog.ReadOutcomes: it is called with sessions that may have expired; nil: it is not called.
	ReadOutcomes func(context.Context, []catalog.Entry)
	// Interval is the time between two rounds.
	Interval time.Duration
	// Quiet is the time without writes after which a session without an end marker may have ended.
	Quiet time.Duration
}

// Upkeep works through all sessions in rounds.
type Upkeep struct {
	opts Options
	loop background.Worker

	rounds int // so far
	// settled has the ended sessions of which nothing is left to join, by a hash of their name and their last write: a
	// map of names would take a hundred megabytes for a million.
	settled map[uint64]bool
	seed    maphash.Seed
}

const (
	// sessionTime is how long one session may be worked on. The next round goes on with it.
	sessionTime = 10 * time.Minute
	// turnTime is how long a namespace's sessions may be worked on before those of the others have had their turn.
	turnTime = 10 * time.Minute
)

var errTime = fmt.Errorf("it takes more than %s", sessionTime)

// roundsToList is in how many rounds a settled session is listed once, although the catalog knows of nothing that was
// stored since. Which round that is depends on the session's hash.
const roundsToList = 24

// Start begins the rounds, which continue until Close. The first comes after one interval, when the sessions are known.
func Start(opts Options) *Upkeep {
	u := &Upkeep{opts: opts}
	if opts.Compact || opts.Retention != nil {
		u.loop.Start(func(ctx context.Context) {
			for backoff.Sleep(ctx, opts.Interval) == nil {
				u.workRound(ctx, time.Now())
			}
		})
	}
	return u
}

// Close ends the rounds.
func (u *Upkeep) Close() { u.loop.Close() }

// workRound works on every session once, in passes: when a namespace has used up its turnTime, its other sessions wait
// for the next pass. Sessions that failed, or that were not reached before the next round is due, are left to that
// round.
func (u *Upkeep) workRound(ctx context.Context, now time.Time) {
	if u.settled == nil {
		u.seed = maphash.MakeSeed()
	}
	u.rounds++
	settledBefore := u.settled
	u.settled = make(map[uint64]bool, len(settledBefore))
	began := time.Now()
	var all map[layout.Session]bool // nil: the first pass is over all sessions
	later, ok := u.workPass(ctx, now, settledBefore, all)
	for ok && len(later) > 0 && time.Since(began) < u.opts.Interval {
		later, ok = u.workPass(ctx, now, settledBefore, later)
	}
}

// workPass works on the sessions in only, or on all if it is nil, and returns those that wait for the next pass.
// settled are the sessions that the last round found settled. ok is false if the round must end.
func (u *Upkeep) workPass(ctx context.Context, now time.Time, settled map[uint64]bool,
	only map[layout.Session]bool) (later map[layout.Session]bool, ok bool) {
	took := make(map[string]time.Duration)
	later = make(map[layout.Session]bool)
	for e := range u.opts.Sessions() {
		switch {
		case ctx.Err() != nil:
			return nil, false
		case only != nil && !only[e.Ref]:
			continue
		case took[e.Ref.Namespace] >= turnTime:
			later[e.Ref] = true
			continue
		}
		began := time.Now()
		goOn := u.workOn(ctx, e, now, settled)
		took[e.Ref.Namespace] += time.Since(began)
		if !goOn {
			return nil, false
		}
	}
	return later, true
}

// workOn works on one session, for sessionTime at most, and logs what was done or why it failed. goOn is false if the
// round must end, because this machine's clock is wrong. settled are the sessions that the last round found settled.
func (u *Upkeep) workOn(ctx context.Context, e catalog.Entry, now time.Time, settled map[uint64]bool) (goOn bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, sessionTime, errTime)
	defer cancel()
	log := u.opts.Log.WithField("session", e.Ref.String())
	var done string
	err := guard.CatchPanic(e.Ref.String(), func() (err error) {
		done, err = u.removeOrCompact(ctx, log, e, now, settled)
		return err
	})
	switch {
	case errors.Is(context.Cause(ctx), errTime):
		log.WithError(errTime).Warn("a session is not yet removed or compacted completely; the next round continues")
	case ctx.Err() != nil: // the server stops
	case errors.Is(err, lease.ErrBusy):
		log.WithError(err).Debug("another server works on the session")
	case errors.Is(err, lease.ErrClock): // to a clock that is ahead, every session has expired
		u.opts.Log.WithError(err).Error("no session is removed or compacted; the next round tries again")
		return false
	case err != nil:
		log.WithError(err).Warn("cannot remove or compact a session; the next round tries again")
	case done != "":
		log.Info(done)
	}
	return true
}

// removeOrCompact removes a session if it has expired, or else compacts it. It returns a text that says what was done;
// "" if nothing was. It is not compacted if settled, which is from the last round, has it, except once in roundsToList
// rounds.
func (u *Upkeep) removeOrCompact(ctx context.Context, log logrus.FieldLogger, e catalog.Entry, now time.Time,
	settled map[uint64]bool) (string, error) {
	o := &u.opts
	if o.ReadOutcomes != nil && o.Retention.MayExpire(e, now) {
		completed := []catalog.Entry{e}
		o.ReadOutcomes(ctx, completed)
		e = completed[0]
	}
	if fate := o.Retention.Of(e, now); fate.Due(now) {
		limit := now.Add(-fate.Keep)
		err := retention.Remove(ctx, o.Store, o.Root, e.Ref, limit, &progress.Counter{})
		if errors.Is(err, retention.ErrPinned) {
			return "", nil
		}
		return "removed a session that ended at " + human.Time(e.End) + ": " + fate.Why, err
	}
	if !o.Compact || !e.Described {
		return "", nil
	}
	stored := maphash.Comparable(u.seed, struct {
		ref  layout.Session
		last int64
	}{e.Ref, e.LastWrite.UnixNano()})
	// stored is a hash: it spreads the sessions that are looked at again over the rounds.
	if settled[stored] && (stored+uint64(u.rounds))%roundsToList != 0 {
		u.settled[stored] = true
		return "", nil
	}
	result, err := compact.Session(ctx, e.Ref, compact.Options{Store: o.Store, Root: o.Root, Quiet: o.Quiet,
		Progress: &progress.Counter{}})
	for _, left := range result.Left {
		log.Warn("not compacted: " + left)
	}
	if result.Joined == 0 {
		if err == nil && result.Over {
			u.settled[stored] = true
		}
		return "", err
	}
	return fmt.Sprintf("compacted %s, removed %s", human.Count(result.Joined, "file"),
		human.Count(result.Removed, "chunk")), err
}
