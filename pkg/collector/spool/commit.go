package spool

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/internal/background"
)

// commit is a group of batches that become durable together: all that were appended while the previous commit was being
// synced. So concurrent batches share one fsync, and none waits for more than two. Exactly one commit is open at a time
// (Spool.commit); makeDurable syncs it and opens the next. Its fields are guarded by the spool's mu.
type commit struct {
	segments []*segment // written to
	spans    []newSpan  // published when the commit is durable, because what is shipped must survive a power loss
	done     bool
	err      error
}

type newSpan struct {
	stream *Stream
	span   span
}

func (c *commit) addSegment(seg *segment) {
	if !slices.Contains(c.segments, seg) {
		c.segments = append(c.segments, seg)
	}
}

// makeDurable returns when everything that was written in the commit is on disk, or with the error that its batches
// have. The first goroutine that waits for a commit syncs its files; one commit is synced at a time.
func (s *Spool) makeDurable(c *commit) error {
	defer s.deleteDead() // behind the unlock: the next commit need not wait for it
	s.syncLock.Lock()
	defer s.syncLock.Unlock()
	s.mu.Lock()
	if c.done {
		defer s.mu.Unlock()
		return c.err
	}
	s.commit = &commit{} // c was the current one: only one is ever open
	sizes := make([]int64, len(c.segments))
	files, lock := make(map[string]file), s.lock
	for i, seg := range c.segments {
		sizes[i] = seg.size
		if seg.file != nil { // else an earlier commit synced and closed it
			files[seg.path] = seg.file
		}
	}
	s.mu.Unlock()

	start := time.Now()
	var err error
	for path, f := range files {
		err = errors.Join(err, f.Sync())
		if !atomicfile.Names(path, f) || !atomicfile.Names(s.lockPath(), lock) {
			err = errors.Join(err, fmt.Errorf("%s or the folder's lock was deleted", path))
		}
	}
	if len(files) > 0 {
		s.metrics.syncSeconds.Observe(time.Since(start).Seconds())
	}

	s.mu.Lock()
	if err != nil {
		err = ifDiskFull(fmt.Errorf("sync segment: %w", err))
		s.abandonUnsynced(c, err)
	} else {
		for i, seg := range c.segments {
			seg.synced = sizes[i]
			if seg.sealed && seg.synced == seg.size {
				s.logError("close segment", seg.closeFile())
			}
		}
		s.finishCommit(c, nil)
	}
	s.collectShipped()
	s.mu.Unlock()
	return err
}

// finishCommit ends a commit. Without an error the streams get its spans, which can be shipped from now on; with an
// error the spans are dropped, and their bytes, which writeRecord counted, are no longer live. s.mu is held.
func (s *Spool) finishCommit(c *commit, err error) {
	c.done, c.err = true, err
	for _, p := range c.spans {
		if err == nil {
			p.stream.addSpan(p.span)
		} else {
			p.span.segment.liveBytes -= p.span.n
		}
	}
	if err == nil && len(c.spans) > 0 {
		background.Signal(s.notify)
	}
	c.spans = nil
}

// abandonUnsynced gives up segments that could not be synced. After a failed fsync the kernel may drop the bytes and
// report success for the next one. So nothing written since the last good fsync counts, and the files are not written
// to again. The batches of this commit and of the next one, which has begun, fail.
func (s *Spool) abandonUnsynced(c *commit, err error) {
	next := s.commit
	s.commit = &commit{}
	for _, seg := range append(c.segments, next.segments...) {
		if seg == s.active {
			s.active = nil
		}
		seg.sealed = true
		if seg.file != nil {
			good := max(seg.synced, segmentHead)
			if cut := seg.file.Truncate(good); cut != nil {
				s.logError("cut segment", cut)
			} else {
				s.used -= seg.size - good
				seg.size = good
			}
		}
		seg.synced = seg.size
		s.logError("close segment", seg.closeFile())
	}
	s.metrics.syncErrors.Inc()
	if log, ok := s.failures.Allow(time.Now()); ok {
		log.WithError(err).Error("spool: events could not be synced to disk; Ray sends those again that were not " +
			"answered yet")
	}
	s.finishCommit(c, err)
	s.finishCommit(next, err)
}
