package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// segment is one file of records. Its fields are guarded by the spool's mu.
type segment struct {
	path      string
	size      int64 // bytes of the magic and of complete records
	synced    int64 // bytes that are certainly on disk
	liveBytes int64 // of spans, which are unshipped, and of records that are not durable yet: it stays for these
	file      file  // nil when nothing more is written to it
	sealed    bool  // nothing more is appended
	// damaged segments are set aside instead of deleted. skip maps a file offset without a record to the offset of the
	// next record.
	damaged      bool
	skip         map[int64]int64
	compactTried bool                 // compaction was tried
	streams      map[*Stream]struct{} // that have blocks in it
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

func (g *segment) addStream(st *Stream) {
	if _, ok := g.streams[st]; !ok {
		g.streams[st] = struct{}{}
		st.segments++
	}
}

// newSegment creates the file of a new segment and counts it. The file's name is synced to disk before anything in the
// segment counts as durable.
func (s *Spool) newSegment() (*segment, error) {
	if err := s.keepFolder(); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	path := filepath.Join(s.dir, segmentName(s.sequence))
	f, err := s.disk.open(path, newFile)
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
			s.dead = append(s.dead, &segment{path: path}) // deleteDead tries again
		}
		return nil, err
	}
	seg := &segment{path: path, size: segmentHead, file: f, streams: make(map[*Stream]struct{})}
	s.segments[seg] = struct{}{}
	s.used += seg.size
	return seg, nil
}

// sealActive ends the active segment. The next batch begins a new one. If not all of it is synced yet, the commit that
// syncs the rest closes its file.
func (s *Spool) sealActive() {
	seg := s.active
	s.active = nil
	seg.sealed = true
	if seg.synced == seg.size {
		s.logError("close segment", seg.closeFile())
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

// collectShipped moves completely shipped segments from s.segments to s.dead, for deleteDead. If all of the active
// segment is shipped, it is sealed and moved too, so an idle spool is empty. s.mu is held.
func (s *Spool) collectShipped() {
	for seg := range s.segments {
		if seg.liveBytes > 0 || seg.synced < seg.size {
			continue
		}
		if seg == s.active {
			s.sealActive()
		}
		delete(s.segments, seg)
		s.dead = append(s.dead, seg)
		for st := range seg.streams {
			st.segments--
		}
	}
}

// deleteDead deletes dead segments, or sets them aside if they are damaged. Segments that cannot be deleted stay in the
// list until the next call.
func (s *Spool) deleteDead() {
	s.mu.Lock()
	dead := s.dead
	s.dead = nil
	var moved []position // of the streams whose data went on after a dead segment
	for _, seg := range dead {
		for st := range seg.streams {
			if st.segments > 0 && st.mapped { // it is known where they are in the store
				moved = append(moved, st.nextPosition())
			}
		}
	}
	s.mu.Unlock()
	if len(dead) == 0 {
		return
	}
	// Positions first: after a crash, blocks that a saved position expects and that are not on disk would count as
	// lost.
	err := s.positions.save(moved)
	kept := dead
	if err == nil {
		kept = nil
		for _, seg := range dead {
			remove := s.disk.remove
			if seg.damaged {
				remove = s.quarantine
			}
			if failed := remove(seg.path); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
				err = failed
				kept = append(kept, seg)
			}
		}
		// A segment that reappears after a power loss would be shipped twice.
		s.logError("delete segments", s.disk.syncDir(s.dir))
	}
	s.logError("delete segments", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = append(s.dead, kept...)
	for _, seg := range dead {
		if slices.Contains(kept, seg) {
			continue
		}
		s.used -= seg.size
		for st := range seg.streams {
			if st.segments == 0 {
				s.positions.freeSlot(st.id)
			}
		}
	}
}

// quarantine moves a file into the folder of damaged files. It then deletes the files with the first names there, which
// are the oldest, until the rest has at most quarantineBytes; one file always stays.
func (s *Spool) quarantine(path string) error {
	dir := filepath.Join(s.dir, quarantineDir)
	_ = os.Mkdir(dir, 0o700) // it may have been deleted
	if err := s.disk.rename(path, filepath.Join(dir, filepath.Base(path))); err != nil {
		return err
	}
	files, err := s.disk.listFiles(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return strings.Compare(b.Name(), a.Name()) })
	var total int64
	for i, f := range files {
		if total += f.Size(); total > quarantineBytes && i > 0 {
			s.logError("trim quarantine", s.disk.remove(filepath.Join(dir, f.Name())))
		}
	}
	return nil
}
