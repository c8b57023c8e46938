package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// load reads and checks every record of every segment that an earlier process left, and continues each stream after
// what was shipped of it by the saved positions.
func (s *Spool) load() error {
	if err := s.positions.load(); err != nil {
		return err
	}
	found, err := s.loadSegments()
	if err != nil {
		return err
	}
	stale := maps.Clone(s.positions.live) // of streams that have nothing on disk
	for key, st := range s.streams {
		if st.segments == 0 { // only a torn batch named it
			delete(s.streams, key)
			continue
		}
		st.orderSpans()
		if saved, ok := s.positions.live[st.id]; ok {
			delete(stale, st.id)
			st.restorePosition(saved.position)
		}
		st.nextOffset += restartGap // no line from now on gets the offset of one that was damaged
	}
	for id := range stale {
		s.positions.freeSlot(id)
	}
	s.collectShipped()
	s.deleteDead()
	if found > 0 {
		s.log.Infof("spool: %d segments with %d bytes of events are left from before", len(s.segments), s.used)
	}
	return nil
}

// restorePosition sets how far the stream was shipped before the restart: before the position's mapping all is stored
// or lost, and up to tried it may be stored.
func (st *Stream) restorePosition(p position) {
	st.nextOffset = max(st.nextOffset, p.mapping.local) // the bytes before it may have been deleted
	if st.shipped > max(p.mapping.local, p.tried) {
		return // there is a gap behind the position and its chunk: only the store knows where the stream goes on
	}
	st.mapping, st.mapped = p.mapping, true
	if p.tried > p.mapping.local {
		st.tried = []int64{p.tried}
	}
	st.releaseBefore(p.mapping.local)
}

// loadSegments loads all segments in the order of writing. found counts all files, also those that could not be read.
func (s *Spool) loadSegments() (found int, err error) {
	files, err := s.disk.listFiles(s.dir)
	if err != nil {
		return 0, fmt.Errorf("list spool: %w", err)
	}
	files = slices.DeleteFunc(files, func(f fs.FileInfo) bool {
		_, ok := parseSegmentName(f.Name())
		return !ok
	})
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) }) // of one length
	for _, f := range files {
		sequence, _ := parseSegmentName(f.Name())
		s.sequence = max(s.sequence, sequence+1)
		path := filepath.Join(s.dir, f.Name())
		if err := s.loadSegment(path, f.Size()); err != nil {
			// One unreadable file must not keep the spool from accepting new batches.
			s.metrics.damaged.Inc()
			s.log.WithError(err).Errorf("spool: %s cannot be read and is moved to quarantine", path)
			s.logError("set segment aside", s.quarantine(path))
		}
	}
	return len(files), nil
}

