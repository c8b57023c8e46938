package logs

import (
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// reconcile compares the files that a walk saw with the files that are followed: it updates, moves, truncates or
// finishes these, and follows the new ones. After an incomplete walk no file counts as missing, because one that it did
// not see may still exist. t.root is open and the tree's lock is held.
func (t *tree) reconcile(now time.Time, files []seenFile) {
	if !t.scans.incomplete {
		t.scans.number++
	}
	seen := t.chooseByID(now, files)
	var unknown, replaced []seenFile // with an inode that no followed file has, and with that of one but other bytes
	for id, s := range seen {
		switch f := t.files[id]; {
		case f == nil:
			unknown = append(unknown, s)
		case !t.updateIfSame(now, f, s):
			replaced = append(replaced, s)
		}
	}
	if unknown = t.finishReplaced(now, replaced, unknown); len(unknown) > 0 {
		t.enterAll(now, unknown, seen)
	}
	if !t.scans.incomplete {
		t.finishMissing(now, seen) // last, because those that others replaced are not lost
	}
}

// chooseByID returns the files that a walk saw by their IDs, with one path for each. If a file has several paths (hard
// links), it keeps the one under which it is followed, or else the first. Dumps that may be overwritten again and paths
// that cannot be stored are left out. The result is t.seen, valid until the next scan.
func (t *tree) chooseByID(now time.Time, files []seenFile) map[fileID]seenFile {
	if t.seen == nil {
		t.seen = make(map[fileID]seenFile, len(files))
	}
	seen := t.seen
	clear(seen)
	for _, s := range files {
		f := t.files[s.id]
		if f != nil {
			f.lastScan = t.scans.number
		}
		if isDump(s.path) {
			if f != nil && f.sizeIsExact {
				s.size, s.changed = f.size, f.changed // as it was when it was first looked at
			} else if !t.scans.draining && now.Sub(time.Unix(0, s.changed)) < dumpRest {
				continue // more dumps may follow the one in the file
			}
		} else if f != nil && s.size < f.size { // it was looked at after the walk saw it, or truncated
			var again walkResult
			if again.statFiles(t.root, []seenFile{s}); len(again.batch) == 1 && again.batch[0].id == s.id {
				s = again.batch[0]
			}
		}
		before, twice := seen[s.id]
		if twice && (f == nil || f.isAt(before)) {
			continue // s is a further path of the file
		}
		if f == nil {
			if err := layout.CheckLogPath(keyPath(s.path)); err != nil {
				if s.size > 0 {
					t.walked.left = fmt.Errorf("a log: %w", err)
				}
				t.reportOnce(s.path, err)
				continue
			}
		}
		seen[s.id] = s
	}
	return seen
}

// finishMissing finishes the files that two scans in a row did not find. One scan can miss a file that is renamed at
// that moment. Files in folders that the collector has no right to read now, and files that the file system could not
// tell of, may still exist: they are kept.
func (t *tree) finishMissing(now time.Time, seen map[fileID]seenFile) {
	for _, f := range t.files {
		switch {
		case f.lastScan == t.scans.number: // this scan found it
		case t.walked.unseen[f.fullPath()], isBelow(t.walked.unseen, f.seenFile):
			f.lastScan = t.scans.number
		case isBelow(t.walked.forbidden, f.seenFile):
			f.readFailed(now, fs.ErrPermission)
			f.lastScan = t.scans.number
		case f.lastScan < t.scans.number-1 || t.scans.draining:
			t.finishFile(f)
		default:
			t.scanSoon()
		}
	}
	for id := range t.copies {
		if _, ok := seen[id]; !ok {
			delete(t.copies, id) // a possible copy is gone: it waits no more
		}
	}
}

// updateIfSame updates the followed file f after a walk saw its inode as s. same is false if the inode belongs to
// another file now, or f was truncated. It is true after an error, because then it is not known.
func (t *tree) updateIfSame(now time.Time, f *file, s seenFile) (same bool) {
	before := f.prefix
	same, err := f.isSame(t, s)
	if before.n < copyPrefix && f.prefix != before {
		t.dirty = true // the state file has a prefix by which the file could hardly be told from others
	}
	switch {
	case isElsewhere(err):
		t.scanSoon() // it was renamed after it was seen
	case err != nil:
		f.updateSeen(now, s)
		t.markUnreadable(f, now, err)
	case same:
		if !f.isAt(s) {
			t.dirty = true
		}
		f.foundSame(now, s)
	default:
		f.forbidden = false // its end is known, or will be after the next scan
		return false
	}
	return true
}

// finishReplaced finishes the followed files whose inodes have other bytes now. replaced has what the walk saw of these
// inodes. Where a copy of the old bytes is among the unknown files, the rest is read from it; where a copy may still
// appear, the file waits for the next scan. If the log was truncated, a new generation of it begins. If the inode was
// given to another file, that is added to the unknown files, which are returned without the copies.
func (t *tree) finishReplaced(now time.Time, replaced, unknown []seenFile) []seenFile {
	slices.SortFunc(replaced, byGeneration)
	for _, s := range replaced {
		f := t.files[s.id]
		copied := t.copyOf(f, unknown) // index of the copy of f's old bytes, -1 if there is none
		if copied < 0 && !f.replaced && !t.scans.draining && s.fullPath() == f.fullPath() && f.prefix.n >= copyPrefix {
			// The next scan may find a copy: this one may have listed the folder before the copy was made, and looked
			// at the log after it was truncated.
			f.replaced = true
			f.handle(fileMoved)
			t.scanSoon()
			continue
		}
		delete(t.files, s.id)
		if copied >= 0 {
			t.readFromCopy(f, now, unknown[copied])
			unknown = slices.Delete(unknown, copied, copied+1)
		} else {
			t.finishFile(f)
		}
		isStillItsLog := s.fullPath() == f.fullPath() || (s.path == f.stream.path && s.dir == t.dir)
		if copied >= 0 || isStillItsLog {
			t.followTruncated(now, s, f, copied >= 0)
		} else {
			if log, isIdle := t.idleAt(s); isIdle && !t.idle.isFile(log.idleFile, s) {
				t.followAgain(log) // as admitCandidates does, which took s for the file that it replaced
			}
			unknown = append(unknown, s)
		}
	}
	return unknown
}

// followTruncated follows a log that was truncated or overwritten in its place, and perhaps renamed since, as a new
// generation. f has what was followed until then, s what the walk saw. isCopied says that f's bytes are in a copy.
func (t *tree) followTruncated(now time.Time, s seenFile, f *file, isCopied bool) {
	t.followNew(now, s, f.stream)
	next := t.files[s.id]
	// A program that does not append goes on at its old place: what the log had is a hole, and not written.
	if start := t.firstWritten(s); start > 0 && start >= f.size {
		next.read = min(start, next.size)
	} else if !isCopied && s.size >= f.size { // else it was truncated
		f.stream.beginOverwritten(now, next)
	}
}

// enterAll follows new files, but for those that may be copies. seen has all files of the walk.
func (t *tree) enterAll(now time.Time, unknown []seenFile, seen map[fileID]seenFile) {
	slices.SortFunc(unknown, byGeneration)
	rotated := t.rotatedStreams(seen, unknown)
	for _, s := range unknown {
		if t.mustWait(now, s) {
			continue
		}
		node := t.nodeOf(s.dir)
		logPath := s.path
		if base, _, ok := splitRotated(s.path); ok && rotated[streamID{node, base}] {
			logPath = base // rotated more than once since the last scan: it was never seen under the log's own name
		}
		stream := t.streamOf(node, logPath)
		replaced := stream.replacedBy(s, seen)
		t.followNew(now, s, stream)
		if replaced != nil && s.size >= replaced.size { // else the log begins anew
			stream.beginOverwritten(now, t.files[s.id])
		}
	}
}

// replacedBy returns the newest file of the stream if a new one took its place, as programs do that write a document
// anew beside it and rename it: the walk that saw the new one did not see it. It is nil if it was rotated.
func (s *stream) replacedBy(next seenFile, seen map[fileID]seenFile) *file {
	if len(s.files) == 0 || next.path != s.path || next.dir != s.tree.dir {
		return nil
	}
	newest := s.files[len(s.files)-1]
	if _, stays := seen[newest.id]; stays || !s.isHome(newest) {
		return nil
	}
	return newest
}

// rotatedStreams returns the streams of known logs that were rotated since the last scan: their newest file no longer
// has the log's own name. A log whose newest file is gone was rotated only if an unknown file has the log's name now.
func (t *tree) rotatedStreams(seen map[fileID]seenFile, unknown []seenFile) map[streamID]bool {
	hasNewFile := make(map[streamID]bool)
	for _, s := range unknown {
		hasNewFile[streamID{t.nodeOf(s.dir), s.path}] = true
	}
	rotated := make(map[streamID]bool)
	for id, stream := range t.streams {
		newest := stream.files[len(stream.files)-1]
		s, ok := seen[newest.id]
		gone := newest.state == finished || !ok
		if gone && hasNewFile[id] || !gone && (s.path != stream.path || s.dir != t.dir) {
			rotated[id] = true
		}
	}
	return rotated
}

// followNew follows a new file as the newest generation of a stream, also if it cannot be read yet.
func (t *tree) followNew(now time.Time, s seenFile, stream *stream) {
	f := &file{lastGrowth: now, lastScan: t.scans.current()}
	f.updateSeen(now, s)
	if age := now.Sub(time.Unix(0, s.changed)); age > 0 && s.size > 0 {
		f.unstoredSince = now.Add(-age) // its bytes were there before this scan; the clock may be set back later
	}
	switch err := t.readFirst(f, s); {
	case err == nil:
		f.handle(fileSeen)
	case isElsewhere(err):
		f.handle(fileMoved)
		t.scanSoon()
	default:
		t.markUnreadable(f, now, err)
	}
	if len(stream.files) > 0 {
		t.log.WithFields(logrus.Fields{"log": stream.path, "file": s.fullPath(),
			"bytes": s.size}).Debug("a log was rotated or truncated: a new generation begins")
	}
	stream.insertFile(len(stream.files), f)
	t.files[s.id] = f
	delete(t.copies, s.id)
	t.dirty = true
}

// readFirst reads the first and the last bytes of a new file, by which later scans recognise it.
func (t *tree) readFirst(f *file, s seenFile) error {
	if s.size == 0 {
		return nil
	}
	opened, info, err := t.openSeen(s)
	if err != nil {
		return err
	}
	defer opened.Close()
	start, err := readStart(opened)
	if err != nil {
		return err
	}
	f.prefix = prefixOf(start)
	f.size = min(f.size, info.Size()) // it may have been truncated after the walk
	return f.findEnds(t, opened, f.size)
}

// finishFile stops following a file that was removed or replaced. Its bytes that are not stored are lost: they are
// counted and a warning names the log. The stream's current file stays in the stream until the stream moves on.
func (t *tree) finishFile(f *file) {
	f.handle(fileFinished)
	removed := t.files[f.id] == f // else it was replaced
	if removed {
		delete(t.files, f.id)
	}
	s := f.stream
	lost := f.unstoredBytes()
	// Before the store is listed, it is not known how much of the current file is stored.
	isKnown := s.state != unlisted || f != s.current
	// Of a log that is overwritten again and again, contents that waited to be stored are left out on purpose.
	isLeftOut := (!removed || f != s.files[len(s.files)-1]) && s.isHeld(f, time.Now())
	if lost > 0 && isKnown && !isLeftOut {
		t.tailer.metrics.lost.Add(float64(lost))
		if log, ok := t.tailer.warnings.lost.Allow(time.Now()); ok {
			log.WithFields(logrus.Fields{"session": t.session,
				"log": f.path}).Warnf("a log was removed before its last %d bytes were stored: they are lost; "+
				"raise RAY_ROTATION_BACKUP_COUNT or lower --push-interval", lost)
		}
	}
	if f != s.current {
		s.dropFile(f)
	}
	t.dirty = true
}

// copyWait is how long a possible copy waits for its original to be truncated.
const copyWait = 2 * time.Minute

// copyOf finds the copy of a truncated log, with the bytes that were not read before; -1: there is none.
func (t *tree) copyOf(f *file, unknown []seenFile) int {
	return slices.IndexFunc(unknown, func(s seenFile) bool {
		return s.dir == f.dir && mayCopy(s.path, f.stream.path) && s.size >= f.stream.storedBytesOf(f) &&
			f.prefix.n >= copyPrefix && t.beginsWith(s, f.prefix)
	})
}

// readFromCopy makes the copy the file that the rest of f is read from.
func (t *tree) readFromCopy(f *file, now time.Time, copied seenFile) {
	t.log.WithFields(logrus.Fields{"log": f.stream.path, "file": copied.fullPath(),
		"bytes": copied.size}).Debug("a log was copied and truncated")
	f.id, f.lastScan = copied.id, t.scans.number
	f.tail = tail{} // lines that were written between the copy and the truncation are in neither
	f.foundSame(now, copied)
	t.files[f.id] = f
	delete(t.copies, f.id)
	t.dirty = true
}

// firstWritten returns where the zeros end that a file begins with: the hole that its file system knows, which ends
// with a block, and those behind it. It is 0 if there are none, or nothing but zeros.
func (t *tree) firstWritten(s seenFile) int64 {
	opened, _, err := t.openSeen(s)
	if err != nil {
		return 0
	}
	defer opened.Close()
	const block = 64 << 10
	hole, err := unix.Seek(int(opened.Fd()), 0, unix.SEEK_DATA)
	if err != nil {
		return 0
	}
	data, err := readAt(opened, hole, block)
	zeros := slices.IndexFunc(data, func(b byte) bool { return b != 0 })
	if err != nil || zeros < 0 {
		return 0
	}
	return hole + int64(zeros)
}

func (t *tree) beginsWith(s seenFile, want prefix) bool {
	opened, _, err := t.openSeen(s)
	if err != nil {
		return false
	}
	defer opened.Close()
	start, err := readStart(opened)
	return err == nil && want.isStartOf(start)
}

// mustWait says whether a new file must wait because it may be a copy of a log, or one that is still written: its bytes
// are in the log already.
func (t *tree) mustWait(now time.Time, s seenFile) bool {
	if t.scans.draining || !t.mayBeCopy(s) {
		return false
	}
	since, waits := t.copies[s.id]
	if !waits {
		t.copies[s.id] = now
		return true
	}
	return now.Sub(since) <= copyWait
}

// mayBeCopy says whether a new file may be the copy of a known log that is about to be truncated: its name is made from
// the log's, and it begins with the same bytes or does not have that many yet.
func (t *tree) mayBeCopy(s seenFile) bool {
	for i := len(s.path) - 1; i > 0 && s.path[i] != '/'; i-- { // s.path[:i] may be the name of the log
		stream := t.streams[streamID{t.node, s.path[:i]}]
		if stream == nil || !mayCopy(s.path, stream.path) {
			continue
		}
		for _, f := range slices.Backward(stream.files) {
			if f.state != finished && f.dir == s.dir && f.prefix.n >= copyPrefix &&
				(s.size < f.prefix.n || t.beginsWith(s, f.prefix)) {
				return true
			}
		}
	}
	return false
}
