package logs

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times between scans. A scan costs some microseconds per file. Waiting a multiple of the last scan's duration bounds the share of a core
// that scans take, however many files there are; the maxima keep one slow scan from delaying the next for long.
const (
	// rescan is the usual time between two scans that no notice asked for: the kernel's notices can get lost.
	rescan     = 10 * time.Second
	maxRescan  = 30 * time.Second // while all folders are watched
	idleFactor = 500              // at most 0.2 % of a core
	// minGap is the shortest time between two scans.
	minGap      = time.Second
	maxGap      = 10 * time.Second
	wokenFactor = 200 // at most 0.5 % of a core
	// noticeGap is how long drain waits for one more notice. maxNotices bounds how many notices it drops, since some logs are written all
	// the time.
	noticeGap  = 5 * time.Millisecond
	maxNotices = 4096
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
			t.warnings.failed.Warn(time.Now(), "could not look for logs; the next scan tries again", err)
		}
		took := time.Since(start)
		w.watch(dirs)
		// Notices are left in the kernel's queue during the gap: there the kernel merges those of one file.
		if !wait(ctx, min(max(minGap, wokenFactor*took), maxGap), nil, nil) {
			return
		}
		w.drain()
		longest := maxRescan
		if w.limited {
			longest = rescan
		}
		if !wait(ctx, min(max(rescan, idleFactor*took), longest)-minGap, w.events, t.again) {
			return
		}
	}
}

// wait waits for d, a notice or a request; it returns false once ctx ends.
func wait(ctx context.Context, d time.Duration, notices <-chan fsnotify.Event, requests <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-notices:
	case <-requests:
	}
	return true
}

// watcher asks the kernel for notices of changes in folders. Changes in folders that cannot be watched are found by scans, a little later.
type watcher struct {
	t       *Tailer
	watched map[string]bool
	limited bool // some folder is not watched, and a warning was logged

	// Of a fsnotify.Watcher; nil if the kernel gives none.
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

// watch watches these folders, below Ray's temporary folder, and no others.
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
			w.t.scanSoon() // for changes between the scan and now
		case errors.Is(err, syscall.ENOENT):
		default:
			w.limit(err)
		}
	}
	for dir := range w.watched {
		if !wanted[dir] {
			_ = w.remove(w.t.below(dir)) // fails if the folder is gone, and then its watch is gone too
			delete(w.watched, dir)
		}
	}
	w.t.metrics.watches.Set(float64(len(w.watched)))
}

// limit logs once that the kernel allows no more watches, and the setting that changes it.
func (w *watcher) limit(err error) {
	if w.limited {
		return
	}
	w.limited = true
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		hint = ": the limit of watches is reached; raise it on the node with sysctl fs.inotify.max_user_watches"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		hint = ": the limit of watchers is reached; raise it on the node with sysctl fs.inotify.max_user_instances"
	}
	w.t.opts.Log.WithError(err).Warnf("not all log folders can be watched%s. Folders are scanned every %s instead; nothing is lost", hint, rescan)
}

// drain drops the notices that arrived so far and asks for one scan, which sees the same changes. It also serves an overflow of the
// kernel's queue. fsnotify gives notices one by one, so drain waits a little for each: otherwise a thousand new files would take a thousand
// scans.
func (w *watcher) drain() {
	timer := time.NewTimer(noticeGap)
	defer timer.Stop()
	for range maxNotices {
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
