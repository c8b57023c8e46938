package logs

import (
	"cmp"
	"context"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// A scan looks at all files, and half a million take seconds. Between two scans, and while one goes on, single files
// are looked at: those that the kernel's notices name. So logs that grow, new logs and idle ones that are written
// to are stored without waiting for a scan. What cannot be told without the rest of the folder (rotation, truncation,
// copies) is left to a scan, which is asked for.

// changes are the files to look at.
type changes struct {
	paths map[string]fsnotify.Op // below Ray's temporary folder, and what happened to each
	// followed adds all files that are followed: notices were lost, or there are none.
	followed bool
}

// maxChanges bounds the paths in changes.
const maxChanges = 16 << 10

// addPath adds a path and what happened to it; false, without adding it, if there are maxChanges paths.
func (c *changes) addPath(path string, happened fsnotify.Op) bool {
	if len(c.paths) >= maxChanges {
		return false
	}
	if c.paths == nil {
		c.paths = make(map[string]fsnotify.Op)
	}
	c.paths[path] |= happened
	return true
}

// LookAtFollowed looks at the logs that are followed, also by the state files of an earlier collector.
func (t *Tailer) LookAtFollowed(ctx context.Context) error {
	t.scanning.Lock()
	defer t.scanning.Unlock()
	root, sessions, err := t.openRoot()
	if root == nil {
		return err
	}
	defer root.Close()
	for _, session := range sessions {
		_, _ = t.treeOrNew(ctx, session) // a scan tells the error
	}
	t.lookAtChanges(ctx, root, changes{followed: true})
	return nil
}

func (t *Tailer) lookAt(ctx context.Context, c changes) {
	t.scanning.Lock()
	defer t.scanning.Unlock()
	root, err := os.OpenRoot(t.opts.Dir)
	if err != nil {
		t.scanSoon() // it tells the error
		return
	}
	defer root.Close()
	t.lookAtChanges(ctx, root, c)
}

// lookAtChanges looks at the logs that are named by the changes. A scan is asked for where a session or its folder of
// logs was made, moved or removed. The caller holds t.scanning.
func (t *Tailer) lookAtChanges(ctx context.Context, root *os.Root, c changes) {
	files := make(map[*tree][]seenFile)
	for p := range c.paths {
		session, rest, _ := strings.Cut(p, "/")
		tree := t.treeOf(session)
		below, isLog := strings.CutPrefix(rest, "logs/")
		switch {
		case isLog && tree != nil:
			files[tree] = append(files[tree], seenFile{dir: tree.dir, path: below})
		case tree == nil, rest == "", rest == "logs": // a session or its folder of logs was made, moved or removed
			t.scanSoon()
		}
	}
	if c.followed {
		for _, tree := range t.allTrees() {
			files[tree] = append(files[tree], tree.followedFiles()...)
		}
	}
	for tree, seen := range files {
		_, _ = t.treeOrNew(ctx, tree.session) // the node may be another by now; a scan tells the error
		tree.updateFiles(root, time.Now(), t.freePlaces(), seen, c.paths)
	}
	if len(files) > 0 {
		background.Signal(t.notify)
	}
}

// followedFiles are the files that are followed, where they were last seen.
func (t *tree) followedFiles() []seenFile {
	t.lock.Lock()
	defer t.lock.Unlock()
	files := make([]seenFile, 0, len(t.files))
	for _, f := range t.files {
		if t.removed[f.id] == nil {
			files = append(files, seenFile{dir: f.dir, path: f.path})
		}
	}
	return files
}

// updateFiles updates the files with these dirs and paths: it asks the file system for the other fields. It follows at
// most free more files. happened says what the kernel's notices told of each path below Ray's temporary folder; files
// that no notice named are not in it. Whatever needs a look at the whole folder, such as a rotation, is left to a scan.
func (t *tree) updateFiles(root *os.Root, now time.Time, free int, files []seenFile, happened map[string]fsnotify.Op) {
	var w walkResult
	notLogs := w.statFiles(root, files)
	t.lock.Lock()
	defer t.lock.Unlock()
	t.root = root
	defer func() { t.root = nil }()
	if len(w.dirs) > 0 {
		t.scanSoon() // the notice was about a folder, perhaps a new one
	}
	for _, s := range notLogs {
		op := happened[s.fullPath()]
		isFollowed := t.streams[streamID{t.nodeOf(s.dir), s.path}] != nil
		// Of an idle log at most the last lines are lost, unless another was created in its place.
		wasIdle := t.idle.files[keyOfPath(s.dir, s.path)].prefixSize > 0 && !op.Has(fsnotify.Create)
		switch {
		case isFollowed || wasIdle:
			t.scanSoon()
		case isGone(s, op):
			t.recordLostLog(now, s)
		}
	}
	found := &candidates{free: free}
	for _, s := range w.batch {
		f := t.files[s.id]
		switch {
		case isDump(s.path): // a scan knows whether it is the last one
		case f != nil && f.isAt(s):
			t.lookAgain(now, f, s)
		case f == nil && t.isAlone(s):
			t.classifyFiles([]seenFile{s}, found)
		default:
			t.scanSoon()
		}
	}
	t.admitCandidates(found)
	for _, s := range found.chosen {
		switch f := t.files[s.id]; {
		case f == nil:
			t.followNew(now, s, t.streamOf(t.nodeOf(s.dir), s.path))
		case f.isAt(s): // otherwise it has two names
			t.lookAgain(now, f, s)
		}
	}
	if found.waiting.count > 0 {
		t.scanSoon()
	}
	t.saveAll(now)
}

// isGone says whether a file that is missing was a log with bytes that nobody read: it was written and removed since
// the last look. One that was renamed is found under its new name.
func isGone(s seenFile, happened fsnotify.Op) bool {
	return happened.Has(fsnotify.Write) && happened.Has(fsnotify.Remove) && !happened.Has(fsnotify.Rename) &&
		!isDump(s.path) && !skippedFile(path.Base(s.path))
}

// recordLostLog says that a log was lost. How long it was nobody knows.
func (t *tree) recordLostLog(now time.Time, s seenFile) {
	t.tailer.metrics.gone.Inc()
	if log, ok := t.tailer.warnings.lost.Allow(now); ok {
		log.WithFields(logrus.Fields{"session": t.session, "log": s.path}).Warn(
			"a log was written and removed before it could be read: it is lost; " +
				"have its program keep it for some seconds")
	}
}

func (t *tree) lookAgain(now time.Time, f *file, s seenFile) {
	f.lastScan = t.scans.current()
	if !t.updateIfSame(now, f, s) {
		t.scanSoon()
	}
}

// isAlone says whether a file that is not followed has nothing to do with another: it is new, or it was idle under this
// name.
func (t *tree) isAlone(s seenFile) bool {
	_, _, rotated := splitRotated(s.path)
	if rotated || t.streams[streamID{t.nodeOf(s.dir), s.path}] != nil || t.mayBeCopy(s) {
		return false
	}
	if f, isIdle := t.idle.files[keyOfPath(s.dir, s.path)]; isIdle { // an empty one has nothing to be told by
		return f.prefixSize == 0 || t.idle.isFile(f, s)
	}
	_, moved := t.findIdle(s)
	return !moved && layout.CheckLogPath(keyPath(s.path)) == nil
}

// statFiles looks at files by dir and path. It adds logs to w.batch and folders to w.dirs, and returns all files that
// are not logs or do not exist, folders included. It changes the order of files: sorted, each folder is opened once.
func (w *walkResult) statFiles(root *os.Root, files []seenFile) (notLogs []seenFile) {
	slices.SortFunc(files, func(a, b seenFile) int {
		return cmp.Or(strings.Compare(a.dir, b.dir), strings.Compare(a.path, b.path))
	})
	files = slices.Compact(files)
	var folder *os.File
	name := ""
	for _, s := range files {
		within, base := path.Split(s.fullPath())
		if within != name {
			if folder != nil {
				_ = folder.Close()
			}
			name = within
			folder, _ = regular.OpenFolder(root, path.Clean(within)) // nil: nothing in it is a log
		}
		before := len(w.batch)
		if folder != nil {
			below := strings.TrimSuffix(strings.TrimSuffix(s.path, base), "/")
			if w.addEntry(folder, s.dir, below, base) {
				w.dirs = append(w.dirs, s.fullPath())
			}
		}
		if len(w.batch) == before {
			notLogs = append(notLogs, s)
		}
	}
	if folder != nil {
		_ = folder.Close()
	}
	return notLogs
}
