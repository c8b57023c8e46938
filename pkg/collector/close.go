package collector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
)

const (
	// slowStep is the time after which a step of the shutdown is logged.
	slowStep = time.Second
	// maxMargin bounds the time that is reserved for steps to stop after their time is over.
	maxMargin = 2 * time.Second
	// rayPoll is the time between two checks whether Ray has ended.
	rayPoll = 100 * time.Millisecond
)

// Close takes the last snapshots, waits for Ray to end because Ray may still send its last events, then stops taking
// events and stores the rest. It returns nil only if everything is stored that the collector has the right to read,
// also of events that were refused. What is not stored stays in the spool and on disk for the next start.
//
// Close returns by ctx's deadline, or soon after ctx is cancelled: the steps' context ends a margin before, in which
// they can stop. If a step hangs, the error names it, and its goroutine is abandoned.
func (c *Collector) Close(ctx context.Context) error {
	margin := maxMargin
	if deadline, ok := ctx.Deadline(); ok {
		margin = min(margin, time.Until(deadline)/10)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	s := &shutdown{c: c, ctx: ctx}
	s.step.Store("the shutdown")
	done := make(chan error, 1)
	go func() { done <- s.runSteps() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(margin):
		return fmt.Errorf("%s did not finish in time; what is not stored yet stays in the spool and on disk for the "+
			"next start: %w", s.step.Load(), context.Cause(ctx))
	}
}

// Forbidden says, after Close, which logs are not stored for want of the right to read them; nil: none.
func (c *Collector) Forbidden() error { return c.tailer.Forbidden() }

// shutdown runs the steps of Close.
type shutdown struct {
	c    *Collector
	ctx  context.Context
	step atomic.Value // string: the step under way
}

// runSteps makes all steps, also after one failed, but stores the ends of sessions only if everything else is stored.
// The metrics' last figures are not worth an error, and the steps that only end goroutines have none. Close may return
// earlier.
func (s *shutdown) runSteps() error {
	c := s.c
	c.draining.Store(true)
	failed := s.runStep("taking the last snapshots", c.finalSnapshots)
	_ = s.runShort("reading the last metrics", c.lastMetrics)
	failed = errors.Join(failed, s.runShort("waiting for Ray", c.awaitRay))
	_ = s.runStep("ending the watch over sessions", func(context.Context) error {
		c.watching.Close()
		c.metadata.Close()
		return nil
	})
	_ = s.runStep("ending the scan of logs", func(context.Context) error { c.tailer.Close(); return nil })
	_ = s.runShort("ending the uploads under way", func(ctx context.Context) error { c.shipper.Close(ctx); return nil })
	failed = errors.Join(failed, s.runShort("ending the events' server", c.opts.Servers.stopTaking),
		s.runStep("storing what is left", c.storeRest))
	if failed == nil {
		failed = s.runStep("storing the ends of sessions", c.endSessions)
	}
	closed := s.runStep("closing the spool", func(context.Context) error {
		return errors.Join(c.opts.Servers.Close(), c.spool.Close())
	})
	return errors.Join(failed, closed, c.opts.Refused.Err(), c.places.unseenSessions())
}

// runStep makes one step, and logs it if it is slow.
func (s *shutdown) runStep(step string, work func(context.Context) error) error {
	s.step.Store(step)
	began := time.Now()
	err := work(s.ctx)
	if took := time.Since(began); took > slowStep {
		s.c.opts.Log.WithField("took", took.Round(time.Millisecond)).Infof("shutdown: %s", step)
	}
	return err
}

// runShort makes one step within a share of the time.
func (s *shutdown) runShort(step string, work func(context.Context) error) error {
	return s.runStep(step, func(ctx context.Context) error {
		ctx, cancel := withShareOfTime(ctx)
		defer cancel()
		return work(ctx)
	})
}

// withShareOfTime gives one step a fifth of the time that remains, so that enough remains for the last uploads.
func withShareOfTime(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline) / 5
	}
	return context.WithTimeout(ctx, timeout)
}

// finalSnapshots asks the head's dashboard a last time, and stores the answers, also earlier ones that still wait.
func (c *Collector) finalSnapshots(ctx context.Context) error {
	if c.taker == nil {
		return nil
	}
	c.taker.Close()
	asking, cancel := withShareOfTime(ctx)
	defer cancel()
	c.taker.Final(asking)
	storing, cancel := withShareOfTime(ctx)
	defer cancel()
	if err := c.taker.Finish(storing); err != nil {
		return fmt.Errorf("store the last snapshots: %w", err)
	}
	return nil
}

// lastMetrics reads the metrics once more.
func (c *Collector) lastMetrics(ctx context.Context) error {
	if c.scraper == nil {
		return nil
	}
	c.scraper.Close()
	c.scraper.ScrapeOnce(ctx)
	return nil
}

// awaitRay waits until Ray has ended, so that its last lines are stored too: when a pod ends, all of its containers get
// the signal at the same time. It waits only for a share of the time: if Ray does not end, only the collector got the
// signal.
func (c *Collector) awaitRay(ctx context.Context) error {
	present, _, err := c.tailer.Sessions()
	if err != nil || len(present) == 0 {
		return err
	}
	for {
		running, err := c.runs.lookForRaylets(time.Now())
		if err != nil || !anyRuns(present, running) {
			return err
		}
		if backoff.Sleep(ctx, rayPoll) != nil {
			return nil // the step's share is over
		}
	}
}

