package spool

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
)

// reader reads a range of a stream. It finds the stream's blocks by walking over the segments' records, so it needs
// only the memory of one window, however long the range is.
type reader struct {
	stream  *Stream
	at, end int64 // local offsets
	err     error // ended reading, because bytes of the range are lost

	walk *walk
	span int64 // local offset of the span that the walk is in
	// The block being read, how many of its bytes were read, and their checksum.
	block      block
	doneBytes  int64
	runningSum uint32
}

// Read reads across blocks and segments, at most to the end of the current block at a time. It returns the last bytes
// of a block only if the block's checksum is right: otherwise the error is errDamaged, and the block's bytes are
// dropped from the stream. So are those whose record cannot be read any more, and those behind the end of a file that
// was cut.
func (r *reader) Read(p []byte) (int, error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case r.at >= r.end:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	if r.doneBytes >= r.block.n {
		if err := r.seekBlock(r.at); err != nil {
			return 0, fmt.Errorf("read %s: %w", r.stream.key, err)
		}
	}
	p = p[:min(int64(len(p)), r.block.n-r.doneBytes, r.end-r.at)]
	n, err := r.walk.file.ReadAt(p, r.block.dataAt+r.doneBytes)
	switch {
	case n < len(p) && errors.Is(err, io.EOF):
		return 0, r.loseBytes(r.block.start, r.block.n)
	case n < len(p):
		return 0, fmt.Errorf("read %s: %w", r.walk.segment.path, err)
	}
	r.runningSum = crc32.Update(r.runningSum, castagnoli, p)
	r.doneBytes += int64(n)
	if r.doneBytes == r.block.n && r.runningSum != r.block.checksum {
		return 0, r.loseBytes(r.block.start, r.block.n)
	}
	r.at += int64(n)
	return n, nil
}

// loseBytes drops n unreadable bytes from the stream, from the local offset start on, and ends reading with the error
// that it returns, which wraps errDamaged.
func (r *reader) loseBytes(start, n int64) error {
	r.err = fmt.Errorf("read %s: %d bytes: %w", r.walk.segment.path, n, errDamaged)
	r.stream.spool.dropDamaged(r.stream, r.walk.segment, start, n)
	return r.err
}

// seekBlock makes the block that holds the local offset the one being read, at that offset. It goes on in the walk that
// is open if the block lies ahead of it in the same segment, and otherwise opens a new one. The walk stays open for the
// next call.
func (r *reader) seekBlock(offset int64) error {
	sp, err := r.stream.spanAt(offset)
	if err != nil {
		return err
	}
	// A walk only goes forward in the file, up to what was its end. A span that follows in the stream may lie before
	// the last one, or behind that end, if one of them was moved there.
	ahead := r.walk != nil && r.walk.segment == sp.segment && r.walk.passedEnd <= offset &&
		(r.span == sp.start || r.walk.lastRecord <= sp.at) && sp.last < r.walk.window.size
	if !ahead {
		if err := r.Close(); err != nil {
			return err
		}
		if r.walk, err = r.stream.spool.openWalk(sp.segment, r.stream, sp.at); errors.Is(err, fs.ErrNotExist) {
			// The segment was just compacted.
			if sp, err = r.stream.spanAt(offset); err == nil {
				r.walk, err = r.stream.spool.openWalk(sp.segment, r.stream, sp.at)
			}
		}
		if err != nil {
			return err
		}
	}
	r.span = sp.start
	for {
		b, err := r.walk.nextBlock()
		switch {
		case err == nil && b.start <= offset && offset < b.start+b.n:
			return r.beginBlock(b, offset-b.start)
		case err == nil && offset < b.start && b.start < sp.end(): // a later block of the span
			return r.loseBytes(offset, b.start-offset)
		case errors.Is(err, io.EOF), err == nil && r.walk.lastRecord > sp.last: // the span ends without it
			return r.loseBytes(offset, sp.end()-offset)
		case err != nil:
			return err
		}
	}
}

