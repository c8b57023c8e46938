package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times between scans, and between looks at single files. Both cost some microseconds per file. Waiting a multiple of
// the last one's duration bounds the share of a core that they take, however many files there are; the maxima keep a
// slow one from delaying the next for long.
const (
	// rescan is the usual time between two scans that no notice asked for: the kernel's notices can get lost.
	rescan     = 10 * time.Second
	maxRescan  = 30 * time.Second // while all folders are watched
	idleFactor = 500              // at most 0.2 % of a core
	// minGap is the shortest time between two scans, or two looks.
	minGap      = time.Second
	maxGap      = 10 * time.Second
	wokenFactor = 200 // at most 0.5 % of a core
	// noticeGap is how long noteArrived waits for one more notice. maxNotices bounds how many notices it takes, since
	// some logs are written all the time.
	noticeGap  = 5 * time.Millisecond
	maxNotices = 32 << 10
	// maxWatched bounds the folders that are watched: each takes some kilobyte, also of the kernel's memory.
	maxWatched = 16 << 10
)

var errManyFolders = fmt.Errorf("there are more than %d folders", maxWatched)

// Start follows the logs in the background until Close.
func (t *Tailer) Start() {
	t.work.Start(func(ctx context.Context) {
		w := newWatcher(t)
		defer w.closeWatches()
		t.scanAndWatch(ctx, w)
	})
}

// Close ends what Start began. Scan and the sources still work.
func (t *Tailer) Close() { t.work.Close() }

// scanAndWatch scans all logs, looks at changed files until the next scan is due, and so on, until ctx ends.
func (t *Tailer) scanAndWatch(ctx context.Context, w *watcher) {
	// What an earlier collector left is stored while the first scan goes on. An error here is met by that scan again,
	// which warns of it.
	_ = t.LookAtFollowed(ctx)
	for ctx.Err() == nil {
		start := time.Now()
		dirs, err := t.scanSessions(ctx, w)
		if err != nil && ctx.Err() == nil {
			t.warnings.failed.Warn(time.Now(), "could not look for logs; the next scan tries again", err)
		}
		took := time.Since(start)
		w.watchOnly(dirs) // none after a failed scan: ctx has ended, or Ray's folder cannot be opened
		w.untilScan(ctx, took)
	}
}

// untilScan looks at the files that notices name until the next scan is due or ctx ends. took is how long the last scan
// took: the longer, the later the next one is due. A scan that something asks for comes sooner.
func (w *watcher) untilScan(ctx context.Context, took time.Duration) {
	longest := maxRescan
	if w.atLimit {
		longest = rescan
	}
	ended := time.Now()
	due := ended.Add(min(max(rescan, idleFactor*took), longest))
	soonest := ended.Add(min(max(minGap, wokenFactor*took), maxGap)) // if something asks for a scan
	gap := minGap                                                    // from the last look to the next
	w.lastLook = ended
	for ctx.Err() == nil && time.Now().Before(due) {
		select {
		case <-w.t.scanWanted: // first: among notices that never end it would wait for its turn
			due = earlierTime(due, soonest)
			continue
		default:
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-w.t.scanWanted:
			due = earlierTime(due, soonest)
		case e := <-w.events:
			w.noteChange(e)
			if w.sleep(ctx, time.Until(w.lastLook.Add(gap))) {
				gap = w.lookAtNoted(func(c changes) { w.t.lookAt(ctx, c) })
			}
		case <-w.errors:
			w.recordLostNotices()
		}
		timer.Stop()
	}
}

// sleep waits for the time d, and notes the notices of changes that come meanwhile; it returns false once ctx ends.
// Notices are left in the kernel's queue for a while, because there the kernel merges those of one file, but not for
// long, because then some get lost.
func (w *watcher) sleep(ctx context.Context, d time.Duration) bool {
	for ; d > 0; d -= minGap {
		timer := time.NewTimer(min(d, minGap))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		w.noteArrived()
	}
	w.noteArrived()
	return true
}

// lookAtNoted looks at what was noted, and returns how long to wait before the next look.
func (w *watcher) lookAtNoted(look func(changes)) (gap time.Duration) {
	start := time.Now()
	if c := w.noted; c.followed || len(c.paths) > 0 {
		w.noted = changes{}
		look(c)
	}
	w.lastLook = time.Now()
	return min(max(minGap, wokenFactor*w.lastLook.Sub(start)), maxGap, max(minGap, w.t.opts.PushInterval/2))
}

// lookDuringScan looks at what notices name while a scan goes on, at most once in minGap. If folders are not watched,
// it looks at all followed files, because no notice names those in them.
func (w *watcher) lookDuringScan(look func(changes)) {
	if time.Since(w.lastLook) < minGap {
		return
	}
	w.noteArrived()
	if w.atLimit {
		w.noted.followed = true
	}
	w.lookAtNoted(look)
}

