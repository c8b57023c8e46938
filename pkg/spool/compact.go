package spool

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// compact moves what little is left of old segments into new ones, while the spool is more than half full. Without it one slow whole
// that waits for its push interval would hold on to everything that was appended beside it.
func (s *Spool) compact() {
	if !s.compacting.TryLock() {
		return // somebody is at it
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

// sparse is the oldest of the segments that are worth moving: at most a quarter of it is left.
func (s *Spool) sparse() (oldest *segment) {
	if s.used <= s.opts.MaxBytes/2 || s.closed {
		return nil
	}
	for seg := range s.segments {
		if seg.sealed && seg.synced == seg.size && seg.live <= seg.size/4 && !seg.stuck && (oldest == nil || seg.path < oldest.path) {
			oldest = seg
		}
	}
	return oldest
}

// move copies what is left of a segment into the active one, and when that is durable, lets go of the old one. A crash in between
// leaves both; opening the spool takes the later.
func (s *Spool) move(seg *segment) error {
	seg.stuck = true // unless all of it goes, it is not tried again
	p := plans.Get().(*plan)
	defer p.free()
	arrived, err := s.read(seg, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	// What was shipped meanwhile may even be of a generation that has ended.
	p.chunks = slices.DeleteFunc(p.chunks, func(c chunk) bool {
		return c.generation != c.stream.generation || c.start+c.n <= c.stream.shipped
	})
	if len(p.chunks) == 0 || s.closed {
		s.mu.Unlock()
		return nil
	}
	at, err := s.writeRecord(p.chunks, arrived)
	to, c := s.active, s.commit
	s.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.finish(c)
	s.mu.Lock()
	for _, c := range p.chunks {
		to.live -= c.n
	}
	if err == nil {
		for st := range seg.streams {
			st.repoint(seg, to, at)
		}
	}
	s.collect()
	s.mu.Unlock()
	s.drop()
	return err
}

// read adds the extents that are left in a segment to the plan, and tells when the first of them arrived.
func (s *Spool) read(seg *segment, p *plan) (arrived int64, err error) {
	type left struct {
		stream     *Stream
		generation uint64
		entry      entry
	}
	var all []left
	s.mu.Lock()
	for st := range seg.streams {
		for _, e := range st.entries {
			if e.segment == seg {
				all = append(all, left{st, st.generation, e})
				if arrived == 0 || e.arrived < arrived {
					arrived = e.arrived
				}
			}
		}
	}
	s.mu.Unlock()
	for _, l := range all {
		w, err := s.walk(seg, l.stream, l.entry.at)
		if err != nil {
			return 0, err
		}
		w.generation = l.generation
		for covered := l.entry.start; covered < l.entry.end(); {
			ext, at, err := w.next()
			if err != nil {
				return 0, errors.Join(noEOF(err), w.file.Close())
			}
			if ext.start+ext.n <= covered || ext.start >= l.entry.end() {
				continue // another entry's
			}
			covered = ext.start + ext.n
			data := make([]byte, ext.n)
			if _, err := w.file.ReadAt(data, at); err != nil && !errors.Is(err, io.EOF) {
				return 0, errors.Join(err, w.file.Close())
			}
			p.begin(l.stream.whole)
			c := &p.chunks[len(p.chunks)-1]
			c.parts, c.n, c.checksum = append(c.parts, data), ext.n, ext.checksum
			c.stream, c.generation, c.start = l.stream, l.generation, ext.start
		}
		if err := w.file.Close(); err != nil {
			return 0, fmt.Errorf("close %s: %w", seg.path, err)
		}
	}
	return arrived, nil
}

// repoint makes the stream's entries in one segment point to their copies in another.
func (st *Stream) repoint(from, to *segment, at int64) {
	for i := range st.entries {
		if e := &st.entries[i]; e.segment == from {
			from.live -= e.n
			to.live += e.n
			e.segment, e.at, e.last = to, at, at
		}
	}
}
