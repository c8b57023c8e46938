package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/seekable"
)

// Stream is the part of one stream that the spool holds. It implements the shipper's Source.
//
// It has two kinds of offsets. Local offsets are the spool's own: Append assigns them before the store is asked, they
// order the stream's lines, and none is used twice. Consecutive lines have consecutive local offsets; there is a gap
// where a batch failed, bytes were damaged, or the process was restarted. Stored offsets are those in the store. The
// mapping translates local to stored offsets. When shipping reaches a gap, the mapping is changed so that the stored
// offsets have no gap.
//
// A completely shipped stream stays in memory, so the shipper does not list the store again when it grows. It is
// dropped when there are too many.
type Stream struct {
	spool *Spool
	key   string
	// random: differs from the ID of an earlier stream with the same key, whose records or position may still be on
	// disk
	id uint64

	// Guarded by the spool's mu:

	nextOffset int64  // local offset of the next line
	shipped    int64  // local offset: everything before it is stored or lost
	spans      []span // unshipped, in order of their offsets; the first begins at shipped
	segments   int    // that hold blocks of the stream, shipped or not

	mapping mapping
	mapped  bool // false until the first Resume, or a saved position
	// tried are the local ends of the chunks after shipped that were handed out, in the order they were tried. An
	// answer may have been lost, so the stored end may be any of them.
	tried []int64
}

// span is a run of blocks in one segment with consecutive local offsets.
type span struct {
	segment  *segment
	at, last int64 // file offsets of its first and last record; at may be lower
	start, n int64 // local offset, bytes
	arrived  int64 // Unix ns
}

func (sp span) end() int64 { return sp.start + sp.n }

// mapping says that the local offset `local` is the offset `stored` in the store; the bytes after it follow in step.
type mapping struct {
	local, stored int64
}

const (
	// mergeWithin is the maximum difference of the arrival times in one span. The rest of a span may look older by this
	// much.
	mergeWithin = int64(10 * time.Second)
	// maxTried bounds Stream.tried.
	maxTried = 1024
)

// storedOffset translates a local offset to the one in the store, and localOffset the other way.
func (st *Stream) storedOffset(local int64) int64 {
	return st.mapping.stored + local - st.mapping.local
}
func (st *Stream) localOffset(stored int64) int64 {
	return st.mapping.local + stored - st.mapping.stored
}

// addSpan adds a span after the others. A small one that follows the last span without a gap, in the same segment and
// soon after it, is joined with that.
func (st *Stream) addSpan(sp span) {
	if n := len(st.spans); n > 0 {
		last := &st.spans[n-1]
		if last.segment == sp.segment && last.end() == sp.start && last.last <= sp.at && last.n+sp.n <= blockBytes &&
			sp.arrived-last.arrived <= mergeWithin { // goes on where the last one ends
			last.n, last.last = last.n+sp.n, sp.last
			return
		}
	}
	st.spans = append(st.spans, sp)
	st.closeGap()
}

// closeGap moves shipped to the first span. If there is a gap before it, of bytes that were lost, the mapping changes
// so that the store has none: the span's bytes get the offsets there that the lost ones would have had.
func (st *Stream) closeGap() {
	if len(st.spans) == 0 {
		return
	}
	first := st.spans[0].start
	if st.mapped && first != st.shipped {
		st.mapping = mapping{local: first, stored: st.storedOffset(st.shipped)}
		st.tried = nil
	}
	st.shipped = first
}

// releaseBefore drops everything before a local offset, because it is stored.
func (st *Stream) releaseBefore(offset int64) {
	for len(st.spans) > 0 && st.spans[0].start < offset {
		sp := &st.spans[0]
		n := min(sp.n, offset-sp.start)
		sp.segment.liveBytes -= n
		if sp.start, sp.n = sp.start+n, sp.n-n; sp.n == 0 {
			st.spans = st.spans[1:]
		}
	}
	st.shipped = max(st.shipped, offset)
	st.tried = slices.DeleteFunc(st.tried, func(end int64) bool { return end <= offset })
	st.closeGap()
}