// beginBlock makes b the block being read, from its byte before on. The bytes before that are read only for the
// checksum.
func (r *reader) beginBlock(b block, before int64) error {
	sum, err := checksumAt(r.walk.file, b.dataAt, before, make([]byte, min(before, windowBytes)))
	switch {
	case errors.Is(err, io.EOF):
		return r.loseBytes(b.start, b.n)
	case err == nil: // else the next Read begins again: without the sum, the block would count as damaged
		r.block, r.doneBytes, r.runningSum = b, before, sum
	}
	return err
}

// Close closes the segment that is being read, if there is one.
func (r *reader) Close() error {
	if r.walk == nil {
		return nil
	}
	err := r.walk.file.Close()
	r.walk = nil
	return err
}

// dropDamaged removes n unreadable bytes from a stream.
func (s *Spool) dropDamaged(st *Stream, seg *segment, start, n int64) {
	s.metrics.damaged.Inc()
	s.log.WithField("key", st.key).Errorf(
		"spool: %d bytes of data in %s are damaged and lost: check the disk; the file is moved to quarantine", n,
		seg.path)
	s.mu.Lock()
	st.dropBytes(start, n)
	s.collectShipped()
	s.mu.Unlock()
	s.deleteDead()
}

// loseSegment drops the unshipped bytes of a segment whose file somebody deleted, and logs that they are lost. It
// returns false if the spool itself deleted the file, because all of it was shipped or moved.
func (s *Spool) loseSegment(seg *segment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.segments[seg]; !ok {
		return false
	}
	n := int64(0)
	for st := range seg.streams {
		for _, sp := range slices.Clone(st.spans) {
			if sp.segment == seg {
				st.dropBytes(sp.start, sp.n)
				n += sp.n
			}
		}
	}
	if seg == s.active {
		s.sealActive()
	}
	s.collectShipped()
	s.metrics.damaged.Inc()
	s.log.Errorf("spool: %s was deleted: %d bytes of data that were not stored yet are lost", seg.path, n)
	return true
}

// walk iterates over the blocks of one stream in one segment.
type walk struct {
	segment    *segment
	stream     *Stream
	file       file
	window     *window
	nextRecord int64 // of the next record
	lastRecord int64 // of the last one
	passedEnd  int64 // end of the last block returned
	found      []block
}

// openWalk opens a segment to read the blocks of a stream, from the record at the file offset at. If somebody deleted
// the segment, its data is lost and the error wraps errDamaged; if the spool deleted it, the error is fs.ErrNotExist.
func (s *Spool) openWalk(seg *segment, st *Stream, at int64) (*walk, error) {
	f, err := s.disk.open(seg.path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) && s.loseSegment(seg) {
		return nil, fmt.Errorf("open %s: it was deleted: %w", seg.path, errDamaged)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	size := seg.size
	s.mu.Unlock()
	return &walk{segment: seg, stream: st, file: f, window: newWindow(f, size), nextRecord: at}, nil
}

// nextBlock returns the stream's next block. The error is io.EOF after the last one.
func (w *walk) nextBlock() (next block, err error) {
	for len(w.found) == 0 {
		if behind, ok := w.segment.skip[w.nextRecord]; ok { // a part without readable records
			w.nextRecord = behind
		}
		if w.nextRecord >= w.window.size {
			return block{}, io.EOF
		}
		rec, err := w.window.readRecord(w.nextRecord)
		if errors.Is(err, errDamaged) { // since it was written: what is readable behind it counts, as when it is loaded
			if w.nextRecord, err = w.window.findRecord(w.nextRecord + 1); err == nil {
				continue
			}
		}
		if err != nil {
			return block{}, err
		}
		for b := range rec.blocks() {
			if b.streamID == w.stream.id && string(b.key) == w.stream.key {
				b.key = nil // its memory belongs to the window
				w.found = append(w.found, b)
			}
		}
		w.lastRecord, w.nextRecord = rec.at, rec.end
	}
	next, w.found = w.found[0], w.found[1:]
	w.passedEnd = next.start + next.n
	return next, nil
}
