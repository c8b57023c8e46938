package spool

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// Stream is what the spool holds of one whole, and implements the shipper's Source.
//
// A stream has offsets of its own, which order its pieces and are never used twice: pieces that follow each other have offsets that
// do, gaps are where a batch failed, damage took something, or the process was restarted. The stream's anchor maps its offsets to the
// whole's. A gap that shipping reaches is closed: the anchor is moved to its end.
//
// A generation begins with the first piece of a whole that the spool holds nothing of, so everything of an earlier one was shipped. A
// stream of which nothing is left is at rest: it is remembered, for what it would go on with, until there are too many.
type Stream struct {
	spool      *Spool
	whole      string
	generation uint64

	// Guarded by the spool's mu:

	next     int64   // where the next piece goes
	shipped  int64   // where the first entry starts; everything before is stored or lost
	entries  []entry // what is not shipped, by offset
	segments int     // that hold pieces of the stream, shipped or not

	anchor   anchor
	anchored bool
	// attempts are the ends of chunks that were tried from shipped on, the last one last: where the stored end may stand after an answer
	// was lost.
	attempts []int64
}

// entry is a run of extents within one segment, of consecutive offsets.
type entry struct {
	segment  *segment
	at, last int64 // file offsets of the first and the last record it is in; at may be before that
	start, n int64 // offsets in the stream
	arrived  int64 // Unix ns
}

func (e entry) end() int64 { return e.start + e.n }

const (
	// mergeWithin is how far apart extents of one entry may have arrived: by so much an entry's remainder may look older than it is.
	mergeWithin = int64(10 * time.Second)
	maxAttempts = 1024
)

// publish adds an entry behind the others.
func (st *Stream) publish(e entry) {
	if n := len(st.entries); n > 0 {
		last := &st.entries[n-1]
		if last.segment == e.segment && last.end() == e.start && last.last <= e.at && last.n+e.n <= extentBytes && e.arrived-last.arrived <= mergeWithin {
			last.n, last.last = last.n+e.n, e.last
			return
		}
	}
	st.entries = append(st.entries, e)
	st.advance()
}

// advance moves shipped to the first entry, and the anchor over the gap before it if there is one.
func (st *Stream) advance() {
	if len(st.entries) == 0 {
		return
	}
	first := st.entries[0].start
	if st.anchored && first != st.shipped {
		st.anchor = anchor{from: first, at: st.wholeOffset(st.shipped)}
		st.attempts = nil
	}
	st.shipped = first
}

func (st *Stream) wholeOffset(offset int64) int64 { return st.anchor.at + offset - st.anchor.from }

// release drops everything before the offset.
func (st *Stream) release(offset int64) {
	for len(st.entries) > 0 && st.entries[0].start < offset {
		e := &st.entries[0]
		n := min(e.n, offset-e.start)
		e.segment.live -= n
		if e.start, e.n = e.start+n, e.n-n; e.n == 0 {
			st.entries = st.entries[1:]
		}
	}
	st.shipped = max(st.shipped, offset)
	st.attempts = slices.DeleteFunc(st.attempts, func(end int64) bool { return end <= offset })
	st.advance()
}

// remove takes [start, start+n) out of what is to be shipped: it can't be read.
func (st *Stream) remove(start, n int64) {
	var entries []entry
	for _, e := range st.entries {
		from, to := max(e.start, start), min(e.end(), start+n)
		if from >= to {
			entries = append(entries, e)
			continue
		}
		e.segment.live -= to - from
		e.segment.damaged = true
		if before := e; before.start < from {
			before.n = from - before.start
			entries = append(entries, before)
		}
		if after := e; to < after.end() {
			after.start, after.n = to, after.end()-to
			entries = append(entries, after)
		}
	}
	st.entries = entries
	st.advance()
}

// place is the stream's anchor from what is shipped on, and the last chunk that was tried.
func (st *Stream) place() saved {
	p := saved{generation: st.generation, anchor: anchor{from: st.shipped, at: st.wholeOffset(st.shipped)}}
	if n := len(st.attempts); n > 0 {
		p.until = st.attempts[n-1]
	}
	return p
}

// rest ends a generation, of which nothing is left, and begins the next. Where that goes is known.
func (st *Stream) rest() (ended uint64) {
	ended, st.generation = st.generation, rand.Uint64()
	return ended
}

