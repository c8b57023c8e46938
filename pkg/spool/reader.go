package spool

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
)

// reader reads a range of a stream. It finds the stream's extents by walking over the segments' records, so it takes the memory of one
// window whatever its length.
type reader struct {
	stream   *Stream
	start, n int64 // offsets in the stream
	pos      int64 // read so far
	err      error // that ended reading: the range is no longer all there

	walk  *walk
	entry int64 // where the entry starts that the walk is in
	// The extent being read: from which offset it reaches to which, where that one lies in the file, and its checksum so far. An extent
	// that is not read from its start can't be checked.
	ext     extent
	dataAt  int64
	done    int64
	sum     uint32
	checked bool
}

// Read fails with errDamaged before it has returned the last bytes of a damaged extent.
func (r *reader) Read(p []byte) (int, error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case r.pos >= r.n:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	if r.done >= r.ext.n {
		if err := r.seekExtent(r.start + r.pos); err != nil {
			return 0, fmt.Errorf("read %s: %w", r.stream.whole, err)
		}
	}
	p = p[:min(int64(len(p)), r.ext.n-r.done, r.n-r.pos)]
	if n, err := r.walk.file.ReadAt(p, r.dataAt+r.done); n < len(p) {
		return 0, fmt.Errorf("read %s: %w", r.walk.segment.path, noEOF(err))
	}
	r.sum = crc32.Update(r.sum, castagnoli, p)
	r.done += int64(len(p))
	if r.done == r.ext.n && r.checked && r.sum != r.ext.checksum {
		r.err = fmt.Errorf("read %s: %d bytes: %w", r.walk.segment.path, r.ext.n, errDamaged)
		r.stream.spool.lose(r.stream, r.walk.segment, r.ext.start, r.ext.n)
		return 0, r.err
	}
	r.pos += int64(len(p))
	return len(p), nil
}

// seekExtent finds the extent that holds the offset.
func (r *reader) seekExtent(offset int64) error {
	e, err := r.stream.entryAt(offset)
	if err != nil {
		return err
	}
	// The walk goes on within an entry. Another entry of the segment may lie before the one read last, if one of them was moved there.
	if r.walk == nil || r.walk.segment != e.segment || r.walk.passed > offset || r.entry != e.start && r.walk.read > e.at {
		if err := r.close(); err != nil {
			return err
		}
		if r.walk, err = r.stream.spool.walk(e.segment, r.stream, e.at); errors.Is(err, fs.ErrNotExist) {
			// The segment was compacted just now.
			if e, err = r.stream.entryAt(offset); err == nil {
				r.walk, err = r.stream.spool.walk(e.segment, r.stream, e.at)
			}
		}
		if err != nil {
			return err
		}
	}
	r.entry = e.start
	for {
		ext, at, err := r.walk.next()
		if err != nil {
			return noEOF(err)
		}
		if ext.start <= offset && offset < ext.start+ext.n {
			r.ext, r.dataAt, r.done, r.sum = ext, at, offset-ext.start, 0
			r.checked = r.done == 0
			return nil
		}
	}
}

// Seek as io.Seeker says.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.n
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	if offset != r.pos {
		r.pos = offset
		r.ext = extent{}
		r.done = 0
	}
	return offset, nil
}

func (r *reader) close() error {
	if r.walk == nil {
		return nil
	}
	err := r.walk.file.Close()
	r.walk = nil
	return err
}

func (r *reader) Close() error { return r.close() }

// lose takes what can't be read off a stream.
func (s *Spool) lose(st *Stream, seg *segment, start, n int64) {
	s.metrics.damaged.Inc()
	s.log.WithField("key", st.whole).Errorf("spool: %d bytes of events in %s are damaged and lost; the file is set aside", n, seg.path)
	s.mu.Lock()
	st.remove(start, n)
	s.collect()
	s.mu.Unlock()
	s.drop()
}

// walk goes over the extents of one stream in one segment.
type walk struct {
	segment    *segment
	stream     *Stream
	generation uint64
	file       file
	window     *window
	at         int64 // of the next record
	read       int64 // of the last one
	passed     int64 // end of the last extent returned
	found      []located
}

type located struct {
	extent extent
	at     int64
}

func (s *Spool) walk(seg *segment, st *Stream, at int64) (*walk, error) {
	f, err := s.disk.open(seg.path)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	size, generation := seg.size, st.generation
	s.mu.Unlock()
	return &walk{segment: seg, stream: st, generation: generation, file: f, window: newWindow(f, size), at: at}, nil
}

// next is the stream's next extent and where its data lies; io.EOF behind the last one.
func (w *walk) next() (extent, int64, error) {
	for len(w.found) == 0 {
		if behind, ok := w.segment.skip[w.at]; ok {
			w.at = behind
		}
		if w.at >= w.window.size {
			return extent{}, 0, io.EOF
		}
		rec, err := w.window.record(w.at)
		if err != nil {
			return extent{}, 0, err
		}
		for ext, at := range rec.extents() {
			if ext.generation == w.generation && string(ext.whole) == w.stream.whole {
				ext.whole = nil // the window's
				w.found = append(w.found, located{ext, at})
			}
		}
		w.read, w.at = rec.at, rec.end
	}
	l := w.found[0]
	w.found = w.found[1:]
	w.passed = l.extent.start + l.extent.n
	return l.extent, l.at, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
