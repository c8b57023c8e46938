package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// settle is how long a rotated file must have been quiet before the whole goes on with the next: its writer may still have a few lines.
const settle = 3 * time.Second

// whole is everything ever written to one path: its generations one after the other. It is the source that is shipped.
//
// Bytes of the whole map to bytes of its current file: the byte at base is the file's byte at from. When the current file has no more,
// the whole moves on to another: base becomes the whole's end, from the byte to go on at. An older file that grows once more after the
// whole has left it is simply gone back to, so that late lines are late, not lost.
type whole struct {
	tree *tree
	path string // below the logs folder: where its files are written
	node rayid.Node
	key  string

	files []*file // oldest first; those that are gone are dropped, but for the current
	cur   *file
	base  int64
	from  int64
	pos   int64 // bytes before it are stored, once resumed
	// resumed: pos is the store's word.
	resumed bool
	// noted: it is stored that the whole exists, though it has no byte.
	noted bool
	// shrunk is, plus one, how little the store held when it first told of less than base: one listing is not believed that.
	shrunk int64
	// flying: a chunk was opened, and whether it was stored is not known yet.
	flying bool
}

// add appends a generation.
func (w *whole) add(f *file) {
	f.whole = w
	w.files = append(w.files, f)
	if w.cur == nil {
		w.cur, w.from = f, f.read
	}
}

// consumed is how many bytes of f belong to the whole's stored part.
func (w *whole) consumed(f *file) int64 {
	if f == w.cur {
		return w.from + w.pos - w.base
	}
	return f.read
}

// home says whether the file is where its log is written to.
func (w *whole) home(f *file) bool { return f.name == w.path && f.dir == w.tree.dir }

func (w *whole) unread(f *file) int64 {
	if f.gone || f.unreadable || f.astray {
		return 0
	}
	return max(0, f.end()-w.consumed(f))
}

// pending says whether there is something to ship; the tree's lock is held.
func (w *whole) pending(now time.Time) bool {
	if w.cur.astray {
		return false // until a scan tells where it is
	}
	if w.empty() {
		return true
	}
	if !w.resumed {
		return slices.ContainsFunc(w.files, func(f *file) bool { return w.unread(f) > 0 })
	}
	return w.unread(w.cur) > 0 || w.next(now) != nil
}

// empty says whether it is to be stored that the whole exists.
func (w *whole) empty() bool {
	return !w.noted && w.pos == 0 && len(w.files) == 1 && w.cur.size == 0 && !w.cur.gone
}

// Empty implements ship.Emptiable.
func (w *whole) Empty() (since time.Time, ok bool) {
	w.tree.lock.Lock()
	defer w.tree.lock.Unlock()
	return w.cur.grown, w.empty()
}

// Noted implements ship.Emptiable.
func (w *whole) Noted() {
	w.tree.lock.Lock()
	defer w.tree.lock.Unlock()
	w.noted = true
}

// next is the file to go on with once the current has no more.
func (w *whole) next(now time.Time) *file {
	newer := false
	for _, f := range w.files {
		if f == w.cur {
			newer = true
		} else if w.unread(f) > 0 {
			return f
		}
		// Newer generations wait until this one surely is complete.
		if newer && (f.astray || (!f.gone && !w.tree.draining && (w.home(f) || now.Sub(f.grown) < settle))) {
			return nil
		}
	}
	return nil
}

// Whole implements ship.Source.
func (w *whole) Whole() string { return w.key }

