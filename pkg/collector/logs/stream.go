package logs

import (
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// settleTime is the time without growth after which the stream continues with the file after a rotated one: the writer
// may still have the rotated file open and write a few lines.
const settleTime = 3 * time.Second

// stream is everything that was ever written to one path: its generations, one after the other. It implements
// ship.Source.
//
// The stream's byte at base is the byte at fileOffset of its current file. When the current file has no more, the
// stream continues with another file: base becomes the end of the stream, and fileOffset the first byte of that file
// that is not in the stream yet. If a file that the stream has left grows again, the stream returns to it: late lines
// are stored late, but not lost.
type stream struct {
	state streamState
	tree  *tree
	path  string // below the logs folder: where its files are written
	node  rayid.Node
	key   string

	files      []*file // oldest first; without those that are finished, except the current one
	current    *file
	base       int64
	fileOffset int64
	storedEnd  int64 // the bytes before it are stored; in the state unlisted only assumed
	// lastProgress is when something of the stream was stored last, or when it was made.
	lastProgress time.Time
	// unsaved says that where the stream continues has changed: nothing more of it is shipped before Tailer.Sources has
	// saved the state.
	unsaved bool
	// overwritings is how many generations were begun by overwriting and did not wait for nextOverwriting, as the
	// others do.
	overwritings    int
	nextOverwriting time.Time
	// shrunkPlusOne is the length in the first listing that was shorter than base, plus one: 0 means that there was
	// none, and a listing of no bytes is 1. See startAgain.
	shrunkPlusOne int64
}

// streamState says what is known about the stored bytes of a stream. doc.go draws the states.
type streamState uint8

const (
	unlisted streamState = iota // the store was not listed, so the stored length is not known
	listed                      // stream.storedEnd is the stored length
	inFlight                    // a chunk was opened, and whether it is stored is not known yet
)

// streamEvent is an event of a stream.
type streamEvent uint8

const (
	streamListed   streamEvent = iota // the store was listed
	streamUnusable                    // the listing cannot be used yet
	streamOpened                      // a chunk was opened to be stored
	streamStored                      // the chunk is stored
)

// handle changes the stream's state after an event, as the table in doc.go says. No other function changes it.
func (s *stream) handle(e streamEvent) {
	switch {
	case e == streamListed:
		s.state = listed
	case e == streamUnusable || s.state == unlisted: // the shipper opens nothing before the store was listed
		s.state = unlisted
	case e == streamOpened:
		s.state = inFlight
	default: // streamStored: no chunk is in flight now
		s.state = listed
	}
}

// insertFile adds a generation before those from i on.
func (s *stream) insertFile(i int, f *file) {
	f.stream = s
	s.files = slices.Insert(s.files, i, f)
	if s.current == nil {
		s.current, s.fileOffset = f, f.read
	}
}

// storedBytesOf returns how many bytes of f are in the stored range of the stream.
func (s *stream) storedBytesOf(f *file) int64 {
	if f == s.current {
		return s.fileOffset + s.storedEnd - s.base
	}
	return f.read
}

// isReadyToPass says whether f has a rest, behind f.ownBytes, that belongs to another node's stream, and all before it
// is stored.
func (s *stream) isReadyToPass(f *file) bool {
	return f.ownBytes > 0 && f.size > f.ownBytes && s.state == listed && s.storedBytesOf(f) >= f.ownBytes
}

// isHome says whether the file has the path that its log is written to, so it is not a rotated file.
func (s *stream) isHome(f *file) bool { return f.path == s.path && f.dir == s.tree.dir }

// A log that is overwritten again and again, as documents are that grow in their middle, is stored as a whole each
// time: wholesAtOnce of them as soon as others, then one after a time that doubles from wholeWait to maxWholeWait.
const (
	wholesAtOnce            = 3
	wholeWait, maxWholeWait = time.Minute, time.Hour
)

// beginOverwritten begins a generation f in the place of one that was overwritten: its bytes are others, but not fewer,
// because such documents grow.
func (s *stream) beginOverwritten(now time.Time, f *file) {
	f.beganByOverwriting = true
	if now.Before(s.nextOverwriting) {
		return
	}
	s.overwritings++
	if n := s.overwritings - wholesAtOnce; n > 0 {
		s.nextOverwriting = now.Add(min(wholeWait<<min(n-1, 10), maxWholeWait))
	}
}

// isHeld says whether f was overwritten too often to be stored again before s.nextOverwriting. A rotated file is not
// overwritten any more, and belongs before those that are newer.
func (s *stream) isHeld(f *file, now time.Time) bool {
	return f.beganByOverwriting && s.isHome(f) && now.Before(s.nextOverwriting)
}

// isTooSoon is isHeld until the end: then all is stored.
func (s *stream) isTooSoon(f *file, now time.Time) bool {
	return !s.tree.scans.draining && s.isHeld(f, now)
}

// shippableBytes returns how many bytes of f can be shipped now.
func (s *stream) shippableBytes(f *file) int64 {
	if f.state != following && f.state != restored || s.isTooSoon(f, time.Now()) {
		return 0
	}
	end := f.knownEnd()
	if s.tree.tailer.opts.Redact != nil && f.linesEnd < end && f.isFresh() && s.mayGrow(f, time.Now()) {
		end = f.linesEnd // the last line waits for its end: what is to be redacted may not be complete in it
	}
	return max(0, end-s.storedBytesOf(f))
}

// hasPending says whether there is something to ship; the tree's lock is held.
func (s *stream) hasPending(now time.Time) bool {
	switch {
	case s.current.state == moved:
		return false
	case s.state == unlisted:
		return slices.ContainsFunc(s.files, func(f *file) bool { return s.shippableBytes(f) > 0 })
	}
	return s.shippableBytes(s.current) > 0 || s.nextFile(now) != nil
}

// nextFile returns the file to continue with when the current file has no more to ship: the oldest that has something
// to ship. That may be an older file, which the stream has left and which has grown again. A newer one is returned only
// if the current file, and those between, can no longer grow. It is nil if there is none for now.
func (s *stream) nextFile(now time.Time) *file {
	passedCurrent := false
	for _, f := range s.files { // the oldest first
		if f == s.current {
			passedCurrent = true
		} else if s.shippableBytes(f) > 0 {
			return f
		}
		// Lines keep their order: newer generations wait until this one is complete. An older one, which the stream has
		// left, holds up nothing: its late lines are out of order in any case.
		if passedCurrent && s.mayGrow(f, now) {
			return nil
		}
	}
	return nil
}

// mayGrow says whether f may get more bytes that belong before those of a newer generation.
func (s *stream) mayGrow(f *file, now time.Time) bool {
	switch {
	case f.state == moved:
		return true // no scan has found it again yet, so how long it is nobody knows
	case f.state == finished, s.tree.scans.draining: // the last scan saw all there is, except of files that moved since
		return false
	case f.state == restored:
		return true // no scan has seen yet how long it is
	}
	return s.isHome(f) || now.Sub(f.lastGrowth) < settleTime && now.Sub(time.Unix(0, f.changed)) < settleTime
}

// moveOn makes the next file the current one if the current one has nothing more to ship, and says whether it did.
// After that the caller has to save the state before anything of the next file is shipped.
func (s *stream) moveOn(now time.Time) bool {
	// a moved file is no longer where the last scan saw it: only the next scan tells whether it has more
	if s.state != listed || s.current.state == moved || s.shippableBytes(s.current) > 0 {
		return false
	}
	next := s.nextFile(now)
	if next == nil {
		return false
	}
	s.current.read = s.storedBytesOf(s.current)
	if s.current.state == finished {
		s.dropFile(s.current)
	}
	s.current, s.base, s.fileOffset = next, s.storedEnd, next.read
	s.tree.tailer.metrics.generations.Inc()
	s.tree.log.WithFields(logrus.Fields{"log": s.path, "file": next.fullPath(), "from": s.fileOffset,
		"at": s.base}).Debug("a log continues in another file")
	return true
}

func (s *stream) dropFile(f *file) {
	s.files = slices.DeleteFunc(s.files, func(g *file) bool { return g == f })
}

// startAgain returns to the oldest file that still exists, because the store has lost objects or is another one.
// Listings can be wrong for a moment, and storing everything again is expensive, so two listings must agree.
func (s *stream) startAgain(stored int64) error {
	if s.shrunkPlusOne != stored+1 {
		s.shrunkPlusOne = stored + 1
		return fmt.Errorf("the store holds %d bytes, but %d were stored before; it is listed again", stored, s.base)
	}
	for _, f := range s.files {
		f.read = 0
	}
	s.current, s.base, s.fileOffset, s.storedEnd = s.files[0], stored, 0, stored
	return nil
}

// seekStored makes the stream continue after its stored bytes, whose number is at least s.base: the bytes of all files
// before the current one are stored. If the current file has fewer bytes than are stored of it, the stream moves on to
// the next files, or takes the file for one that was truncated. changed says that the state file has other values.
func (s *stream) seekStored(stored int64) (changed bool, err error) {
	s.storedEnd = stored
	for ; s.current.state != finished && s.storedBytesOf(s.current) > s.current.knownEnd(); changed = true {
		if err := s.tree.updateSize(s.current); err != nil {
			return changed, err
		}
		over := s.storedBytesOf(s.current) - s.current.knownEnd()
		i := slices.Index(s.files, s.current) + 1
		switch {
		case over <= 0: // it has grown since the last scan
		case i < len(s.files):
			// Another collector was faster, or the state file is older than the store: the rest is of the next
			// generation.
			s.current.read = s.current.knownEnd()
			s.current = s.files[i]
			s.fileOffset, s.base = s.current.read, stored-over
		default:
			// The file is shorter than its stored bytes: it was truncated while no collector ran.
			s.fileOffset, s.base = 0, stored
		}
	}
	return changed, nil
}

// updateAge sets the time since which the current file has unstored bytes. They came when the file last grew, or
// earlier, and then they are in a chunk that is due in any case.
func (s *stream) updateAge() {
	s.current.unstoredSince = s.current.lastGrowth
	if s.current.unstoredBytes() == 0 {
		s.current.unstoredSince = time.Time{}
	}
}

func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func (s *stream) Key() string { return s.key }

// Unresumed says that Resume must be called before the next chunk: it was not yet, or it could not use the listing, or
// the next chunk is of another file, and whether the last one of this file is stored is not known.
func (s *stream) Unresumed() bool {
	s.tree.lock.Lock()
	defer s.tree.lock.Unlock()
	return s.state == unlisted || s.state == inFlight && s.shippableBytes(s.current) == 0
}

// Resume implements ship.Source: it continues after the stored bytes, whose number the store's listing says.
func (s *stream) Resume(stored int64) error {
	s.tree.lock.Lock()
	defer s.tree.lock.Unlock()
	changed, err := true, error(nil) // changed: the state file has other values
	if stored < s.base {
		err = s.startAgain(stored)
	} else {
		changed, err = s.seekStored(stored)
	}
	if err != nil {
		s.handle(streamUnusable)
		return err
	}
	s.handle(streamListed)
	s.shrunkPlusOne = 0 // this listing was not too short
	s.updateAge()
	s.unsaved = s.unsaved || changed
	if s.unsaved || s.shippableBytes(s.current) == 0 {
		s.tree.scanSoon() // Tailer.Sources has to look at it again
	}
	return nil
}

// Pending implements ship.Source: n bytes from offset can be shipped, at most limit, and the oldest arrived at that
// time; n is 0 if nothing can be shipped now. When the current file has no more, Tailer.Sources moves on to the next.
func (s *stream) Pending(limit int64) (offset, n int64, oldest time.Time) {
	s.tree.lock.Lock()
	defer s.tree.lock.Unlock()
	if s.current.state == moved || s.unsaved { // a scan must find the file, or Tailer.Sources must save the state
		return s.storedEnd, 0, time.Time{}
	}
	if s.state == unlisted {
		// It is not known yet where the stream continues, but the maximum number of pending bytes is.
		for _, f := range s.files {
			if more := s.shippableBytes(f); more > 0 {
				n += more
				oldest = earlierTime(oldest, f.unstoredSince)
			}
		}
		return s.storedEnd, min(n, limit), oldest
	}
	if s.shippableBytes(s.current) == 0 {
		// The current file was finished while a chunk of it was in flight. n says that the next file waits; where its
		// bytes begin is known when Resume has found out whether that chunk is stored, see Unresumed.
		if next := s.nextFile(time.Now()); next != nil && s.state == inFlight {
			return s.storedEnd, min(s.shippableBytes(next), limit), next.unstoredSince
		}
		return s.storedEnd, 0, time.Time{}
	}
	return s.storedEnd, min(s.shippableBytes(s.current), limit), s.current.unstoredSince
}

func (s *stream) Shipped(end int64) {
	s.tree.lock.Lock()
	defer s.tree.lock.Unlock()
	s.storedEnd, s.lastProgress = end, time.Now()
	s.handle(streamStored)
	s.updateAge()
}
