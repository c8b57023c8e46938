package logs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
)

// file is one generation of a log: one inode, from its creation to its end. doc.go draws its states.
type file struct {
	seenFile // where and how the last scan saw it
	state    fileState
	stream   *stream
	prefix   prefix
	tail     tail // of a file that is no dump
	// sizeIsExact says that size comes from a scan or, for a dump, from the state file. Otherwise the file has at
	// least size bytes.
	sizeIsExact bool
	// read is the number of its bytes that are in the stream already. It is not updated while the stream reads from
	// this file: see stream.consumed.
	read int64
	// ownBytes is how many of the file's bytes belong to the stream, if the rest belongs to another node. 0: all do.
	ownBytes int64
	// unstoredSince is when the first unstored byte was seen; zero: all are stored. lastGrowth is when the file was
	// last seen to have grown, or first seen.
	unstoredSince, lastGrowth time.Time
	// linesEnd is where its last whole line ended when it had linesSize bytes; known only if lines are redacted.
	linesEnd, linesSize int64
	replaced            bool      // a scan found other bytes under its inode, and no copy of it
	beganByOverwriting  bool      // it began by overwriting the file before it
	lastScan            int       // the number (scans.number) of the last scan that found it
	retryAt             time.Time // when an unreadable file is tried again
	// forbidden says that the collector had no right to read the file when it last tried. Nobody waits for its bytes.
	forbidden bool
}

// lastWritten is when the file was last written to. A time that is yet to come, of a clock that was set or of a program
// that sets times, says nothing: then it is when the file was seen to have grown.
func (f *file) lastWritten(now time.Time) time.Time {
	at := time.Unix(0, f.changed)
	switch {
	case !at.After(now):
		return at
	case f.lastGrowth.IsZero():
		return now
	}
	return f.lastGrowth
}

// updateSeen takes name, size and time from a scan.
func (f *file) updateSeen(now time.Time, seen seenFile) {
	if seen.size > f.size {
		f.lastGrowth = now
		if f.unstoredSince.IsZero() {
			f.unstoredSince = now
		}
	}
	f.seenFile, f.sizeIsExact = seen, true
}

// foundSame is the transition of a file that a scan found to be the same as before. If an unreadable file has grown, it
// may be readable again, and a forbidden one was read to tell that it is the same; at the end there is no later try.
func (f *file) foundSame(now time.Time, seen seenFile) {
	if seen.size > f.size || f.forbidden || !now.Before(f.retryAt) || f.stream.tree.scans.draining {
		f.handle(fileDue)
	} else {
		f.handle(fileSeen)
	}
	f.forbidden, f.replaced = false, false
	f.updateSeen(now, seen)
}

// readFailed is the transition of a file that cannot be read.
func (f *file) readFailed(now time.Time, err error) {
	f.handle(fileFailed)
	f.forbidden = errors.Is(err, fs.ErrPermission)
	f.retryAt = now.Add(retryTime)
}

// knownEnd returns the number of the file's bytes that belong to the stream, as far as they are known.
func (f *file) knownEnd() int64 {
	if f.ownBytes > 0 {
		return min(f.ownBytes, f.size)
	}
	return f.size
}

// unstoredBytes returns how many of the file's bytes are not stored, as far as they are known: also those that belong
// to another node's stream.
func (f *file) unstoredBytes() int64 { return max(0, f.size-f.stream.storedBytesOf(f)) }

// isSame says whether a file that a scan found with f's inode is still f, and not another file or the truncated f: it
// is not shorter, begins with the same bytes and has the same ones where f's end was. If it is, isSame also brings up
// to date what f knows of its bytes: prefix (while that is short), tail and linesEnd. Fields that a scan sets, such as
// size, stay.
func (f *file) isSame(t *tree, seen seenFile) (same bool, err error) {
	if seen.size < f.size || seen.size < f.prefix.n {
		return false, nil // logs only grow
	}
	unchanged := seen.size == f.size && seen.changed == f.changed && !f.forbidden && f.state != moved
	if unchanged && (t.tailer.opts.Redact == nil || f.linesSize == f.size) { // and linesEnd is known if it is needed
		return true, nil // the usual case costs no system call
	}
	if f.prefix.n == 0 && seen.size == 0 {
		return true, nil // it was empty and still is
	}
	opened, _, err := t.openSeen(seen)
	if err != nil {
		return false, err
	}
	defer opened.Close()
	start, err := readStart(opened)
	// Of a log that was never read, and of a dump, which has other bytes each time, only place and inode tell.
	byPlace := f.isAt(seen) && f.size > 0 && (f.prefix.n == 0 || (f.forbidden && isDump(f.path)))
	if err != nil || (!byPlace && !f.prefix.isStartOf(start)) {
		return false, err
	}
	if same, err := f.tail.isIn(opened); !same || err != nil {
		return false, err
	}
	if f.tail.isBlank() && seen.changed != f.changed {
		return false, nil // its room is made in advance: what is written next stands before its end
	}
	if f.prefix.n < maxPrefix {
		f.prefix = prefixOf(start)
	}
	return true, f.findEnds(t, opened, seen.size)
}

// findEnds reads what the file's first size bytes end with and, if lines are redacted, where the last whole line ends.
func (f *file) findEnds(t *tree, opened io.ReaderAt, size int64) (err error) {
	if !isDump(f.path) {
		f.tail, err = tailOf(opened, max(0, size-footer))
		if err == nil && f.tail.isBlank() { // of a log that begins with a hole, its last bytes are all that tells it
			f.tail, err = tailOf(opened, size)
		}
		if err != nil {
			return err
		}
	}
	if t.tailer.opts.Redact == nil {
		return nil
	}
	if f.linesEnd > size {
		f.linesEnd = 0
	}
	f.linesEnd, err = redact.LastLineEnd(opened, f.linesEnd, size)
	f.linesSize = size
	return err
}

