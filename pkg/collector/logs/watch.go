package logs

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times of the monitor. A scan costs some microseconds a file, so multiples of its own duration bound what it costs altogether, however
// many files there are; the limits keep one slow scan from putting the next off for long.
const (
	// rescan is the usual time between two scans that no notice asked for: the kernel's notices may get lost.
	rescan     = 10 * time.Second
	rescanMost = 30 * time.Second // where the kernel tells of changes
	idleShare  = 500
	// wokenGap is the shortest time between two scans.
	wokenGap     = time.Second
	wokenGapMost = 10 * time.Second
	wokenShare   = 200
	// noticeGap is how long the next notice may take to be one of those that came already; mostNotices bounds what is thrown away at once,
	// and so what logs cost that are written to all the time.
	noticeGap   = 5 * time.Millisecond
	mostNotices = 4096
)

// Start follows the logs in the background until Close.
func (t *Tailer) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go func() {
		defer close(t.done)
		w := newWatcher(t)
		defer w.end()
		t.run(ctx, w)
	}()
}

// Close ends what Start began. Scan and the sources still work.
func (t *Tailer) Close() {
	t.cancel()
	<-t.done
}

func (t *Tailer) run(ctx context.Context, w *watcher) {
	for ctx.Err() == nil {
		start := time.Now()
		dirs, err := t.Scan(ctx)
		if err != nil {
			t.opts.Log.WithError(err).Warn("could not look for logs; it is tried again")
		}
		took := time.Since(start)
		w.watch(dirs)
		// No notice is heeded during the gap: the kernel merges those of a file that is written to all the time.
		if !wait(ctx, min(max(wokenGap, wokenShare*took), wokenGapMost), nil, nil) {
			return
		}
		w.drain()
		most := rescanMost
		if w.limited {
			most = rescan
		}
		if !wait(ctx, min(max(rescan, idleShare*took), most)-wokenGap, w.events, t.again) {
			return
		}
	}
}

// wait for d, an event or a wish, false once ctx ends.
func wait(ctx context.Context, d time.Duration, events <-chan fsnotify.Event, wish <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-events:
	case <-wish:
	}
	return true
}

// watcher has the kernel tell of changes in folders. Where it cannot, scans find them a little later.
type watcher struct {
	t       *Tailer
	watched map[string]bool
	limited bool // a warning was logged that some folder is not watched

	// Of a fsnotify.Watcher; nil where there is none to be had.
	events      chan fsnotify.Event
	errors      chan error
	add, remove func(dir string) error
	close       func() error
}

func newWatcher(t *Tailer) *watcher {
	w := &watcher{t: t, watched: make(map[string]bool)}
	notify, err := fsnotify.NewBufferedWatcher(512)
	if err != nil {
		w.limit(err)
		return w
	}
	w.events, w.errors, w.add, w.remove, w.close = notify.Events, notify.Errors, notify.Add, notify.Remove, notify.Close
	return w
}

func (w *watcher) end() {
	if w.close != nil {
		_ = w.close()
	}
	w.t.metrics.watches.Set(0)
}

// watch makes the folders, below Ray's temporary folder, the ones that are watched.
func (w *watcher) watch(dirs []string) {
	if w.add == nil {
		return
	}
	wanted := make(map[string]bool, len(dirs))
	for _, dir := range dirs {
		wanted[dir] = true
		if w.watched[dir] {
			continue
		}
		switch err := w.add(w.t.below(dir)); {
		case err == nil:
			w.watched[dir] = true
			w.t.scanSoon() // for what came between the scan and now
		case errors.Is(err, syscall.ENOENT):
		default:
			w.limit(err)
		}
	}
	for dir := range w.watched {
		if !wanted[dir] {
			_ = w.remove(w.t.below(dir)) // an error is that the folder is gone, and its watch with it
			delete(w.watched, dir)
		}
	}
	w.t.metrics.watches.Set(float64(len(w.watched)))
}

// limit says once that the kernel gives no more notices, and which setting would change that.
func (w *watcher) limit(err error) {
	if w.limited {
		return
	}
	w.limited = true
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		hint = ": the limit of watches is reached, raise it on the node with sysctl fs.inotify.max_user_watches"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		hint = ": the limit of watchers is reached, raise it on the node with sysctl fs.inotify.max_user_instances"
	}
	w.t.opts.Log.WithError(err).Warnf("not all log folders can be watched%s. They are scanned every %s instead; nothing is lost", hint, rescan)
}

// drain throws the notices away that came so far: the scan that follows sees what they tell of. An overflow of the kernel's queue is
// no different. Notices are handed over one by one, so it waits a little for each: those of a thousand new files would else take a
// thousand scans.
func (w *watcher) drain() {
	timer := time.NewTimer(noticeGap)
	defer timer.Stop()
	for range mostNotices {
		select {
		case _, ok := <-w.events:
			if !ok {
				return
			}
			w.t.scanSoon()
		case <-w.errors:
			w.t.scanSoon()
		case <-timer.C:
			return
		}
		timer.Reset(noticeGap)
	}
}
