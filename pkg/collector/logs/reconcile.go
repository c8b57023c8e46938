package logs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// reconcile compares what a walk found with what is known.
func (t *tree) reconcile(now time.Time, w *walkResult) {
	seen := t.pick(now, w.files)
	if !w.partial {
		for id, f := range t.files {
			if _, ok := seen[id]; ok {
				f.missed = false
			} else if f.missed || t.draining {
				t.retire(f)
			} else {
				f.missed = true // a walk can miss a file that is renamed under it: only the next one is sure
				t.wake()
			}
		}
		for id := range t.held {
			if _, ok := seen[id]; !ok {
				delete(t.held, id)
			}
		}
	}
	var fresh, begun []found // not known; known by inode, but with another beginning
	for id, s := range seen {
		f := t.files[id]
		if f == nil {
			fresh = append(fresh, s)
			continue
		}
		was := f.print
		same, err := f.recognise(t.root, s)
		if was.n < copyPrint && f.print != was {
			t.dirty = true
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errChanged):
			t.wake() // it moved since the walk
		case err != nil:
			f.look(now, s)
			t.unreadable(f, now, err)
		case same:
			t.still(f, now, s)
		default:
			begun = append(begun, s)
		}
	}
	slices.SortFunc(begun, byGeneration)
	for _, s := range begun {
		f := t.files[s.id]
		delete(t.files, s.id)
		i := t.copyOf(f, fresh)
		if i >= 0 {
			t.adopt(f, now, fresh[i])
			fresh = slices.Delete(fresh, i, i+1)
		} else {
			t.retire(f)
		}
		if i >= 0 || s.full() == f.full() || (s.path == f.whole.path && s.dir == t.dir) {
			t.enter(now, s, f.whole) // truncated, and perhaps renamed since
		} else {
			fresh = append(fresh, s) // its inode was given to another file
		}
	}
	if len(fresh) == 0 {
		return
	}
	slices.SortFunc(fresh, byGeneration)
	moved := t.movedAway(seen)
	for _, s := range fresh {
		if t.hold(now, s) {
			continue
		}
		node, elsewhere := t.nodes[s.dir]
		if !elsewhere {
			node = t.node
		}
		if base, _, ok := rotation(s.path); ok && moved[wholeID{node, base}] {
			// Rotated more than once since the last scan: a generation that was never seen under the log's own name.
			t.enter(now, s, t.wholeOf(node, base))
			continue
		}
		t.enter(now, s, t.wholeOf(node, s.path))
	}
}

// pick chooses one name for each file: where a file has several, the one it is known by.
func (t *tree) pick(now time.Time, files []found) map[fileID]found {
	if t.seen == nil {
		t.seen = make(map[fileID]found, len(files))
	}
	seen := t.seen
	clear(seen)
	for _, s := range files {
		if isDump(s.path) {
			f := t.files[s.id]
			if f == nil && !t.draining && now.Sub(time.Unix(0, s.changed)) < dumpRest {
				continue
			}
			if f != nil {
				s.size, s.changed = f.size, f.changed
			}
		}
		before, twice := seen[s.id]
		if f := t.files[s.id]; twice && (f == nil || (f.name == before.path && f.dir == before.dir)) {
			continue
		}
		if t.files[s.id] == nil {
			if err := layout.CheckLogPath(keyPath(s.path)); err != nil {
				t.report(s.path, err)
				continue
			}
		}
		seen[s.id] = s
	}
	return seen
}

// dumpRest is how long a dump must have been left alone to be taken for the last one. Raylet and GCS write theirs every 10 s
// (debug_dump_period_milliseconds).
const dumpRest = 2 * time.Minute

// isDump says whether a file is a dump of a Ray process's state (debug_state.txt, debug_state_gcs.txt), which is written anew in place again
// and again: it does not grow, and chunks of it would be parts of different dumps. It is stored once, as it is when the process is gone or
// the collector ends, and not looked at again.
func isDump(logPath string) bool {
	name := path.Base(logPath)
	return strings.HasPrefix(name, "debug_state") && strings.HasSuffix(name, ".txt")
}

// byGeneration sorts rotated files before the newer generations of the same log.
func byGeneration(a, b found) int {
	aBase, aNumber, aRotated := rotation(a.path)
	bBase, bNumber, bRotated := rotation(b.path)
	if aRotated && bRotated && aBase == bBase {
		return bNumber - aNumber
	}
	if aRotated != bRotated {
		if aRotated {
			return -1
		}
		return 1
	}
	if a.path < b.path {
		return -1
	}
	return 1
}

