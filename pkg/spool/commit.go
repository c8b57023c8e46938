package spool

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// commit is the batches that become durable together: all that were appended while the commit before was under way. Its fields are
// guarded by the spool's mu.
type commit struct {
	segments []*segment // written to
	pending  []published
	done     bool
	err      error
}

// published is an entry that its stream gets when the commit is durable.
type published struct {
	stream *Stream
	entry  entry
}

func (c *commit) add(st *Stream, e entry) { c.pending = append(c.pending, published{st, e}) }

func (c *commit) dirty(seg *segment) {
	if !slices.Contains(c.segments, seg) {
		c.segments = append(c.segments, seg)
	}
}

// finish returns when the commit is durable. One of those who wait for it does the work; commits are made one after the other.
func (s *Spool) finish(c *commit) error {
	defer s.drop() // when the next commit may go on
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	if c.done {
		defer s.mu.Unlock()
		return c.err
	}
	s.commit = &commit{} // c was the current one: only one is ever open
	sizes := make([]int64, len(c.segments))
	var files []file
	for i, seg := range c.segments {
		sizes[i] = seg.size
		if seg.file != nil { // else the commit before took all of it
			files = append(files, seg.file)
		}
	}
	s.mu.Unlock()

	start := time.Now()
	var err error
	for _, f := range files {
		err = errors.Join(err, f.Sync())
	}
	if len(files) > 0 {
		s.metrics.syncSeconds.Observe(time.Since(start).Seconds())
	}

	s.mu.Lock()
	if err != nil {
		err = full(fmt.Errorf("sync segment: %w", err))
		s.abandon(c, err)
	} else {
		for i, seg := range c.segments {
			seg.synced = sizes[i]
			if seg.sealed && seg.synced == seg.size {
				s.report("close segment", seg.closeFile())
			}
		}
		s.complete(c, nil)
	}
	s.collect()
	s.mu.Unlock()
	return err
}

// complete ends a commit: its entries are the streams' now, or nobody's.
func (s *Spool) complete(c *commit, err error) {
	c.done, c.err = true, err
	for _, p := range c.pending {
		if err == nil {
			p.stream.publish(p.entry)
		} else {
			p.entry.segment.live -= p.entry.n
		}
	}
	if err == nil && len(c.pending) > 0 {
		s.wake()
	}
	c.pending = nil
}

// abandon gives up on segments that could not be synced. After a failed fsync the kernel may have thrown the bytes away and say nothing
// at the next one, so nothing that was written since the last good one counts: the batches of this commit and of the one that has
// begun since fail. Batches that were answered for already (Options.FsyncInterval) stay, as far as they can be read back.
func (s *Spool) abandon(c *commit, err error) {
	next := s.commit
	s.commit = &commit{}
	for _, seg := range append(c.segments, next.segments...) {
		if seg == s.active {
			s.active = nil
		}
		seg.sealed = true
		if s.opts.FsyncInterval == 0 && seg.file != nil {
			good := max(seg.synced, segmentHead)
			if cut := seg.file.Truncate(good); cut != nil {
				s.report("cut segment", cut)
			} else {
				s.used -= seg.size - good
				seg.size = good
			}
		}
		seg.synced = seg.size
		s.report("close segment", seg.closeFile())
	}
	s.metrics.syncErrors.Inc()
	s.log.WithError(err).Error("spool: events could not be made durable; Ray sends those again that were not answered yet")
	s.complete(c, err)
	s.complete(next, err)
}

// syncEvery makes appended batches durable from time to time.
func (s *Spool) syncEvery() {
	ticker := time.NewTicker(s.opts.FsyncInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		c := s.commit
		idle := len(c.segments) == 0
		s.mu.Unlock()
		if !idle {
			_ = s.finish(c) // logged and counted; the next batches get a new segment
		}
	}
}

// wake tells that there is something new to ship.
func (s *Spool) wake() {
	select {
	case s.notify <- struct{}{}:
	default:
	}
}
