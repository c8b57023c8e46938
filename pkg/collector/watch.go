package collector

import (
	"context"
	"errors"
	"time"

	"github.com/rayhistory/historyserver/internal/logthrottle"
)

// watchInterval is the time between two checks for sessions that began or ended.
const watchInterval = 15 * time.Second

// watch wakes the shipper when there is something new, and stores the metadata of sessions.
func (c *Collector) watch(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	folderErrors := logthrottle.Throttle{Log: c.opts.Log}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.spool.Notify():
			c.shipper.Wake()
		case <-c.tailer.Notify():
			c.shipper.Wake()
		case <-ticker.C:
			if err := c.keepFolder(); err != nil {
				folderErrors.Warn(time.Now(), "nothing can be kept in the spool's folder", err)
			}
			if err := c.storeMetadata(ctx); err != nil && ctx.Err() == nil {
				c.opts.Log.WithError(err).Debug("the metadata of a session is not stored yet; it is tried again")
			}
		}
	}
}

// storeMetadata stores the start of the running session, and the end of sessions that are over and completely stored.
func (c *Collector) storeMetadata(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	present, running, err := c.tailer.Sessions()
	if err != nil {
		return err
	}
	var failed error
	for _, s := range present {
		switch {
		case s.Name == running:
			failed = errors.Join(failed, c.sessions.start(ctx, s.Name, false), c.storeGrafana(ctx, s.Name))
		case s.Stored && !c.sessions.ended(s.Name) && !s.LastWrite.IsZero() && !c.spooled(s.Name):
			failed = errors.Join(failed, c.sessions.end(ctx, s.Name, s.LastWrite))
		}
	}
	return failed
}
