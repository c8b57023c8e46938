// Package lifetime says whether a session runs, since when, and when it ended, from what is stored of it. Everything
// that asks this asks here.
//
//	listed objects ──► Signs ──► Read: what the head's collectors say ──► Life ──► Runs
//
// An end marker is a fact about one head. With GCS fault tolerance the next head continues under the same session name,
// and workers may live through all of this. So the newest end counts only while nothing shows that the session
// continued after it.
//
// Times are compared by the store's clock, when objects were stored, because clocks of nodes differ. A time that a node
// tells is believed only if it is not later than that. Only now is by the clock of the machine that asks: to one that
// is ahead by Idle, sessions that run have ended, until its clock is right. What changes or removes sessions compares
// the clocks first (lease.CheckClock). Two things rewrite what is stored: compaction, which first
// records that the session had ended (layout.Joined), and copies of a store, whose objects are all newer than the end
// that they tell of or, without an end, than all times in their names. Then names are used instead: later offsets,
// hours and times in keys.
package lifetime

import (
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// Idle is the time without writes after which a session without an end counts as ended, unless a flag says otherwise.
const Idle = 10 * time.Minute

// late is how long after the latest time in their names the first object of a session may be stored that was not
// copied: some collectors store an hour's events when the hour is over.
const late = time.Hour

// grace is how long after a session's end known nodes may store their last data without continuing the session: the
// pods of a cluster end within seconds of each other.
const grace = time.Minute

// LateWrites is how long after its last known write an ended session may still be written to: workers store their last
// seconds after the end, and a listing is up to an interval old. It also covers differences between clocks, and stores
// whose times are whole seconds.
const LateWrites = time.Minute

// Life is what is stored about a session's life.
type Life struct {
	// Start is when its first head started; zero: not known. Recorded says that Start comes from metadata. Otherwise it
	// may come from the session's name, which has the head's local time.
	Start    time.Time
	Recorded bool
	// End is when its last head ended; zero if it has not ended, or if no head could say so: then ask State.
	End time.Time
	// Ahead is how far the head's clock, and so the times that it records, is ahead of the store's.
	Ahead time.Duration
}

// Runs says whether a session runs now: it has no end, and its newest object was written less than idle ago. All are
// Unix times in the same unit; end is 0 if there is none.
func Runs(end, written, now, idle int64) bool { return end == 0 && now-written < idle }

// State says whether a session runs now, and when it ended; zero: it runs, or has only its marker. written is when the
// newest of its objects was stored, or its marker.
func State(end, written time.Time, objects int, now time.Time, idle time.Duration) (runs bool, ended time.Time) {
	switch {
	case !end.IsZero():
		return false, end
	case Runs(0, written.UnixMicro(), now.UnixMicro(), idle.Microseconds()):
		return true, time.Time{}
	case objects == 0:
		return false, time.Time{}
	}
	return false, written
}

// StartOf returns when a session started, from what its metadata, its name and its marker say. A start after the first
// object was stored is not believed: the clock of its node was ahead, or the name has the local time of a zone east of
// UTC.
func StartOf(recorded time.Time, name string, marked, first time.Time) time.Time {
	stored := earliest(marked, first)
	if recorded.IsZero() {
		recorded = startNamed(name)
	}
	if recorded.IsZero() || !stored.IsZero() && recorded.After(stored) {
		return stored
	}
	return recorded
}

// Life says when the session started, and whether and when it ended. A session without an end marker whose objects all
// seem to be a copy ended at the latest time in their names, but only if nothing was stored for quiet and Idle: until
// then more of the copy may come.
func (f *Signs) Life(now time.Time, quiet time.Duration) Life {
	if life, ok := f.lifeByNames(now); ok {
		return life
	}
	recorded := f.recordedStart()
	life := Life{Recorded: !recorded.IsZero(), Ahead: f.ahead}
	if !life.Recorded {
		recorded = f.namedStart()
	}
	life.Start = StartOf(recorded, f.ref.Name, f.Marked, f.first)
	end, stored := f.newestEnd()
	switch {
	case end.IsZero():
		if now.Sub(f.LastWrite) >= max(quiet, Idle) {
			life.End = f.copiedUntil()
		}
		return life
	case f.wentOnAfter(end, stored):
		return life // without an end
	}
	if end.Before(life.Start) { // the head's clock was behind
		end = f.LastWrite
	}
	life.End = end
	return life
}

// lifeByNames returns the life that names and metadata show, if the store's times are meaningless: then ok is true.
// They are meaningless if everything seems to be stored before the session began by its name, even if the name has
// the local time of a zone: as after a copy that gives all objects the same time. Times after now do not count.
//
// The end is then the latest time in names if no head's end is stored. Otherwise it is what the newest mark of an end
// recorded or, if none recorded a time that can be true, the latest time in names.
func (f *Signs) lifeByNames(now time.Time) (life Life, ok bool) {
	named, known := layout.NamedStart(f.ref.Name)
	if !known || f.LastWrite.IsZero() || named.After(now) || !named.After(f.LastWrite.Add(layout.MaxZone)) {
		return life, false
	}
	life.Start = f.recordedStart()
	if life.Recorded = !life.Start.IsZero() && !life.Start.After(now); !life.Recorded {
		life.Start = f.namedStart()
	}
	if end, _ := f.newestEnd(); end.IsZero() && f.until.Before(now) {
		life.End = f.until
		return life, true
	}
	ends := f.ends
	if f.hasJoined() {
		ends = append(slices.Clip(ends), f.joined)
	}
	for _, m := range ends {
		recorded := m.recordedEnd()
		if recorded.Before(life.Start) || recorded.After(now) { // the mark shows that a head ended, but not when
			recorded = life.Start
		}
		life.End = Latest(life.End, recorded)
	}
	if life.End.Equal(life.Start) && !f.named.After(now) {
		life.End = Latest(life.End, f.named)
	}
	return life, true
}

// namedStart returns the start that the session's name has, in the head's local time; zero if it has none. If that is
// more than an hour from the first hour of which there are events, it is moved by whole hours to be within that one:
// zones are mostly whole hours from UTC.
func (f *Signs) namedStart() time.Time {
	named := startNamed(f.ref.Name)
	if named.IsZero() || f.hour.IsZero() || f.hour.Sub(named).Abs() < time.Hour {
		return named
	}
	return layout.InZone(named, f.hour.Add(time.Hour-1), time.Hour)
}

// startNamed returns the start that a session's name has, in the head's local time; zero if it has none.
func startNamed(session string) time.Time {
	named, _ := layout.NamedStart(session)
	return validOrZero(named)
}

// recordedStart returns the earliest start that the heads' collectors have stored; zero if none is.
func (f *Signs) recordedStart() (start time.Time) {
	for _, m := range f.ends {
		start = earliest(start, validOrZero(m.start))
	}
	for _, m := range f.starts {
		start = earliest(start, validOrZero(m.start))
	}
	return start
}

// EndStored reports whether a head's collector has stored an end, whatever was stored later. One that compaction or a
// copy recorded (layout.Joined) does not say that: the head may have been lost.
func (f *Signs) EndStored() bool { return len(f.ends) > 0 }

// newestEnd returns when the last head ended, and when the newest end was stored; zero: no end is stored.
func (f *Signs) newestEnd() (end, stored time.Time) {
	if f.hasJoined() {
		end, stored = f.joined.endedAt(), f.joined.stored
	}
	for _, m := range f.ends {
		end, stored = Latest(end, m.endedAt()), Latest(stored, m.stored)
	}
	return end, stored
}

// wentOnAfter says whether the session went on after its newest end; end and stored are from newestEnd. It went on if a
// further head started, if a new node wrote, or if a known node wrote later than grace after the end. Of copied objects
// only the times in names and metadata count.
func (f *Signs) wentOnAfter(end, stored time.Time) bool {
	if f.first.After(end.Add(grace)) { // all of it was stored after the end, so by a copy
		return f.named.After(end.Add(grace)) || f.startedAfter(func(m mark) bool { return m.endedAt().After(end) })
	}
	if f.startedAfter(func(m mark) bool { return m.stored.After(stored) }) {
		return true
	}
	for node, w := range f.nodes {
		written := w.last
		if f.joined.stored.Equal(stored) {
			written = w.grown // compaction may have written first chunks after the end
		}
		newNode := !node.Nil() && w.first.After(stored) && written.After(stored)
		if newNode || written.After(stored.Add(grace)) {
			return true
		}
	}
	return false
}

// copiedUntil returns the latest time in the names of objects, if all of them were stored long after that: by a copy,
// or by a collector that could not reach the store for hours. It returns zero otherwise.
func (f *Signs) copiedUntil() time.Time {
	if f.until.IsZero() || !f.first.After(f.until.Add(late)) {
		return time.Time{}
	}
	return f.until
}

// hasJoined says whether compaction recorded that the session had ended.
func (f *Signs) hasJoined() bool { return !f.joined.stored.IsZero() }

// startedAfter says whether a further head started for whose mark later returns true. A start mark of a node that had
// written before is of a restarted collector, not of a further head.
func (f *Signs) startedAfter(later func(mark) bool) bool {
	for _, m := range f.starts {
		node := f.nodes[m.node]
		known := node != nil && !m.node.Nil() && node.first.Before(m.stored)
		if m.version > 0 && !known && later(m) {
			return true
		}
	}
	return false
}

// validOrZero returns a time of metadata or of a name, or zero for a time that no session can have: one long before
// Ray, as of a node whose clock was not set, or one that JSON may not be able to represent in UTC.
func validOrZero(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 1990 || year > 9998 {
		return time.Time{}
	}
	return t
}

// earliest returns the earlier of two times; a zero time, which is not known, counts only if both are.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Latest returns the later of two times; a zero time is before all others.
func Latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
