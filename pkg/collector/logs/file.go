package logs

import "time"

// file is one generation of a log: one inode, from its creation to its end. Its states are in state.go.
type file struct {
	state  fileState
	stream *stream
	id     fileID
	prefix prefix
	// dir is the logs folder that it is in now, name its path below that folder.
	dir, name string
	// size and changed (modification time, Unix ns) are what the last scan saw.
	size, changed int64
	// sized says that size is exact, from a scan or, for a dump, from the state file. Otherwise the file has at least size bytes.
	sized bool
	// read is the number of its bytes that are in the stream already. It is not updated while the stream reads from this file: see
	// stream.consumed.
	read int64
	// limit is the number of the file's bytes that belong to the stream, if the rest belongs to another node. 0 means no limit.
	limit int64
	// oldest is when the first unstored byte was seen. grown is when the file was last seen to have grown, or first seen.
	oldest, grown time.Time
	replaced      bool      // a scan found other bytes under its inode, and no copy of it
	lastScan      int       // the number (tree.scans) of the last scan that found it
	retry         time.Time // when an unreadable file is tried again
}

// update takes name, size and time from a scan.
func (f *file) update(now time.Time, seen seenFile) {
	if seen.size > f.size {
		f.grown = now
		if f.oldest.IsZero() {
			f.oldest = now
		}
	}
	f.dir, f.name, f.size, f.changed, f.sized = seen.dir, seen.path, seen.size, seen.changed, true
}

// found is the transition of a file that a scan found to be the same as before. If an unreadable file has grown, it may be readable again.
func (f *file) found(now time.Time, seen seenFile) {
	if seen.size > f.size || !now.Before(f.retry) {
		f.on(fileDue)
	} else {
		f.on(fileSeen)
	}
	f.replaced = false
	f.update(now, seen)
}

// failed is the transition of a file that cannot be read.
func (f *file) failed(now time.Time) {
	f.on(fileFailed)
	f.retry = now.Add(retryTime)
}

// end returns the number of the file's bytes that belong to the stream, as far as they are known.
func (f *file) end() int64 {
	if f.limit > 0 {
		return min(f.limit, f.size)
	}
	return f.size
}

// full returns the file's path below Ray's temporary folder.
func (f *file) full() string { return f.dir + "/" + f.name }

// isSame says whether a file with f's inode is f: it is not shorter and begins with the same bytes. It extends f's prefix while that
// is short.
func (f *file) isSame(t *tree, seen seenFile) (bool, error) {
	if seen.size < f.size || seen.size < f.prefix.n {
		return false, nil // logs only grow
	}
	if seen.size == f.size && seen.changed == f.changed {
		return true, nil // the usual case costs no system call
	}
	if f.prefix.n == 0 && seen.size == 0 {
		return true, nil
	}
	opened, _, err := t.openSeen(seen)
	if err != nil {
		return false, err
	}
	defer opened.Close()
	start, err := readStart(opened)
	if err != nil || !f.prefix.begins(start) {
		return false, err
	}
	if f.prefix.n < maxPrefix {
		f.prefix = prefixOf(start)
	}
	return true, nil
}
