package logs

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// tree is the logs folder of one session.
type tree struct {
	tmp     string // Ray's temporary folder
	session string
	dir     string // of the logs, below tmp
	state   string // path of the state file
	node    rayid.Node
	keyOf   func(node rayid.Node, logPath string) string
	wake    func()
	log     logrus.FieldLogger
	metrics *metrics

	walked walkResult       // of the last scan
	seen   map[fileID]found // of the last scan

	lock   sync.Mutex
	root   *os.Root // Ray's temporary folder, during a scan
	files  map[fileID]*file
	wholes map[string]*whole // by path
	held   map[fileID]*heldFile
	dirty  bool // something that the state file should know changed
	// draining: nothing more will be written, so nothing waits for what may still come.
	draining bool
	reported map[string]bool // paths of which an error was logged
}

// heldFile is a new file that begins as a known log does and is named after it: likely the copy that a rotation by copying makes before
// it truncates the log. Its bytes are the log's, so it is not shipped until it is clear whether it is.
type heldFile struct {
	found
	of    *file
	since time.Time
}

const (
	// holdTime is how long a supposed copy waits for its original to be truncated.
	holdTime = 2 * time.Minute
	// copyPrint is how many first bytes must agree at least to take a file for a copy.
	copyPrint = 32
	// retryTime is when an unreadable file is tried again.
	retryTime = time.Minute
)

// scan looks at every file and brings the wholes up to date. It returns the folders of logs.
func (t *tree) scan(root *os.Root, now time.Time, draining bool) (dirs []string) {
	w := &t.walked
	w.walk(root, t.dir)
	t.lock.Lock()
	defer t.lock.Unlock()
	t.root, t.draining = root, draining
	defer func() { t.root = nil }()
	for _, err := range w.errs {
		t.report(err.Error(), err)
	}
	t.reconcile(now, w)
	if t.dirty {
		if err := t.save(); err != nil {
			t.log.WithError(err).Warn("could not write which log is which: a log that is rotated while the collector is restarted could be stored twice")
		}
	}
	return w.dirs
}

// reconcile compares what a walk found with what is known.
func (t *tree) reconcile(now time.Time, w *walkResult) {
	seen := t.pick(w.files)
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
		same, err := f.recognise(t.root, t.dir, s)
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
		if i >= 0 || s.path == f.name || s.path == f.whole.path {
			t.enter(now, s, f.whole) // truncated, and perhaps renamed since
		} else {
			fresh = append(fresh, s) // its inode was given to another file
		}
	}
	slices.SortFunc(fresh, byGeneration)
	moved := t.movedAway(seen)
	for _, s := range fresh {
		if t.hold(now, s) {
			continue
		}
		if base, _, ok := rotation(s.path); ok && moved[base] {
			// Rotated more than once since the last scan: a generation that was never seen under the log's own name.
			t.enter(now, s, t.wholes[base])
			continue
		}
		t.enter(now, s, t.wholes[s.path])
	}
}

