package logs

import (
	"slices"
	"time"

	"github.com/sirupsen/logrus"
)

// holdTime is how long a possible copy waits for its original to be truncated.
const holdTime = 2 * time.Minute

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
	opened, _, err := t.openSeen(s)
	if err != nil {
		return false
	}
	defer opened.Close()
	start, err := readStart(opened)
	return err == nil && want.begins(start)
}

// hold says whether a new file must wait because it may be a copy of a log, or one that is still written: its bytes are in the log already.
func (t *tree) hold(now time.Time, s seenFile) bool {
	if t.draining || !t.mayBeCopy(s) {
		return false
	}
	since, held := t.held[s.id]
	if !held {
		t.held[s.id] = now
		return true
	}
	return now.Sub(since) <= holdTime
}

// mayBeCopy says whether a new file has a name made from that of a known log and its first bytes, or not that many yet.
func (t *tree) mayBeCopy(s seenFile) bool {
	for i := len(s.path) - 1; i > 0 && s.path[i] != '/'; i-- {
		stream := t.streams[streamID{t.node, s.path[:i]}]
		if stream == nil || !mayCopy(s.path, stream.path) {
			continue
		}
		for _, f := range slices.Backward(stream.files) {
			if f.state != finished && f.dir == s.dir && f.prefix.n >= copyPrefix && (s.size < f.prefix.n || t.begins(s, f.prefix)) {
				return true
			}
		}
	}
	return false
}