// watcher asks the kernel for notices of changes in folders. Changes in folders that cannot be watched are found by
// scans, a little later.
type watcher struct {
	t       *Tailer
	watched map[string]bool
	atLimit bool // some folder is not watched, and a warning was logged

	noted    changes   // by notices, and not looked at
	lastLook time.Time // when the last look, or scan, ended

	// Of a fsnotify.Watcher; nil if the kernel gives none.
	events      chan fsnotify.Event
	errors      chan error
	add, remove func(dir string) error
	close       func() error
}

// newWatcher makes a watcher, which watches nothing if the kernel does not allow it.
func newWatcher(t *Tailer) *watcher {
	w := &watcher{t: t, watched: make(map[string]bool)}
	notify, err := fsnotify.NewBufferedWatcher(512)
	if err != nil {
		w.recordLimit(err)
		return w
	}
	w.events, w.errors, w.add, w.remove, w.close = notify.Events, notify.Errors, notify.Add, notify.Remove, notify.Close
	return w
}

func (w *watcher) closeWatches() {
	if w.close != nil {
		_ = w.close()
	}
	w.t.metrics.watches.Set(0)
}

// watchFolder watches a folder below Ray's temporary folder, and says whether it was not watched before.
func (w *watcher) watchFolder(dir string) (added bool) {
	if w.add == nil || w.watched[dir] {
		return false
	}
	if len(w.watched) >= maxWatched {
		w.recordLimit(errManyFolders)
		return false
	}
	switch err := w.add(w.t.absolutePath(dir)); {
	case err == nil:
		w.watched[dir] = true
		return true
	case errors.Is(err, syscall.ENOENT), errors.Is(err, fs.ErrPermission): // a scan tells of what it cannot read
	default:
		w.recordLimit(err)
	}
	return false
}

// watchOnly watches these folders, and no others. It does nothing if the kernel gives no notices.
func (w *watcher) watchOnly(dirs []string) {
	if w.add == nil {
		return
	}
	wanted := make(map[string]bool, len(dirs))
	for _, dir := range dirs {
		wanted[dir] = true
	}
	for dir := range w.watched {
		if !wanted[dir] {
			_ = w.remove(w.t.absolutePath(dir)) // fails if the folder is gone, and then its watch is gone too
			delete(w.watched, dir)
		}
	}
	for _, dir := range dirs {
		if w.watchFolder(dir) {
			w.t.scanSoon() // for changes between the scan and now
		}
	}
	w.t.metrics.watches.Set(float64(len(w.watched)))
}

// recordLimit records that the kernel allows no more watches, and logs this once with the setting that changes it.
// Folders are then scanned more often.
func (w *watcher) recordLimit(err error) {
	if w.atLimit {
		return
	}
	w.atLimit = true
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		hint = ": the limit of watches is reached; raise it on the node with sysctl fs.inotify.max_user_watches"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		hint = ": the limit of watchers is reached; raise it on the node with sysctl fs.inotify.max_user_instances"
	}
	w.t.opts.Log.WithError(err).Warnf(
		"not all log folders can be watched%s. Folders are scanned every %s instead; nothing is lost", hint, rescan)
}

// noteArrived notes the notices that arrived so far, at most maxNotices. fsnotify gives them one by one, so noteArrived
// waits a little for each: otherwise a thousand new files would take a thousand looks.
func (w *watcher) noteArrived() {
	timer := time.NewTimer(noticeGap)
	defer timer.Stop()
	for range maxNotices {
		select {
		case e, ok := <-w.events:
			if !ok {
				return
			}
			w.noteChange(e)
		case <-w.errors:
			w.recordLostNotices()
		case <-timer.C:
			return
		}
		timer.Reset(noticeGap)
	}
}

// noteChange adds the file that a notice names to w.noted. A scan comes soon instead if the file is outside of Ray's
// temporary folder or if w.noted is full.
func (w *watcher) noteChange(e fsnotify.Event) {
	name, ok := strings.CutPrefix(e.Name, w.t.absolutePath("")+"/")
	if ok && w.watched[name] && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)) {
		w.forgetWatches(name) // the folder is gone
	}
	switch {
	case !ok:
		w.t.scanSoon()
	case !w.noted.addPath(name, e.Op):
		w.recordLostNotices()
	}
}

// forgetWatches forgets a folder that is gone, and those in it: one that is made in its place is another.
func (w *watcher) forgetWatches(gone string) {
	for dir := range w.watched {
		if dir == gone || strings.HasPrefix(dir, gone+"/") {
			_ = w.remove(w.t.absolutePath(dir)) // it fails if the watch is gone, too
			delete(w.watched, dir)
		}
	}
}

// recordLostNotices has all followed files looked at, and a scan soon: the kernel's queue or w.noted was full.
func (w *watcher) recordLostNotices() {
	w.noted.followed = true
	w.t.scanSoon()
}