// loadSegment reads one segment of size bytes and adds its good blocks to their streams. It changes the file only to
// cut off the bytes after the last complete record: they are from a batch that was never answered. The file of a
// damaged segment goes to quarantine later, when what is good in it was shipped.
func (s *Spool) loadSegment(path string, size int64) (err error) {
	f, err := s.disk.open(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	seg := &segment{path: path, sealed: true, skip: make(map[int64]int64), streams: make(map[*Stream]struct{})}
	l := loader{spool: s, segment: seg, window: newWindow(f, size), buf: make([]byte, writeBytes)}
	end, err := l.addRecords()
	if err != nil {
		return err
	}
	if end < size {
		s.metrics.torn.Inc()
		s.log.Warnf("spool: %s ends within a batch that was not accepted yet; its %d bytes are moved to %s", path,
			size-end, quarantineDir)
		if err := s.cutTail(f, path, end, size); err != nil {
			s.logError("cut segment", err)
			end = size // its bytes still take room
		}
	}
	if size == 0 { // a power loss may do that, or a kill between making the file and writing its head
		s.log.Warnf("spool: %s is empty: if the machine lost its power, the batches that were in it are lost", path)
	}
	seg.size, seg.synced = end, end
	s.segments[seg] = struct{}{}
	s.used += seg.size
	for _, e := range l.spans {
		e.stream.restoreSpan(e.streamID, e.span)
	}
	if l.foreign != nil {
		seg.damaged = true // so the file is set aside instead of deleted
		s.log.WithError(l.foreign).Errorf(
			"spool: %s contains data that no collector of this cluster writes: check who can write to --spool-dir; "+
				"this data is not stored, and the file is moved to %s", path, quarantineDir)
	} else if seg.damaged {
		s.metrics.damaged.Inc()
		s.log.Errorf("spool: %s is damaged: check the disk; readable events are stored, then the file is moved to %s",
			path, quarantineDir)
	}
	return nil
}

// cutTail copies the bytes of a segment from end to size into a file in quarantine, at most quarantineBytes, and then
// cuts them off. Most likely they are a batch that was never answered, but they may be a record with a damaged header.
// f is the segment open to read. After an error the segment is as long as before; the next start tries again.
func (s *Spool) cutTail(f file, path string, end, size int64) error {
	tail := make([]byte, min(size-end, quarantineBytes))
	if _, err := f.ReadAt(tail, end); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	aside := path + ".tail" // one may be left of an earlier try
	if err := s.disk.remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t, err := s.disk.open(aside, newFile)
	if err != nil {
		return err
	}
	_, err = t.WriteAt(tail, 0)
	if err = errors.Join(err, t.Close()); err == nil {
		err = s.quarantine(aside)
	}
	if err != nil {
		return err
	}
	segment, err := s.disk.open(path, os.O_RDWR)
	if err != nil {
		return err
	}
	if err = segment.Truncate(end); err == nil {
		s.logError("sync segment", segment.Sync()) // it is cut, though after a power loss it may be as long as before
	}
	s.logError("close segment", segment.Close())
	return err
}

// restoreSpan adds a span that was found on disk; orderSpans puts all of them in order.
func (st *Stream) restoreSpan(streamID uint64, sp span) {
	if st.segments == 0 {
		st.id = streamID
	}
	if streamID != st.id {
		// A key gets a new ID only when everything of the previous one is shipped.
		st.id, st.spans = streamID, nil
	}
	sp.segment.addStream(st)
	st.spans = append(st.spans, sp)
}

// orderSpans puts the spans that were found on disk in the order of their offsets, and counts their bytes as unshipped.
// Blocks that were being moved (see compact) exist twice; the later ones count.
func (st *Stream) orderSpans() {
	found := st.spans
	st.spans = nil
	slices.SortStableFunc(found, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	for i, sp := range found {
		if i+1 < len(found) && found[i+1].start < sp.end() {
			continue // the same block follows, where it was moved to
		}
		sp.segment.liveBytes += sp.n
		st.addSpan(sp)
	}
	if n := len(found); n > 0 {
		st.nextOffset = found[n-1].end()
	}
}

// loader walks over one segment.
type loader struct {
	spool   *Spool
	segment *segment
	window  *window
	buf     []byte
	spans   []loadedSpan
	foreign error // of a stream that Options.Check refused
}

type loadedSpan struct {
	stream   *Stream
	streamID uint64
	span     span
}

// addRecords adds the good blocks of all records of the segment to l.spans, and returns where the last complete record
// ends. Damage in the middle of the file is skipped and noted in the segment. The error is that of reading the file.
func (l *loader) addRecords() (end int64, err error) {
	at := segmentHead
	if l.window.size < at {
		return 0, nil
	}
	if magic, err := l.window.readBytes(0, len(segmentMagic)); err != nil {
		return 0, err
	} else if string(magic) != segmentMagic {
		l.segment.damaged = true
	}
	for at < l.window.size {
		rec, err := l.window.readRecord(at)
		if errors.Is(err, errDamaged) {
			next, err := l.window.findRecord(at + 1)
			if err != nil {
				return 0, err
			}
			if next == l.window.size { // no record follows: the last one was cut off
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
		kept := len(l.spans)
		intact, err := l.addBlocks(rec)
		if err != nil {
			return 0, err
		}
		if !intact && rec.end == l.window.size { // the last record lacks some of its data, so its batch does not count
			l.spans = l.spans[:kept]
			return at, nil
		}
		l.segment.damaged = l.segment.damaged || !intact
		at = rec.end
	}
	return at, nil
}

// addBlocks adds the good blocks of a record to l.spans. intact is false if a block's data is damaged. Blocks of
// streams that no collector of this cluster writes are left out, and l.foreign says why.
func (l *loader) addBlocks(rec record) (intact bool, err error) {
	intact = true
	// not after now, even if the clock was set back meanwhile
	arrived := min(max(rec.arrived, 1), l.spool.opened.UnixNano())
	// The record's table of blocks is in the window's memory. It stays valid in the loop, which reads the blocks' data
	// from the file and not through the window.
	for b := range rec.blocks() {
		sum, err := checksumAt(l.window.file, b.dataAt, b.n, l.buf)
		if err != nil {
			return false, err
		}
		if sum != b.checksum {
			intact = false
			continue
		}
		key := string(b.key)
		st := l.spool.streams[key]
		if check := l.spool.opts.Check; check != nil && st == nil { // it is not known to be good yet
			if err := check(key); err != nil {
				l.spool.metrics.foreign.Inc()
				l.foreign = err
				continue
			}
		}
		if st == nil { // also beyond maxStreams: beside those that waited, deleted segments may be there again
			st = l.spool.makeStream(key)
		}
		l.spans = append(l.spans, loadedSpan{st, b.streamID,
			span{segment: l.segment, at: rec.at, last: rec.at, start: b.start, n: b.n, arrived: arrived}})
	}
	return intact, nil
}
