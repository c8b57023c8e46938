package logs

import (
	"hash/fnv"
	"os"
	"time"
)

// file is one generation of a log: what lies under one inode from its creation to its end.
type file struct {
	id fileID
	// dir and name are where it is now: in which logs folder, and where below it.
	dir, name string
	print     print
	// size and changed are what the last scan saw.
	size    int64
	changed int64 // modification time, Unix ns
	// read is how many of its bytes belong to the whole already. For a whole's current file see whole.consumed.
	read int64
	// limit is where the file's part of the whole ends, though the file goes on: the rest is another node's. 0 is no limit.
	limit int64
	// oldest is when the first byte was seen that is not stored; grown when the file was last seen to have grown, or was first seen.
	oldest, grown time.Time
	missed        bool // the last scan did not find it
	astray        bool // it is no longer where the last scan saw it: the next will tell
	gone          bool // it cannot be read any more
	// unreadable: it exists, but opening it fails. retry is when it is tried again.
	unreadable bool
	retry      time.Time
	whole      *whole
}

// look takes over what a scan saw of the file.
func (f *file) look(now time.Time, seen found) {
	if seen.size > f.size {
		f.grown = now
		if f.oldest.IsZero() {
			f.oldest = now
		}
	}
	f.dir, f.name, f.size, f.changed = seen.dir, seen.path, seen.size, seen.changed
}

// end is where the file's part of the whole ends for now.
func (f *file) end() int64 {
	if f.limit > 0 {
		return min(f.limit, f.size)
	}
	return f.size
}

// full is the file's path below Ray's temporary folder.
func (f *file) full() string { return f.dir + "/" + f.name }

// recognise opens a file that may be f and says whether it is: f's print is the print of its first bytes. The print is extended while
// it is short.
func (f *file) recognise(root *os.Root, seen found) (same bool, err error) {
	if seen.size < f.size || seen.size < f.print.n {
		return false, nil // logs only grow
	}
	if seen.size == f.size && seen.changed == f.changed {
		return true, nil
	}
	if f.print.n == 0 && seen.size == 0 {
		return true, nil
	}
	opened, _, err := open(root, seen.full(), seen.id)
	if err != nil {
		return false, err
	}
	defer opened.Close()
	if f.print.n > 0 {
		was, err := printOf(opened, f.print.n)
		if err != nil || was != f.print {
			return false, err
		}
	}
	if f.print.n < printBytes {
		if f.print, err = printOf(opened, printBytes); err != nil {
			return false, err
		}
	}
	return true, nil
}

func hash(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}