// Whole is the key of the whole.
func (st *Stream) Whole() string { return st.whole }

// Pending says what may be shipped next: n bytes of the whole from offset, and when the first of them came. It cuts between lines, at
// most extentBytes apart, so n is more than limit only where a single such run or line is.
func (st *Stream) Pending(limit int64) (offset, n int64, oldest time.Time) {
	st.spool.mu.Lock()
	defer st.spool.mu.Unlock()
	if len(st.entries) == 0 {
		return st.wholeOffset(st.shipped), 0, time.Time{}
	}
	for i, e := range st.entries {
		if i > 0 && (e.start != st.shipped+n || e.n > limit-n) {
			break
		}
		n += e.n
	}
	return st.wholeOffset(st.shipped), n, time.Unix(0, st.entries[0].arrived)
}

// Resume says that, by a listing, the store holds the bytes [0, stored) of the whole.
func (st *Stream) Resume(stored int64) error {
	s := st.spool
	s.mu.Lock()
	got := stored - st.anchor.at + st.anchor.from
	switch {
	case !st.anchored:
		// The first bytes of this stream go behind whatever is there.
		st.anchor, st.anchored = anchor{from: st.shipped, at: stored}, true
	case got == st.shipped:
	case slices.Contains(st.attempts, got):
		st.release(got)
	default:
		s.metrics.rebased.Inc()
		s.log.WithField("key", st.whole).Warnf("spool: the store holds %d bytes where %d were expected; another collector writes here, or objects were deleted: going on at the end",
			stored, st.wholeOffset(st.shipped))
		st.anchor, st.attempts = anchor{from: st.shipped, at: stored}, nil
	}
	s.collect()
	s.mu.Unlock()
	s.drop()
	return nil
}

// Open reads the bytes [offset, offset+n) of the whole. What is read is checked; if it was damaged the read fails, and the damaged part
// is no longer pending.
func (st *Stream) Open(offset, n int64) (io.ReadSeekCloser, error) {
	s := st.spool
	s.mu.Lock()
	if !st.anchored {
		s.mu.Unlock()
		return nil, fmt.Errorf("open %s: not resumed yet", st.whole)
	}
	start := offset - st.anchor.at + st.anchor.from
	if n <= 0 || start < st.shipped || st.contiguous() < start+n {
		s.mu.Unlock()
		return nil, fmt.Errorf("open %s: the spool does not hold bytes %d to %d", st.whole, offset, offset+n)
	}
	if start == st.shipped {
		st.attempts = slices.DeleteFunc(st.attempts, func(end int64) bool { return end == start+n })
		st.attempts = append(st.attempts[max(0, len(st.attempts)-maxAttempts):], start+n)
		place := st.place()
		s.mu.Unlock()
		// A chunk that is not noted may be stored twice after a crash. That is better than not to be stored for want of a good disk.
		s.report("note what is shipped", s.anchors.save([]saved{place}))
	} else {
		s.mu.Unlock()
	}
	return &reader{stream: st, start: start, n: n}, nil
}

// contiguous is the end of what may be shipped without a gap.
func (st *Stream) contiguous() int64 {
	end := st.shipped
	for _, e := range st.entries {
		if e.start != end {
			break
		}
		end = e.end()
	}
	return end
}

// entryAt is the entry that holds the offset.
func (st *Stream) entryAt(offset int64) (entry, error) {
	st.spool.mu.Lock()
	defer st.spool.mu.Unlock()
	for _, e := range st.entries {
		if e.start <= offset && offset < e.end() {
			return e, nil
		}
	}
	return entry{}, fmt.Errorf("what was to be read is no longer there: %w", errDamaged)
}

// Shipped says that the bytes of the whole before end are stored.
func (st *Stream) Shipped(end int64) {
	s := st.spool
	s.mu.Lock()
	st.release(min(end-st.anchor.at+st.anchor.from, st.lastEnd()))
	s.collect()
	s.mu.Unlock()
	s.drop()
	s.compact()
}

// lastEnd is the end of what may be shipped.
func (st *Stream) lastEnd() int64 {
	if n := len(st.entries); n > 0 {
		return st.entries[n-1].end()
	}
	return st.shipped
}
