package logs

import (
	"slices"
	"time"

	"github.com/sirupsen/logrus"
)

// holdTime is how long a possible copy waits for its original to be truncated.
const holdTime = 2 * time.Minute

// heldFile is a new file with the first bytes of a known log and a name made from its name: probably the copy that a rotation makes before
// it truncates the log. A copy's bytes are in the log already, so the file is not shipped until it is known whether it is one.
type heldFile struct {
	seenFile
	of    *file
	since time.Time
}

// copyOf finds the copy of a truncated log. The copy holds the bytes that were not read before. -1 means that there is none.
func (t *tree) copyOf(f *file, unknown []seenFile) int {
	return slices.IndexFunc(unknown, func(s seenFile) bool {
		return s.dir == f.dir && mayCopy(s.path, f.stream.path) && s.size >= f.stream.consumed(f) && f.prefix.n >= copyPrefix && t.begins(s, f.prefix)
	})
}

// readFromCopy makes the copy the file that the rest of f is read from.
func (t *tree) readFromCopy(f *file, now time.Time, copied seenFile) {
	t.log.WithFields(logrus.Fields{"log": f.stream.path, "file": copied.full(), "bytes": copied.size}).Debug("a log was copied and truncated")
	f.id, f.lastScan = copied.id, t.scans
	f.found(now, copied)
	t.files[f.id] = f
	delete(t.held, f.id)
	t.dirty = true
}

// begins says whether the file has these first bytes.
func (t *tree) begins(s seenFile, want prefix) bool {
	opened, _, err := open(t.root, s.full(), s.id)
	if err != nil {
		return false
	}
	defer opened.Close()
	got, err := readPrefix(opened, want.n)
	return err == nil && got == want
}

// hold says whether a new file must wait because it may be a copy of a log.
func (t *tree) hold(now time.Time, s seenFile) bool {
	held := t.held[s.id]
	if held == nil {
		of := t.original(s)
		if of == nil {
			return false
		}
		held = &heldFile{of: of, since: now}
	}
	if t.draining || held.of.state == finished || now.Sub(held.since) > holdTime {
		return false
	}
	held.seenFile = s
	t.held[s.id] = held
	return true
}

// original returns the log that a new file may be a copy of.
func (t *tree) original(s seenFile) *file {
	for i := len(s.path) - 1; i > 0 && s.path[i] != '/'; i-- {
		stream := t.streams[streamID{t.node, s.path[:i]}]
		if stream == nil || !mayCopy(s.path, stream.path) {
			continue
		}
		for _, f := range slices.Backward(stream.files) {
			if f.state != finished && f.dir == s.dir && f.prefix.n >= copyPrefix && t.begins(s, f.prefix) {
				return f
			}
		}
	}
	return nil
}
