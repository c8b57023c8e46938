package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Outcomes of a session or a job, in the words that are stored, sent and shown. The findings decide them.
const (
	Failed     = "failed"
	Succeeded  = "succeeded"
	Stopped    = "stopped"    // somebody stopped the jobs
	Unfinished = "unfinished" // the cluster ended before its jobs did
	Unknown    = "unknown"    // nothing is stored of the jobs, or the server could not find out
	Running    = "running"    // the session has not ended
	// NotKnownYet is for filters and counts: the session has ended, and nobody has found out how. Where one session is
	// stored or sent, its outcome is then "".
	NotKnownYet = "not-known-yet" // see Entry.LacksOutcome
)

// Ended is, beside Running, the state of a session.
const Ended = "ended"

// State is the state of a session: Running or Ended.
func State(running bool) string {
	if running {
		return Running
	}
	return Ended
}

// Outcomes are those of ended sessions.
var Outcomes = []string{Failed, Succeeded, Stopped, Unfinished, Unknown}

// FilterOutcomes are those that a filter takes.
var FilterOutcomes = append(slices.Clip(Outcomes), NotKnownYet)

const (
	// maxOutcomes is how many outcomes may wait to be read; pages show fewer sessions. outcomeReads is how many are
	// read at a time.
	maxOutcomes, outcomeReads = 500, 8
	// After an outcome was looked for, it is not looked for again for outcomeAge. That is remembered of maxLooked
	// sessions.
	maxLooked, outcomeAge = 10_000, time.Minute
	// outcomeTime bounds reading one outcome.
	outcomeTime = 10 * time.Second
)

// endings is for outcomes that were stored after the details of their sessions were read.
type endings struct {
	slots   *turns.Slots                     // namespaces take turns
	looked  *cache.Cache[lookedAt, struct{}] // sessions whose outcome was looked for
	reading map[layout.Session]chan struct{} // closed when the outcome is read; the catalog's mutex guards it
}

// lookedAt is a session at its last write: after another write its outcome is looked for again.
type lookedAt struct {
	ref       layout.Session
	lastWrite int64
}

// ReadOutcomes looks for the outcomes of those entries that lack one, and changes these entries in place if outcomes
// are stored by now. It waits no longer than ctx; reading continues in the background after that.
func (c *Catalog) ReadOutcomes(ctx context.Context, entries []Entry) {
	var reads []<-chan struct{}
	for _, e := range entries {
		if done := c.readOutcome(e); done != nil {
			reads = append(reads, done)
		}
	}
	for _, done := range reads {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range entries {
		if !e.LacksOutcome() {
			continue
		}
		if s, ok := c.table.get(e.Ref); ok {
			entries[i] = s.entry(e.Ref, now, c.opts.Quiet)
		}
	}
}

// ReadsOutcome says whether ReadOutcomes is reading how a session ended.
func (c *Catalog) ReadsOutcome(ref layout.Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endings.reading[ref] != nil
}

// readOutcome begins to read how a session ended in the background, once for all who wait, and returns a channel that
// is closed when that is done. It returns nil if the outcome is known or was looked for lately, or if too many wait.
func (c *Catalog) readOutcome(e Entry) <-chan struct{} {
	if !e.LacksOutcome() || c.opts.Ending == nil {
		return nil
	}
	looked := lookedAt{e.Ref, micros(e.LastWrite)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if done := c.endings.reading[e.Ref]; done != nil {
		return done
	}
	if s, _ := c.table.get(e.Ref); s.facts == nil || s.facts.Outcome != "" {
		return nil
	}
	if _, lately := c.endings.looked.Get(looked); lately || len(c.endings.reading) >= maxOutcomes {
		return nil
	}
	done := make(chan struct{})
	c.endings.reading[e.Ref] = done
	go func() {
		ending, ok := c.endingOf(e)
		c.endings.looked.Put(looked, struct{}{})
		c.mu.Lock()
		defer c.mu.Unlock()
		if ok {
			c.takeOutcome(looked, ending)
		}
		delete(c.endings.reading, e.Ref)
		close(done)
	}()
	return done
}

// endingOf reads how a session ended when it is the namespace's turn; false if that is not known.
func (c *Catalog) endingOf(e Entry) (ending Ending, ok bool) {
	ctx, done, err := c.endings.slots.Take(context.Background(), e.Ref.Namespace, turns.NoLimit)
	if err != nil {
		return ending, false
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, outcomeTime)
	defer cancel()
	return c.opts.Ending(ctx, e)
}

// takeOutcome puts how a session ended into the list, unless the session was written to since, and requests to read its
// details again, which completes its facts; c.mu must be held.
func (c *Catalog) takeOutcome(of lookedAt, ending Ending) {
	s, _ := c.table.get(of.ref)
	if s.facts == nil || micros(s.facts.LastWrite) != of.lastWrite {
		return
	}
	f := *s.facts
	f.Outcome, f.Cause, f.Version = ending.Outcome, packs.ShortLine(ending.Cause), ending.Version
	c.table.put(of.ref, session{s.marked, s.took, &f})
	c.requestReread(of.ref)
}
