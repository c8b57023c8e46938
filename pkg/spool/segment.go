package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// segment is one file of records. Its fields are guarded by the spool's mu.
type segment struct {
	path   string
	size   int64 // bytes of whole records, and before them the magic
	synced int64 // bytes that are surely on disk
	live   int64 // bytes of extents that are not shipped
	file   file  // nil once nothing is written to it any more
	sealed bool  // nothing will be appended
	// damaged segments are set aside, not deleted. skip tells where a walk goes on behind bytes that are no record.
	damaged bool
	stuck   bool // was compacted, as far as it went
	skip    map[int64]int64
	streams map[*Stream]struct{} // that have pieces in it
	ended   []uint64             // generations of which it held the last pieces
}

const (
	segmentSuffix = ".seg"
	quarantineDir = "quarantine"
)

func segmentName(sequence uint64) string { return fmt.Sprintf("%020d%s", sequence, segmentSuffix) }

func parseSegmentName(name string) (sequence uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	sequence, err := strconv.ParseUint(digits, 10, 64)
	return sequence, ok && err == nil && segmentName(sequence) == name
}

// segmentHead is the bytes before the first record.
const segmentHead = int64(len(segmentMagic))

// add notes that the stream has pieces in the segment.
func (g *segment) add(st *Stream) {
	if _, ok := g.streams[st]; !ok {
		g.streams[st] = struct{}{}
		st.segments++
	}
}

// newSegment begins a segment. The folder's entry is on disk before anything in the segment counts.
func (s *Spool) newSegment() (*segment, error) {
	path := filepath.Join(s.dir, segmentName(s.sequence))
	f, err := s.disk.create(path)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	s.sequence++
	if _, err = f.WriteAt([]byte(segmentMagic), 0); err == nil {
		err = s.disk.syncDir(s.dir)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("create segment: %w", err), f.Close())
		if s.disk.remove(path) != nil {
			s.dead = append(s.dead, &segment{path: path}) // drop tries again
		}
		return nil, err
	}
	seg := &segment{path: path, size: segmentHead, file: f, streams: make(map[*Stream]struct{})}
	s.segments[seg] = struct{}{}
	s.used += seg.size
	return seg, nil
}

// seal ends the active segment: the next batch begins a new one.
func (s *Spool) seal() {
	seg := s.active
	s.active = nil
	seg.sealed = true
	if seg.synced == seg.size {
		s.report("close segment", seg.closeFile())
	}
}

func (g *segment) closeFile() error {
	if g.file == nil {
		return nil
	}
	err := g.file.Close()
	g.file = nil
	return err
}

// collect finds the segments of which nothing is left to ship, for drop. An active one is sealed for it: a spool at rest is empty.
func (s *Spool) collect() {
	for seg := range s.segments {
		if seg.live > 0 || seg.synced < seg.size {
			continue
		}
		if seg == s.active {
			s.seal()
		}
		delete(s.segments, seg)
		s.dead = append(s.dead, seg)
		for st := range seg.streams {
			if st.segments--; st.segments == 0 {
				seg.ended = append(seg.ended, st.rest())
			}
		}
	}
}

// drop deletes dead segments, or sets them aside if they were damaged. Those it can't delete are dropped again later.
func (s *Spool) drop() {
	s.mu.Lock()
	dead := s.dead
	s.dead = nil
	var moved []saved
	for _, seg := range dead {
		for st := range seg.streams {
			if st.segments > 0 && st.anchored {
				moved = append(moved, st.place())
			}
		}
	}
	s.mu.Unlock()
	if len(dead) == 0 {
		return
	}
	// Behind an anchor there must be no piece missing that was shipped: it would be taken for lost.
	err := s.anchors.save(moved)
	kept := dead
	if err == nil {
		kept = nil
		for _, seg := range dead {
			if failed := s.discard(seg); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
				err = failed
				kept = append(kept, seg)
			}
		}
		// A segment that came back after a power loss would be shipped twice.
		s.report("delete segments", s.disk.syncDir(s.dir))
	}
	s.report("delete segments", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = append(s.dead, kept...)
	for _, seg := range dead {
		if !slices.Contains(kept, seg) {
			s.used -= seg.size
			s.anchors.forget(seg.ended)
		}
	}
}

func (s *Spool) discard(seg *segment) error {
	if !seg.damaged {
		return s.disk.remove(seg.path)
	}
	return s.quarantine(seg.path)
}

// quarantine sets a file aside, and deletes the oldest of those set aside before if they are too many.
func (s *Spool) quarantine(path string) error {
	dir := filepath.Join(s.dir, quarantineDir)
	if err := s.disk.rename(path, filepath.Join(dir, filepath.Base(path))); err != nil {
		return err
	}
	files, err := s.disk.list(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return strings.Compare(b.Name(), a.Name()) })
	var total int64
	for i, f := range files {
		if total += f.Size(); total > quarantineBytes && i > 0 {
			s.report("trim quarantine", s.disk.remove(filepath.Join(dir, f.Name())))
		}
	}
	return nil
}

// report logs an error that nobody else hears of.
func (s *Spool) report(what string, err error) {
	if err != nil {
		s.metrics.diskErrors.Inc()
		s.log.WithError(err).Warn("spool: " + what)
	}
}