// lineWait is how long a line that is to be redacted waits for its end after something was written to its log.
const lineWait = time.Minute

// isFresh says whether the file's last line may get more bytes soon: it was written lately, by its time or because it
// was seen to grow. Its time may be that of a share, whose clock is another.
func (f *file) isFresh() bool {
	return time.Since(time.Unix(0, f.changed)).Abs() < lineWait || time.Since(f.lastGrowth) < lineWait
}

// fileState is the state of one file.
type fileState uint8

const (
	fresh      fileState = iota // a scan has just found it; its first bytes are not read yet
	restored                    // it is in the state file; no scan has seen it since the start
	following                   // the last scan saw it, and it could be read
	moved                       // it is no longer where the last scan saw it; the next scan finds it
	unreadable                  // it exists, but cannot be opened; it is tried again later
	finished                    // nothing more is read from it
)

// fileEvent is an event of a file.
type fileEvent uint8

const (
	fileSeen     fileEvent = iota // a scan found it, and it is the same file
	fileDue                       // a scan found it, and it has grown or is to be tried again
	fileMoved                     // another file, or none, was opened under its name
	fileFailed                    // it could not be read
	fileFinished                  // it was removed, replaced, or given to another node
)

// handle changes the file's state after an event, as the table in doc.go says. No other function changes it.
func (f *file) handle(e fileEvent) {
	switch {
	case f.state == finished || e == fileFinished:
		f.state = finished
	case e == fileMoved:
		f.state = moved
	case e == fileFailed || (e == fileSeen && f.state == unreadable):
		f.state = unreadable
	default:
		f.state = following
	}
}

// fileID does not change when a file is renamed. File systems give the inode of a removed file to a new one, so a
// fileID identifies a file only together with its prefix.
type fileID struct{ dev, ino uint64 }

func idOf(info fs.FileInfo) fileID {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fileID{uint64(s.Dev), s.Ino}
	}
	return fileID{}
}

const (
	// maxPrefix is the number of first bytes that distinguish a file from another with the same inode.
	maxPrefix = 1024
	// copyPrefix is the minimum number of equal first bytes of a copy: about a line.
	copyPrefix = 32
	// footer is how many last bytes of a log may be overwritten, as programs do that keep an array of JSON closed or a
	// last line up to date: all of it would be stored again each time.
	footer = 256
)

// prefix is a hash of a file's first n bytes; logs only grow, so it stays the same as long as the file is the same.
type prefix struct {
	n   int64
	sum uint64
}

func readStart(f io.ReaderAt) ([]byte, error) { return readAt(f, 0, maxPrefix) }

func readAt(f io.ReaderAt, at, n int64) ([]byte, error) {
	data := make([]byte, n)
	read, err := f.ReadAt(data, at)
	if err == io.EOF {
		err = nil
	}
	return data[:read], err
}

func prefixOf(start []byte) prefix {
	return prefix{n: int64(len(start)), sum: hashOf(fnvStart, start)}
}

// isStartOf says whether a file that starts with these bytes has the prefix.
func (p prefix) isStartOf(start []byte) bool {
	return int64(len(start)) >= p.n && prefixOf(start[:p.n]) == p
}

// tail is a hash of the bytes before end, at most maxPrefix: those that a look saw last, but for a footer. It tells a
// log that was truncated and written again with the same first bytes, as programs do that begin with a long banner.
type tail struct {
	end int64 // 0: nothing is known
	sum uint64
}

func tailOf(f io.ReaderAt, end int64) (tail, error) {
	n := min(end, maxPrefix)
	last, err := readAt(f, end-n, n)
	return tail{end: end, sum: hashOf(fnvStart, last)}, err
}

// isIn says whether a file still has the tail.
func (t tail) isIn(f io.ReaderAt) (bool, error) {
	if t.end == 0 {
		return true, nil
	}
	now, err := tailOf(f, t.end)
	return now == t, err
}

// isBlank says whether the bytes are all zero.
func (t tail) isBlank() bool {
	return t.end > 0 && t.sum == hashOf(fnvStart, make([]byte, min(t.end, maxPrefix)))
}

// readUnchanged is readStart of a file that still has both; otherwise it returns errChanged.
func readUnchanged(f io.ReaderAt, p prefix, t tail) (start []byte, err error) {
	if start, err = readStart(f); err != nil {
		return nil, err
	}
	same, err := t.isIn(f)
	if err == nil && (!same || p.n > 0 && !p.isStartOf(start)) {
		err = errChanged
	}
	return start, err
}

// errChanged says that a name no longer belongs to the file that the last scan saw.
var errChanged = errors.New("the log was replaced since the last scan")

// isElsewhere says whether opening a log failed because it was moved since the last scan.
func isElsewhere(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errChanged) }

// openUnchanged opens a log below root, which must still be the regular file with this id: otherwise the error is
// errChanged. It never leaves root by a symbolic link, and never blocks as opening a FIFO would.
func openUnchanged(root *os.Root, name string, id fileID) (*os.File, fs.FileInfo, error) {
	f, info, err := regular.Open(root, name)
	switch {
	case errors.Is(err, regular.ErrNotRegular):
		return nil, nil, errChanged
	case err == nil && idOf(info) != id:
		_ = f.Close()
		return nil, nil, errChanged
	}
	return f, info, err
}