// storeRest stores all logs and spooled data that are left. Scans for logs run beside the uploads: a scan of very many
// logs takes seconds, and what the store refuses is tried again until ctx ends.
func (c *Collector) storeRest(ctx context.Context) error {
	c.tailer.Drain()
	// What is known to grow needs no scan. If Ray's folder cannot be read, the scans tell the error, after what is in
	// the spool is stored.
	_ = c.tailer.LookAtFollowed(ctx)
	scans := beginLastScans(ctx, c.tailer)
	defer scans.stopScans()
	if err := flushAll(ctx, c.shipper.Flush, scans.foundAllLogs); err != nil {
		return errors.Join(err, scans.stopScans())
	}
	if err := errors.Join(scans.stopScans(), c.tailer.Unread()); err != nil {
		return fmt.Errorf("store the remaining data: %w", err)
	}
	return nil
}

// flushAll flushes until everything is stored. complete says whether all logs were found. A scan may find more while a
// flush is ending: so the last flush is one before which, and after which, complete was true.
func flushAll(ctx context.Context, flush func(context.Context) error, complete func() bool) error {
	for {
		wasComplete := complete()
		if err := flush(ctx); err != nil {
			return fmt.Errorf("store the remaining data: %w", err)
		}
		switch {
		case !complete():
			if err := backoff.Sleep(ctx, scanPoll); err != nil {
				return fmt.Errorf("look for the remaining logs: %w", err)
			}
		case wasComplete:
			return nil
		}
	}
}

// endSessions stores the ends of the sessions that do not run. Where Ray goes on running and only the collector ends,
// it stores none for that session.
func (c *Collector) endSessions(ctx context.Context) error {
	present, latest, err := c.tailer.Sessions()
	if err != nil {
		return err
	}
	now := time.Now()
	running, err := c.runs.lookForRaylets(now)
	if err != nil {
		return err
	}
	otherRuns := anyRuns(present, running) // for a session that does not run itself
	var failed error
	for _, s := range present {
		if running[s.Name] != "" {
			c.opts.Log.WithField("session", s.Name).Info("Ray is still running: the end of its session is not stored")
			continue
		}
		const closing = true
		if at, ended := c.runs.endOf(s, latest, otherRuns, closing, now); ended && !c.sessions.stateOf(s.Name).Ended {
			failed = errors.Join(failed, c.sessions.storeEnd(ctx, s.Name, c.headOf(s.Name), at))
		}
	}
	return failed
}

func anyRuns(present []logs.Session, running map[string]string) bool {
	return slices.ContainsFunc(present, func(s logs.Session) bool { return running[s.Name] != "" })
}

const (
	// scanPoll is the time between two checks whether another scan is necessary.
	scanPoll = 50 * time.Millisecond
	// lastRescans is the number of scans that look again for logs which are rotated while they are stored, or cannot be
	// read. Ray rotates so rarely that these are enough.
	lastRescans = 3
)

// lastScans looks for logs in the background while the collector ends.
type lastScans struct {
	tailer *logs.Tailer
	cancel context.CancelFunc
	done   chan struct{}
	err    error        // may be read after done
	count  atomic.Int32 // of scans that ended
	// idle is false while a scan runs and before the first.
	idle atomic.Bool
}

// beginLastScans starts the scans, which go on until ctx ends.
func beginLastScans(ctx context.Context, tailer *logs.Tailer) *lastScans {
	ctx, cancel := context.WithCancel(ctx)
	s := &lastScans{tailer: tailer, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = s.scanUntilEnd(ctx)
	}()
	return s
}

// scanUntilEnd scans the logs, and again whenever a further scan is necessary, until ctx ends. The error is that of a
// scan.
func (s *lastScans) scanUntilEnd(ctx context.Context) error {
	for {
		if _, err := s.tailer.Scan(ctx); err != nil {
			return err
		}
		s.count.Add(1)
		s.idle.Store(true)
		for wanted := false; !wanted; wanted = s.needsScan() { // a pause before each: what waits may wait for the store
			if backoff.Sleep(ctx, scanPoll) != nil {
				return nil
			}
		}
		s.idle.Store(false)
	}
}

// needsScan says whether another scan finds more: the rest of a log that was rotated while it was stored, or that
// another node wrote, logs that could not be read, or logs that waited for the places of others.
func (s *lastScans) needsScan() bool {
	return s.tailer.Waiters() > 0 || (s.count.Load() < lastRescans && s.tailer.NeedsScan())
}

// foundAllLogs says whether a further scan would find nothing more to store, or the scans have ended.
func (s *lastScans) foundAllLogs() bool {
	select {
	case <-s.done:
		return true // because a scan failed, whose error stopScans returns, or because the time is over
	default:
		return s.idle.Load() && !s.needsScan()
	}
}

func (s *lastScans) stopScans() error {
	s.cancel()
	<-s.done
	return s.err
}
