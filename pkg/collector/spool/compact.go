package spool

import (
	"errors"
	"io"
	"slices"
)

// compact moves the unshipped rest of old segments into new ones while the spool is more than half full. Without it,
// one stream that waits for its push interval, or that the store refuses, would keep on disk everything that was
// appended with it, until the spool is full and Ray must wait.
func (s *Spool) compact() {
	if !s.compacting.TryLock() {
		return // another goroutine does it
	}
	defer s.compacting.Unlock()
	for {
		s.mu.Lock()
		seg := s.sparse()
		s.mu.Unlock()
		if seg == nil {
			return
		}
		if err := s.move(seg); err != nil {
			s.report("compact segment", err)
			return
		}
	}
}

// sparse returns the oldest segment worth moving: at most a quarter of it is unshipped.
func (s *Spool) sparse() (oldest *segment) {
	if s.used <= s.opts.MaxBytes/2 || s.closed { // there is room: the segment goes as a whole later
		return nil
	}
	for seg := range s.segments {
		if seg.sealed && seg.synced == seg.size && seg.live <= seg.size/4 && !seg.compacted &&
			(oldest == nil || seg.path < oldest.path) {
			oldest = seg
		}
	}
	return oldest
}

// move copies the unshipped rest of a segment into the active one. The old segment is dropped when the copy is durable.
// A crash in between leaves both, and opening the spool takes the later one.
func (s *Spool) move(seg *segment) error {
	seg.compacted = true // only once: blocks that cannot be moved stay
	p := plans.Get().(*plan)
	defer p.free()
	arrived, err := s.read(seg, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	// shipped meanwhile
	p.blocks = slices.DeleteFunc(p.blocks, func(b newBlock) bool { return b.start+b.n <= b.stream.shipped })
	// Blocks are moved whole, even if most of a block is shipped. A copy that is not much smaller would be moved again,
	// without end.
	if size, _ := recordSize(p.blocks); len(p.blocks) == 0 || size > seg.size/2 || s.closed {
		s.mu.Unlock()
		return nil
	}
	at, err := s.writeRecord(p.blocks, arrived)
	to, c := s.active, s.commit
	s.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.finish(c)
	s.mu.Lock()
	for _, b := range p.blocks {
		to.live -= b.n // repoint adds it again
	}
	if err == nil {
		for st := range seg.streams {
			st.repoint(seg, to, at)
		}
	}
	s.collect()
	s.mu.Unlock()
	s.deleteDead()
	return err
}

// read adds the unshipped blocks of a segment to the plan, and returns the arrival time of the first.
func (s *Spool) read(seg *segment, p *plan) (arrived int64, err error) {
	type left struct {
		stream *Stream
		span   span
	}
	var all []left
	s.mu.Lock()
	for st := range seg.streams {
		for _, sp := range st.spans {
			if sp.segment == seg {
				all = append(all, left{st, sp})
				if arrived == 0 || sp.arrived < arrived {
					arrived = sp.arrived
				}
			}
		}
	}
	s.mu.Unlock()
	for _, l := range all {
		if err := s.readSpan(seg, l.stream, l.span, p); err != nil {
			return 0, err
		}
	}
	return arrived, nil
}

// readSpan adds a span's blocks to the plan.
func (s *Spool) readSpan(seg *segment, st *Stream, sp span, p *plan) (err error) {
	w, err := s.walk(seg, st, sp.at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.file.Close()) }()
	for covered := sp.start; covered < sp.end(); {
		b, at, err := w.next()
		if err != nil {
			return noEOF(err)
		}
		if b.start+b.n <= covered || b.start >= sp.end() {
			continue // another span's
		}
		covered = b.start + b.n
		data := make([]byte, b.n)
		if _, err := w.file.ReadAt(data, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		n := p.begin(st.key)
		n.parts, n.n, n.checksum = append(n.parts, data), b.n, b.checksum
		n.stream, n.start = st, b.start
	}
	return nil
}

// repoint makes the stream's spans in one segment point to their copies in another segment.
func (st *Stream) repoint(from, to *segment, at int64) {
	for i := range st.spans {
		if sp := &st.spans[i]; sp.segment == from {
			from.live -= sp.n
			to.live += sp.n
			sp.segment, sp.at, sp.last = to, at, at
		}
	}
}
