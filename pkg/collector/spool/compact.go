package spool

import (
	"errors"
	"io"
	"slices"
)

// compact copies the unshipped rest of old segments into the active one while the spool is more than half full, so that
// the old segments can be deleted. Without it, one stream that waits for its push interval, or that the store refuses,
// would keep on disk everything that was appended with it, until the spool is full and Ray must wait.
func (s *Spool) compact() {
	if !s.compactLock.TryLock() {
		return // another goroutine does it
	}
	defer s.compactLock.Unlock()
	for {
		s.mu.Lock()
		seg := s.sparseSegment()
		s.mu.Unlock()
		if seg == nil {
			return
		}
		if err := s.moveUnshipped(seg); err != nil {
			s.logError("compact segment", err)
			return
		}
	}
}

// sparseSegment returns the oldest segment that is worth moving, of which at most a quarter is unshipped; nil if there
// is none or the spool has room. s.mu is held.
func (s *Spool) sparseSegment() (oldest *segment) {
	if s.used <= s.opts.MaxBytes/2 || s.closed { // there is room: the segment goes as a whole later
		return nil
	}
	for seg := range s.segments {
		if seg.sealed && seg.synced == seg.size && seg.liveBytes <= seg.size/4 && !seg.compactTried &&
			(oldest == nil || seg.path < oldest.path) {
			oldest = seg
		}
	}
	return oldest
}

// moveUnshipped copies the unshipped rest of a segment into the active one. The old segment is deleted when the copy is
// durable. A crash in between leaves both, and opening the spool takes the later one. After an error the spans still
// point to the old segment, and what was written of the copy is garbage. s.compactLock is held.
func (s *Spool) moveUnshipped(seg *segment) error {
	seg.compactTried = true // only once: blocks that cannot be moved stay; guarded by compactLock
	blocks, arrived, err := s.readUnshipped(seg)
	if err != nil {
		return err
	}
	s.mu.Lock()
	// Without those that were shipped meanwhile.
	blocks = slices.DeleteFunc(blocks, func(b newBlock) bool { return b.end() <= b.stream.shipped })
	// Blocks are moved whole, even if most of a block is shipped. A copy that is not much smaller would be moved again,
	// without end.
	if size, _ := recordSize(blocks); len(blocks) == 0 || size > seg.size/2 || s.closed {
		s.mu.Unlock()
		return nil
	}
	at, err := s.writeRecord(blocks, arrived) // counts the blocks as live, so the copy stays while it is synced
	to, c := s.active, s.commit
	s.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.makeDurable(c)
	s.mu.Lock()
	// From here on only spans keep the copy. Those that were shipped while it was synced are gone, so moveSpans counts
	// what is left; after an error nothing is.
	for _, b := range blocks {
		to.liveBytes -= b.n
	}
	if err == nil {
		for st := range seg.streams {
			st.moveSpans(seg, to, at)
		}
	}
	s.collectShipped()
	s.mu.Unlock()
	s.deleteDead()
	return err
}

// readUnshipped reads the blocks of a segment that have unshipped bytes, and returns the earliest arrival time among
// them, Unix ns.
func (s *Spool) readUnshipped(seg *segment) (blocks []newBlock, arrived int64, err error) {
	var all []newSpan
	s.mu.Lock()
	for st := range seg.streams {
		for _, sp := range st.spans {
			if sp.segment == seg {
				all = append(all, newSpan{st, sp})
				if arrived == 0 || sp.arrived < arrived {
					arrived = sp.arrived
				}
			}
		}
	}
	s.mu.Unlock()
	for _, unshipped := range all {
		if blocks, err = s.readSpan(seg, unshipped.stream, unshipped.span, blocks); err != nil {
			return nil, 0, err
		}
	}
	return blocks, arrived, nil
}

// readSpan appends the blocks of a stream's span, with their data, to the blocks in to. A block may reach beyond the
// span, where some of it was shipped, and is appended as a whole.
func (s *Spool) readSpan(seg *segment, st *Stream, sp span, to []newBlock) (blocks []newBlock, err error) {
	w, err := s.openWalk(seg, st, sp.at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.file.Close()) }()
	for covered := sp.start; covered < sp.end(); {
		b, err := w.nextBlock()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the file ends before the bytes that it must have
		}
		if err != nil {
			return nil, err
		}
		if b.start+b.n <= covered || b.start >= sp.end() {
			continue // another span's
		}
		covered = b.start + b.n
		data := make([]byte, b.n)
		if _, err := w.file.ReadAt(data, b.dataAt); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		to = append(to, newBlock{key: st.key, parts: [][]byte{data}, n: b.n, checksum: b.checksum, stream: st,
			start: b.start})
	}
	return to, nil
}

// moveSpans makes the stream's spans in one segment point to their copies in another segment, where they count as live
// bytes from now on. at is the file offset of the record with the copies.
func (st *Stream) moveSpans(from, to *segment, at int64) {
	for i := range st.spans {
		if sp := &st.spans[i]; sp.segment == from {
			from.liveBytes -= sp.n
			to.liveBytes += sp.n
			sp.segment, sp.at, sp.last = to, at, at
		}
	}
}