// pick chooses one name for each file: where a file has several, the one it is known by.
func (t *tree) pick(files []found) map[fileID]found {
	if t.seen == nil {
		t.seen = make(map[fileID]found, len(files))
	}
	seen := t.seen
	clear(seen)
	for _, s := range files {
		before, twice := seen[s.id]
		if f := t.files[s.id]; twice && (f == nil || f.name == before.path) {
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
	if f.name != s.path {
		t.dirty = true
	}
	grew := s.size > f.size
	f.look(now, s)
	if f.unreadable && (grew || !now.Before(f.retry)) {
		f.unreadable = false
	}
}

// enter makes a new file known, as the next generation of w or, where that is nil, of a whole of its own.
func (t *tree) enter(now time.Time, s found, w *whole) {
	f := &file{id: s.id, grown: now}
	f.look(now, s)
	if changed := time.Unix(0, s.changed); changed.Before(now) && s.size > 0 {
		f.oldest = changed // it lay here before it was seen
	}
	if s.size > 0 {
		if opened, _, err := open(t.root, t.dir+"/"+s.path, s.id); err != nil {
			t.unreadable(f, now, err)
		} else {
			f.print, err = printOf(opened, printBytes)
			_ = opened.Close()
			if err != nil {
				t.unreadable(f, now, err)
			}
		}
	}
	if w == nil {
		w = &whole{tree: t, path: s.path, node: t.node, key: t.keyOf(t.node, keyPath(s.path))}
		t.wholes[s.path] = w
	}
	w.add(f)
	t.files[s.id] = f
	delete(t.held, s.id)
	t.dirty = true
}

// movedAway says of which known logs the newest generation is no longer under the log's own name.
func (t *tree) movedAway(seen map[fileID]found) map[string]bool {
	moved := make(map[string]bool)
	for path, w := range t.wholes {
		newest := w.files[len(w.files)-1]
		if s, ok := seen[newest.id]; newest.gone || !ok || s.path != path {
			moved[path] = true
		}
	}
	return moved
}

// retire forgets a file that is gone. What was not read of it is lost.
func (t *tree) retire(f *file) {
	f.gone = true
	if t.files[f.id] == f {
		delete(t.files, f.id)
	}
	w := f.whole
	if lost := f.size - w.consumed(f); lost > 0 && (w.resumed || f != w.cur) {
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
		return mayCopy(s.path, f.whole.path) && s.size >= f.whole.consumed(f) && f.print.n >= copyPrint && t.begins(s, f.print)
	})
}

// adopt makes the copy what f is read from.
func (t *tree) adopt(f *file, now time.Time, copied found) {
	f.id = copied.id
	f.look(now, copied)
	t.files[f.id] = f
	delete(t.held, f.id)
	t.dirty = true
}

// begins says whether the file begins with what p is the print of.
func (t *tree) begins(s found, p print) bool {
	opened, _, err := open(t.root, t.dir+"/"+s.path, s.id)
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
	if h == nil {
		for path, w := range t.wholes {
			if !mayCopy(s.path, path) {
				continue
			}
			for _, f := range w.files {
				if !f.gone && f.print.n >= copyPrint && t.begins(s, f.print) {
					h = &heldFile{of: f, since: now}
				}
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

// unreadable takes a file out of what is pending; the reason is logged once.
func (t *tree) unreadable(f *file, now time.Time, err error) {
	f.unreadable, f.retry = true, now.Add(retryTime)
	if errors.Is(err, errChanged) || errors.Is(err, fs.ErrNotExist) {
		f.retry = now // the next scan finds out
		return
	}
	t.report(f.name, err)
}

// report logs an error about a path once.
func (t *tree) report(about string, err error) {
	if t.reported[about] {
		return
	}
	if len(t.reported) < 10000 {
		t.reported[about] = true
	}
	t.metrics.unreadable.Inc()
	t.log.WithField("log", about).WithError(err).Warn("could not read a log; it is tried again")
}

// refresh asks for a file's size now.
func (t *tree) refresh(f *file) error {
	opened, info, err := t.open(f.name, f.id)
	if err != nil {
		return err
	}
	f.size = max(f.size, info.Size())
	return opened.Close()
}

// open opens a log outside of a scan.
func (t *tree) open(name string, id fileID) (*os.File, fs.FileInfo, error) {
	root, err := os.OpenRoot(t.tmp)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	return open(root, t.dir+"/"+name, id)
}

// setNode says whose the logs are that appear from now on.
func (t *tree) setNode(node rayid.Node) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.node = node
}

// complete says whether all there is is stored and nothing was written for a while.
func (t *tree) complete(now time.Time) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, f := range t.files {
		w := f.whole
		stored := f.size == 0 || (w.resumed && w.consumed(f) >= f.size)
		if !stored || f.unreadable || now.Sub(time.Unix(0, f.changed)) < sweepAge {
			return false
		}
	}
	return len(t.held) == 0
}

// lastWrite is when a log was last written to.
func (t *tree) lastWrite() time.Time {
	t.lock.Lock()
	defer t.lock.Unlock()
	var last int64
	for _, f := range t.files {
		last = max(last, f.changed)
	}
	if last == 0 {
		return time.Time{}
	}
	return time.Unix(0, last)
}