// Pending implements ship.Source. When the current file has no more it moves on to the next, having noted that in the state first.
func (w *whole) Pending(max int64) (offset, n int64, oldest time.Time) {
	w.tree.lock.Lock()
	defer w.tree.lock.Unlock()
	if w.cur.astray {
		return w.pos, 0, time.Time{}
	}
	if !w.resumed {
		// Where the whole is to go on is not known yet; that there is something is.
		for _, f := range w.files {
			if u := w.unread(f); u > 0 {
				n += u
				oldest = earlier(oldest, f.oldest)
			}
		}
		return w.pos, min(n, max), oldest
	}
	n = w.unread(w.cur)
	if n == 0 {
		next := w.next(time.Now())
		if next == nil {
			return w.pos, 0, time.Time{}
		}
		if w.flying {
			// The current file was retired under a chunk that may yet turn out to be stored: it is not left before that is clear.
			return w.pos, min(w.unread(next), max), next.oldest
		}
		if err := w.moveTo(next); err != nil {
			w.tree.log.WithError(err).Warn("could not note that a log was rotated: after a crash right now a part of it could be stored twice")
		}
		n = w.unread(w.cur)
	}
	return w.pos, min(n, max), w.cur.oldest
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// moveTo makes next the current file.
func (w *whole) moveTo(next *file) error {
	w.leave()
	w.cur, w.base, w.from = next, w.pos, next.read
	w.tree.metrics.generations.Inc()
	w.tree.log.WithFields(logrus.Fields{"log": w.path, "file": next.full(), "from": w.from, "at": w.base}).Debug("a log goes on in another file")
	return w.tree.save()
}

// leave notes how far the current file is read.
func (w *whole) leave() {
	w.cur.read = w.consumed(w.cur)
	if w.cur.gone {
		w.files = slices.DeleteFunc(w.files, func(f *file) bool { return f == w.cur })
	}
}

// Resume implements ship.Source.
func (w *whole) Resume(stored int64) error {
	w.tree.lock.Lock()
	defer w.tree.lock.Unlock()
	w.flying = false
	if stored < w.base {
		if w.shrunk != stored+1 {
			w.shrunk = stored + 1
			return fmt.Errorf("the store holds %d bytes though %d were stored before: it is asked again", stored, w.base)
		}
		// The store has lost what it had, or is another one: everything that is still here is stored again.
		w.resumed, w.shrunk = true, 0
		for _, f := range w.files {
			f.read = 0
		}
		w.cur, w.base, w.from, w.pos = w.files[0], stored, 0, stored
		return w.tree.save()
	}
	moved := false
	for w.pos = stored; !w.cur.gone && w.consumed(w.cur) > w.cur.end(); moved = true {
		if err := w.tree.refresh(w.cur); err != nil {
			w.resumed = false
			return err
		}
		over := w.consumed(w.cur) - w.cur.end()
		i := slices.Index(w.files, w.cur) + 1
		switch {
		case over <= 0:
		case i < len(w.files):
			// Another collector was faster, or the state is older than the store: the rest is of the next generation.
			w.cur.read = w.cur.end()
			w.cur = w.files[i]
			w.from, w.base = w.cur.read, stored-over
		default:
			// The file is shorter than what was stored of it: it was begun anew while nobody looked.
			w.from, w.base = 0, stored
		}
	}
	w.resumed, w.shrunk = true, 0
	w.shipped()
	if moved {
		return w.tree.save()
	}
	return nil
}

// Shipped implements ship.Source.
func (w *whole) Shipped(end int64) {
	w.tree.lock.Lock()
	defer w.tree.lock.Unlock()
	w.pos, w.flying = end, false
	w.shipped()
}

// shipped brings the age of the current file's oldest byte up to date: what is left came at the last growth, or before it in a chunk
// that is due anyway.
func (w *whole) shipped() {
	w.cur.oldest = w.cur.grown
	if w.consumed(w.cur) >= w.cur.end() {
		w.cur.oldest = time.Time{}
	}
}

// Open implements ship.Source.
func (w *whole) Open(offset, n int64) (io.ReadSeekCloser, error) {
	w.tree.lock.Lock()
	f, at := w.cur, w.from+offset-w.base
	name, id, was := f.full(), f.id, f.print
	w.tree.lock.Unlock()
	opened, info, err := w.tree.open(name, id)
	if err == nil {
		var is print
		if is, err = printOf(opened, was.n); err == nil && (is != was || info.Size() < at+n) {
			err = errChanged
		}
		if err != nil {
			_ = opened.Close()
		}
	}
	if err != nil {
		w.tree.failed(f, err)
		return nil, fmt.Errorf("open log %s: %w", name, err)
	}
	w.tree.lock.Lock()
	w.flying = true
	w.tree.lock.Unlock()
	return section{io.NewSectionReader(opened, at, n), opened}, nil
}

// section is a part of a file that closes the file.
type section struct {
	*io.SectionReader
	io.Closer
}

// failed takes a file that cannot be opened out of what is pending until the next scan has looked at it, or the next try is due.
func (t *tree) failed(f *file, err error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if errors.Is(err, errChanged) || errors.Is(err, fs.ErrNotExist) {
		f.astray = true
		t.wake()
		return
	}
	t.unreadable(f, time.Now(), err)
}