// dropBytes drops the n unreadable bytes at the local offset start, so that they are not shipped: the spans that hold
// them are cut. Their segments count as damaged.
func (st *Stream) dropBytes(start, n int64) {
	var spans []span
	for _, sp := range st.spans {
		from, to := max(sp.start, start), min(sp.end(), start+n)
		if from >= to {
			spans = append(spans, sp)
			continue
		}
		sp.segment.liveBytes -= to - from
		sp.segment.damaged = true
		if before := sp; before.start < from {
			before.n = from - before.start
			spans = append(spans, before)
		}
		if after := sp; to < after.end() {
			after.start, after.n = to, after.end()-to
			spans = append(spans, after)
		}
	}
	st.spans = spans
	st.closeGap()
}

// nextPosition returns the stream's progress as it is saved on disk, and counts it: of two positions the later one is
// saved. Of the chunks tried it has only the last, since a slot has place for one: after a crash an earlier one that
// was stored is not recognized, and its lines are stored twice.
func (st *Stream) nextPosition() position {
	st.spool.positionsTaken++
	p := position{streamID: st.id, mapping: mapping{local: st.shipped, stored: st.storedOffset(st.shipped)},
		taken: st.spool.positionsTaken}
	if n := len(st.tried); n > 0 {
		p.tried = st.tried[n-1]
	}
	return p
}

func (st *Stream) Key() string { return st.key }

// Pending returns what to ship next: n bytes from an offset in the store, and the arrival time of the first; n is 0 if
// nothing is left. It cuts between lines, so n exceeds limit if a single line does, and ends at a gap, which lost bytes
// leave between two spans.
func (st *Stream) Pending(limit int64) (offset, n int64, oldest time.Time) {
	s := st.spool
	s.mu.Lock()
	if len(st.spans) == 0 {
		defer s.mu.Unlock()
		return st.storedOffset(st.shipped), 0, time.Time{}
	}
	for i, sp := range st.spans {
		afterGap := sp.start != st.shipped+n
		if i > 0 && (afterGap || sp.n > limit-n) {
			break
		}
		n += sp.n
	}
	start := st.shipped
	offset, oldest = st.storedOffset(start), s.toTime(st.spans[0].arrived)
	s.mu.Unlock()
	if n > limit && limit < blockBytes { // a span has at most blockBytes, or one line, which cannot be cut
		cut, err := st.wholeLines(start, n, limit)
		if errors.Is(err, errDamaged) {
			return st.Pending(limit) // without the damaged bytes: the reader of wholeLines has dropped them
		}
		if err == nil {
			n = cut
		} // else Open or Read returns why the bytes cannot be read
	}
	return offset, n, oldest
}

// wholeLines returns how many of the n bytes from the local offset start are whole lines within limit bytes, at least
// one line. It reads all n bytes to check them: the checksum covers the entire block, and cannot be checked any more
// after some of the block was shipped.
func (st *Stream) wholeLines(start, n, limit int64) (int64, error) {
	r := &reader{stream: st, at: start, end: start + n}
	defer r.Close()
	var cut, at int64 // bytes up to the last line's end that is not behind limit, and up to where it was looked
	buf := make([]byte, windowBytes)
	for {
		k, err := r.Read(buf)
		for rest := buf[:k]; cut == 0 || at < limit; {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				at += int64(len(rest))
				break
			}
			at += int64(i) + 1
			rest = rest[i+1:]
			if cut == 0 || at <= limit {
				cut = at
			}
		}
		switch {
		case err == io.EOF && cut > 0:
			return cut, nil
		case err == io.EOF:
			return n, nil
		case err != nil:
			return 0, err
		}
	}
}

