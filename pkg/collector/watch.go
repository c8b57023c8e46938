package collector

import (
	"context"
	"errors"
	"time"

	"github.com/rayhistory/historyserver/internal/logthrottle"
)

const (
	// lookInterval is the time between two looks for raylets that began or ended.
	lookInterval = 5 * time.Second
	// metadataLooks is how many looks come before the metadata of sessions is stored.
	metadataLooks = 3
)

// watch wakes the shipper when there is something new, and stores the metadata of sessions.
func (c *Collector) watch(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	folderErrors := logthrottle.Throttle{Log: c.opts.Log}
	for looks := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.spool.Notify():
			c.shipper.Wake()
		case <-c.tailer.Notify():
			c.shipper.Wake()
		case <-ticker.C:
			if looks++; looks%metadataLooks != 0 {
				_, _ = c.runs.look(time.Now()) // what fails is told of with the metadata
				continue
			}
			if err := c.keepFolder(); err != nil {
				folderErrors.Warn(time.Now(), "nothing can be kept in the spool's folder", err)
			}
			if err := c.storeMetadata(ctx); err != nil && ctx.Err() == nil {
				c.opts.Log.WithError(err).Debug("the metadata of a session is not stored yet; it is tried again")
			}
		}
	}
}

// storeMetadata stores the starts of the heads of running sessions, and the ends of sessions that are over and
// completely stored.
func (c *Collector) storeMetadata(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	now := time.Now()
	running, err := c.runs.look(now)
	if err != nil {
		return err
	}
	present, latest, err := c.tailer.Sessions()
	if err != nil {
		return err
	}
	c.runs.keep(present)
	another := anyOf(present, running)
	var failed error
	for _, s := range present {
		_, ran := c.runs.ran(s.Name)
		if running[s.Name] || (s.Name == latest && !ran && !another) {
			failed = errors.Join(failed, c.storeStart(ctx, s.Name, running[s.Name]))
			continue
		}
		at, ended := c.runs.ended(s, latest, another, false, now)
		if !ended || c.tailer.SetEnded(s.Name, true) {
			continue // what its logs waited with is read first
		}
		if s.Stored && !c.sessions.ended(s.Name) && !s.LastWrite.IsZero() && !c.spooled(s.Name) {
			failed = errors.Join(failed, c.sessions.end(ctx, s.Name, c.head(s.Name), at))
		}
	}
	return failed
}

// storeStart stores what is known of a session that runs. raylet says that its raylet is seen.
func (c *Collector) storeStart(ctx context.Context, session string, raylet bool) error {
	c.tailer.SetEnded(session, false)
	var failed error
	if raylet {
		failed = c.sessions.seen(session)
	}
	return errors.Join(failed, c.sessions.start(ctx, session, c.head(session), false), c.storeGrafana(ctx, session))
}

// head is what is known of a session's head on this node.
func (c *Collector) head(session string) headNode {
	id, ok := c.finder.Known(session)
	began, _ := c.runs.ran(session)
	if !ok {
		return headNode{began: began}
	}
	return headNode{id: id.String(), began: began}
}
