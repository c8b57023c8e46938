package collector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/pkg/collector/node"
)

const (
	// slowStep is how long a step of the end may take without a line in the log.
	slowStep = time.Second
	// mostMargin bounds the time in which steps may notice that it is over.
	mostMargin = 2 * time.Second
	// rayPoll is how often is looked whether Ray has ended.
	rayPoll = 100 * time.Millisecond
)

// Close ends the collection: it takes the last snapshots and waits for Ray's end while Ray may still send its last events, then takes no
// more, and stores what is left. It returns nil only if all of it is stored; what is not waits in the spool and on disk for the next
// start.
//
// Close returns by ctx's deadline, or soon after ctx is cancelled, whatever hangs: the error then names the step, which is left behind.
func (c *Collector) Close(ctx context.Context) error {
	margin := mostMargin
	if deadline, ok := ctx.Deadline(); ok {
		margin = min(margin, time.Until(deadline)/10)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	e := &end{c: c, ctx: ctx}
	e.step.Store("the shutdown")
	done := make(chan error, 1)
	go func() { done <- e.run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(margin):
		return fmt.Errorf("%s does not come to an end; what is not stored waits in the spool and on disk: %w", e.step.Load(), context.Cause(ctx))
	}
}

// end is the way to a collector's end.
type end struct {
	c    *Collector
	ctx  context.Context
	step atomic.Value // string: the step under way
}

// run makes all steps. It may outlive Close.
func (e *end) run() error {
	c := e.c
	c.draining.Store(true)
	failed := e.do("taking the last snapshots", c.finalSnapshots)
	failed = errors.Join(failed, e.do("waiting for Ray", c.awaitRay))
	_ = e.do("looking after the sessions", func(context.Context) error { c.cancel(); <-c.done; return nil })
	_ = e.do("ending the scan of logs", func(context.Context) error { c.tailer.Close(); return nil })
	_ = e.do("ending the uploads under way", func(ctx context.Context) error {
		ctx, cancel := share(ctx)
		defer cancel()
		c.shipper.Close(ctx)
		return nil
	})
	failed = errors.Join(failed, e.do("ending the events' server", c.stopTaking), e.do("storing what is left", c.storeRest))
	if failed == nil {
		failed = e.do("telling the session's end", c.endSession)
	}
	return errors.Join(failed, e.do("closing the spool", func(context.Context) error { return c.spool.Close() }))
}

// do makes one step, and tells if it took long.
func (e *end) do(step string, work func(context.Context) error) error {
	e.step.Store(step)
	began := time.Now()
	err := work(e.ctx)
	if took := time.Since(began); took > slowStep {
		e.c.opts.Log.WithField("took", took.Round(time.Millisecond)).Infof("shutdown: %s", step)
	}
	return err
}

// share is a fifth of the time that is left: what one step before the last uploads may take.
func share(ctx context.Context) (context.Context, context.CancelFunc) {
	part := 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		part = time.Until(deadline) / 5
	}
	return context.WithTimeout(ctx, part)
}

// finalSnapshots asks the dashboard once more.
func (c *Collector) finalSnapshots(ctx context.Context) error {
	if c.taker == nil {
		return nil
	}
	c.taker.Close()
	asking, cancel := share(ctx)
	defer cancel()
	c.taker.Final(asking)
	storing, cancel := share(ctx)
	defer cancel()
	if err := c.taker.Finish(storing); err != nil {
		return fmt.Errorf("store the last snapshots: %w", err)
	}
	return nil
}

// awaitRay waits for the end of Ray, which the end of a pod brings to all of its containers at once, so that its last words are stored
// too. If Ray does not end, only the collector was asked to.
func (c *Collector) awaitRay(ctx context.Context) error {
	_, session, err := c.tailer.Sessions()
	if err != nil || session == "" {
		return err
	}
	ctx, cancel := share(ctx)
	defer cancel()
	for {
		if running, err := node.Running(session); !running || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rayPoll):
		}
	}
}

// stopTaking ends the events' server; requests under way are answered first.
func (c *Collector) stopTaking(ctx context.Context) error {
	ctx, cancel := share(ctx)
	defer cancel()
	err := c.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, c.server.Close())
	}
	if served := <-c.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("end the events' server: %w", err)
	}
	return nil
}

// storeRest stores all there is.
func (c *Collector) storeRest(ctx context.Context) error {
	c.tailer.Drain()
	// A log that is rotated while it is stored is found by another look; Ray does not rotate that often.
	for range 3 {
		if _, err := c.tailer.Scan(ctx); err != nil {
			return err
		}
		if err := c.shipper.Flush(ctx); err != nil {
			return fmt.Errorf("store what is left: %w", err)
		}
		if !c.tailer.Astray() {
			break
		}
	}
	return nil
}

// endSession tells that the session is over, unless Ray goes on: then only the collector is over.
func (c *Collector) endSession(ctx context.Context) error {
	_, session, err := c.tailer.Sessions()
	if err != nil || session == "" {
		return err
	}
	running, err := node.Running(session)
	if err != nil {
		return err
	}
	if running {
		c.opts.Log.WithField("session", session).Info("Ray goes on, and so does its session")
		return nil
	}
	return c.sessions.end(ctx, session, time.Now())
}