// still takes over what was seen of a file that is the one it was.
func (t *tree) still(f *file, now time.Time, s found) {
	if f.name != s.path || f.dir != s.dir {
		t.dirty = true
	}
	grew := s.size > f.size
	f.astray = false
	f.look(now, s)
	if f.unreadable && (grew || !now.Before(f.retry)) {
		f.unreadable = false
	}
}

// enter makes a new file known, as the next generation of w.
func (t *tree) enter(now time.Time, s found, w *whole) {
	f := &file{id: s.id, grown: now}
	f.look(now, s)
	if changed := time.Unix(0, s.changed); changed.Before(now) && s.size > 0 {
		f.oldest = changed // it lay here before it was seen
	}
	if s.size > 0 {
		opened, _, err := open(t.root, s.full(), s.id)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errChanged):
			f.astray = true
			t.wake()
		case err != nil:
			t.unreadable(f, now, err)
		default:
			f.print, err = printOf(opened, printBytes)
			_ = opened.Close()
			if err != nil {
				t.unreadable(f, now, err)
			}
		}
	}
	if len(w.files) > 0 {
		t.log.WithFields(logrus.Fields{"log": w.path, "file": s.full(), "bytes": s.size}).Debug("a log has another generation")
	}
	w.add(f)
	t.files[s.id] = f
	delete(t.held, s.id)
	t.dirty = true
}

// movedAway says of which known logs the newest generation is no longer under the log's own name.
func (t *tree) movedAway(seen map[fileID]found) map[wholeID]bool {
	moved := make(map[wholeID]bool)
	for id, w := range t.wholes {
		newest := w.files[len(w.files)-1]
		if s, ok := seen[newest.id]; newest.gone || !ok || s.path != w.path || s.dir != t.dir {
			moved[id] = true
		}
	}
	return moved
}

// retire forgets a file that is gone. What was not read of it is lost.
func (t *tree) retire(f *file) {
	f.gone, f.astray = true, false
	if t.files[f.id] == f {
		delete(t.files, f.id)
	}
	w := f.whole
	if lost := f.end() - w.consumed(f); lost > 0 && (w.resumed || f != w.cur) {
		t.metrics.lost.Add(float64(lost))
		t.log.WithField("log", f.name).Warnf("a log was removed before its last %d bytes were stored: they are lost", lost)
	}
	if f != w.cur {
		w.files = slices.DeleteFunc(w.files, func(g *file) bool { return g == f })
	}
	t.dirty = true
}

// copyOf finds the copy of a log that was truncated, which has the bytes of it that were not read before; -1 if there is none.
func (t *tree) copyOf(f *file, fresh []found) int {
	return slices.IndexFunc(fresh, func(s found) bool {
		return s.dir == f.dir && mayCopy(s.path, f.whole.path) && s.size >= f.whole.consumed(f) && f.print.n >= copyPrint && t.begins(s, f.print)
	})
}

// adopt makes the copy what f is read from.
func (t *tree) adopt(f *file, now time.Time, copied found) {
	t.log.WithFields(logrus.Fields{"log": f.whole.path, "file": copied.full(), "bytes": copied.size}).Debug("a log was copied and truncated")
	f.id = copied.id
	f.look(now, copied)
	t.files[f.id] = f
	delete(t.held, f.id)
	t.dirty = true
}

// begins says whether the file begins with what p is the print of.
func (t *tree) begins(s found, p print) bool {
	opened, _, err := open(t.root, s.full(), s.id)
	if err != nil {
		return false
	}
	defer opened.Close()
	is, err := printOf(opened, p.n)
	return err == nil && is == p
}

// hold says whether a new file is to wait as the supposed copy of a log.
func (t *tree) hold(now time.Time, s found) bool {
	h := t.held[s.id]
	for i := len(s.path) - 1; i > 0 && h == nil && s.path[i] != '/'; i-- {
		w := t.wholes[wholeID{t.node, s.path[:i]}]
		if w == nil || !mayCopy(s.path, w.path) {
			continue
		}
		for _, f := range w.files {
			if !f.gone && f.dir == s.dir && f.print.n >= copyPrint && t.begins(s, f.print) {
				h = &heldFile{of: f, since: now}
			}
		}
	}
	if h == nil || t.draining || h.of.gone || now.Sub(h.since) > holdTime {
		return false
	}
	h.found = s
	t.held[s.id] = h
	return true
}