// Resume implements ship.Source: a listing of the store shows the bytes [0, stored) of the stream. Bytes that turn out
// to be stored are released.
//
// Only two kinds of ends can come from this stream: the shipped offset, or the end of a chunk that was tried. Any other
// end comes from another collector or from deleted objects. Then the stream continues after it and releases nothing,
// because releasing up to there could lose lines.
func (st *Stream) Resume(stored int64) error {
	s := st.spool
	s.mu.Lock()
	local := st.localOffset(stored)
	switch {
	case !st.mapped:
		// The first bytes of this stream follow what is stored.
		st.mapping, st.mapped = mapping{local: st.shipped, stored: stored}, true
	case local == st.shipped:
	case slices.Contains(st.tried, local):
		st.releaseBefore(local)
	default:
		s.metrics.rebased.Inc()
		s.log.WithField("key", st.key).Warnf(
			"spool: the stream continues at byte %d in the store where %d was expected: another collector writes "+
				"here, or objects were deleted or joined", stored, st.storedOffset(st.shipped))
		st.mapping, st.tried = mapping{local: st.shipped, stored: stored}, nil
	}
	s.collectShipped()
	s.mu.Unlock()
	s.deleteDead()
	return nil
}

// Unresumed implements ship.Source: after a stored chunk the stream knows where it continues.
func (st *Stream) Unresumed() bool { return false }

// Open reads the bytes [offset, offset+n) of the stream; offset is one in the store. The bytes are checked. If they are
// damaged, reading fails and the damaged bytes are no longer pending. Where the bytes are the next to ship, the end of
// the chunk is noted first, so that Resume recognises it if the store has it and its answer was lost.
func (st *Stream) Open(offset, n int64) (io.ReadSeekCloser, error) {
	s := st.spool
	s.mu.Lock()
	if !st.mapped {
		s.mu.Unlock()
		return nil, fmt.Errorf("open %s: not resumed yet", st.key)
	}
	start := st.localOffset(offset)
	if n <= 0 || start < st.shipped || st.contiguousEnd() < start+n {
		s.mu.Unlock()
		return nil, fmt.Errorf("open %s: the spool does not hold bytes %d to %d", st.key, offset, offset+n)
	}
	if start == st.shipped {
		st.tried = slices.DeleteFunc(st.tried, func(end int64) bool { return end == start+n })
		st.tried = append(st.tried[max(0, len(st.tried)-maxTried):], start+n)
		p := st.nextPosition()
		s.mu.Unlock()
		// The position is saved before a byte is sent. If saving fails, the chunk may be stored twice after a crash.
		// That is better than not storing it because of a bad disk.
		s.logError("save position", s.positions.save([]position{p}))
	} else {
		s.mu.Unlock()
	}
	return seekable.New(n, func(at int64) (io.ReadCloser, error) {
		return &reader{stream: st, at: start + at, end: start + n}, nil
	}), nil
}

// contiguousEnd returns the local offset up to which there is no gap.
func (st *Stream) contiguousEnd() int64 {
	end := st.shipped
	for _, sp := range st.spans {
		if sp.start != end {
			break
		}
		end = sp.end()
	}
	return end
}

// spanAt returns the span that holds a local offset that is being read. If there is none, its bytes were lost
// meanwhile, see dropDamaged and loseSegment.
func (st *Stream) spanAt(offset int64) (span, error) {
	st.spool.mu.Lock()
	defer st.spool.mu.Unlock()
	for _, sp := range st.spans {
		if sp.start <= offset && offset < sp.end() {
			return sp, nil
		}
	}
	return span{}, fmt.Errorf("the bytes to read are no longer there: %w", errDamaged)
}

// Shipped says that the bytes before the offset end in the store are stored. It releases no more than there is.
func (st *Stream) Shipped(end int64) {
	s := st.spool
	s.mu.Lock()
	last := st.shipped
	if n := len(st.spans); n > 0 {
		last = st.spans[n-1].end()
	}
	st.releaseBefore(min(st.localOffset(end), last))
	s.collectShipped()
	s.mu.Unlock()
	s.deleteDead()
	s.compact()
}
