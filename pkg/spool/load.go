package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
)

// load reads what an earlier process left: every record of every segment, checked.
func (s *Spool) load() error {
	if err := s.anchors.load(); err != nil {
		return err
	}
	files, err := s.disk.list(s.dir)
	if err != nil {
		return fmt.Errorf("list spool: %w", err)
	}
	type found struct {
		sequence uint64
		fs.FileInfo
	}
	var segments []found
	for _, f := range files {
		if sequence, ok := parseSegmentName(f.Name()); ok {
			segments = append(segments, found{sequence, f})
			s.sequence = max(s.sequence, sequence+1)
		}
	}
	slices.SortFunc(segments, func(a, b found) int { return cmp.Compare(a.sequence, b.sequence) })
	for _, f := range segments {
		path := filepath.Join(s.dir, f.Name())
		if err := s.loadSegment(path, f.Size()); err != nil {
			// A file that can't be read is no reason to refuse all that is still to come.
			s.metrics.damaged.Inc()
			s.log.WithError(err).Errorf("spool: %s can't be read and is set aside", path)
			s.report("set segment aside", s.quarantine(path))
		}
	}
	stale := maps.Clone(s.anchors.live)
	for whole, st := range s.streams {
		if st.segments == 0 { // only a torn batch named it
			delete(s.streams, whole)
			continue
		}
		st.settle()
		if a, ok := s.anchors.live[st.generation]; ok {
			delete(stale, st.generation)
			// What had the offsets before the anchor may have been deleted.
			st.next = max(st.next, a.saved.anchor.from)
			st.anchor, st.anchored = a.saved.anchor, true
			if a.saved.until > a.saved.anchor.from {
				st.attempts = []int64{a.saved.until}
			}
			st.release(a.saved.anchor.from)
		}
		st.next += restartGap
	}
	s.anchors.forget(slices.Collect(maps.Keys(stale)))
	s.collect()
	s.drop()
	if len(segments) > 0 {
		s.log.Infof("spool: %d segments with %d bytes of events wait from before", len(s.segments), s.used)
	}
	return nil
}

// loadSegment indexes one segment. It is changed only by cutting off a torn end: bytes behind the last whole record, of a batch nobody
// was told is kept.
func (s *Spool) loadSegment(path string, size int64) (err error) {
	f, err := s.disk.open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	seg := &segment{path: path, sealed: true, skip: make(map[int64]int64), streams: make(map[*Stream]struct{})}
	l := loader{spool: s, segment: seg, window: newWindow(f, size), buf: make([]byte, writeBytes)}
	end, err := l.run()
	if err != nil {
		return err
	}
	if end < size {
		s.metrics.torn.Inc()
		s.log.Warnf("spool: %s ended within a batch; its %d bytes are moved to %s", path, size-end, quarantineDir)
		if err := s.cutTail(f, path, end, size); err != nil {
			s.report("cut segment", err)
			end = size
		}
	}
	seg.size, seg.synced = end, end
	s.segments[seg] = struct{}{}
	s.used += seg.size
	for _, e := range l.entries {
		e.stream.restore(e.generation, e.entry)
	}
	if seg.damaged {
		s.metrics.damaged.Inc()
		s.log.Errorf("spool: %s is damaged; what can be read is shipped, then the file is set aside in %s", path, quarantineDir)
	}
	return nil
}

// cutTail cuts off what is behind the last whole record. Most likely it is a batch that was never answered; in case it is one whose
// head was damaged it is kept aside.
func (s *Spool) cutTail(f file, path string, end, size int64) error {
	tail := make([]byte, min(size-end, quarantineBytes))
	if _, err := f.ReadAt(tail, end); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	aside := path + ".tail"
	if err := s.disk.remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t, err := s.disk.create(aside)
	if err != nil {
		return err
	}
	_, err = t.WriteAt(tail, 0)
	if err = errors.Join(err, t.Close()); err == nil {
		err = s.quarantine(aside)
	}
	return errors.Join(err, s.disk.truncate(path, end))
}

// restore notes an entry that was found on disk, for settle.
func (st *Stream) restore(generation uint64, e entry) {
	if st.segments == 0 {
		st.generation = generation
	}
	if generation != st.generation {
		// Everything of the generation before was shipped when this one began.
		st.generation, st.entries = generation, nil
	}
	e.segment.add(st)
	st.entries = append(st.entries, e)
}

// settle puts the entries in order. Those that were being moved (compact) are there twice: the later ones count.
func (st *Stream) settle() {
	found := st.entries
	st.entries = nil
	slices.SortStableFunc(found, func(a, b entry) int { return cmp.Compare(a.start, b.start) })
	for i, e := range found {
		if i+1 < len(found) && found[i+1].start < e.end() {
			continue
		}
		e.segment.live += e.n
		st.publish(e)
	}
	if n := len(found); n > 0 {
		st.next = found[n-1].end()
	}
}

// loader walks over one segment.
type loader struct {
	spool   *Spool
	segment *segment
	window  *window
	buf     []byte
	entries []loadedEntry
}

type loadedEntry struct {
	stream     *Stream
	generation uint64
	entry      entry
}

// run collects the good extents and returns where the last whole record ends.
func (l *loader) run() (end int64, err error) {
	at := segmentHead
	if l.window.size < at {
		return 0, nil
	}
	if magic, err := l.window.bytes(0, len(segmentMagic)); err != nil {
		return 0, err
	} else if string(magic) != segmentMagic {
		l.segment.damaged = true
	}
	for at < l.window.size {
		rec, err := l.window.record(at)
		if errors.Is(err, errDamaged) {
			next, err := l.window.find(at + 1)
			if err != nil {
				return 0, err
			}
			if next == l.window.size {
				return at, nil
			}
			l.segment.damaged = true
			l.segment.skip[at] = next
			at = next
			continue
		}
		if err != nil {
			return 0, err
		}
		kept := len(l.entries)
		whole, err := l.record(rec)
		if err != nil {
			return 0, err
		}
		if !whole && rec.end == l.window.size {
			l.entries = l.entries[:kept]
			return at, nil
		}
		l.segment.damaged = l.segment.damaged || !whole
		at = rec.end
	}
	return at, nil
}

// record takes the record's good extents; whole says that all are.
func (l *loader) record(rec record) (whole bool, err error) {
	whole = true
	// The table is the window's, which the data is not read through.
	for ext, at := range rec.extents() {
		sum, err := checksum(l.window.file, at, ext.n, l.buf)
		if err != nil {
			return false, err
		}
		if sum != ext.checksum {
			whole = false
			continue
		}
		st := l.spool.stream(string(ext.whole))
		if st == nil {
			return false, fmt.Errorf("more than %d wholes", maxStreams)
		}
		l.entries = append(l.entries, loadedEntry{st, ext.generation, entry{segment: l.segment, at: rec.at, last: rec.at, start: ext.start, n: ext.n, arrived: rec.arrived}})
	}
	return whole, nil
}
