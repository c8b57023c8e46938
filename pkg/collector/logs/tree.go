package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// tree is the logs folder of one session.
type tree struct {
	tailer  *Tailer
	session string
	dir     string // the folder that logs are written to, below Ray's temporary folder
	state   string // path of the state file
	node    rayid.Node
	log     logrus.FieldLogger

	walked walkResult          // of the last scan
	chosen []seenFile          // memory for those of the next scan that are looked at
	seen   map[fileID]seenFile // of the last scan

	lock    sync.Mutex
	root    *os.Root              // Ray's temporary folder, during a scan
	nodes   map[string]rayid.Node // by folder, if its logs are not of the session's own node
	files   map[fileID]*file      // those that are not finished
	streams map[streamID]*stream
	copies  map[fileID]time.Time // new files that may be copies, since when
	removed map[fileID]*removedLog
	idle    idleLogs
	empty   emptyLogs
	waiting waitingLogs // of the last scan
	scans   scanState
	// pinned is how many logs cannot become idle although they are stored, because they were rotated. They do not count
	// against maxFollowed.
	pinned   int
	dirty    bool            // the state file is out of date
	ended    bool            // Ray has ended the session here
	reported map[string]bool // paths of which an error was logged, at most maxReported
}

// scanState is what a tree knows of its scans.
type scanState struct {
	number int // of those that saw every folder, except those that the collector has no right to read
	// underWay says that a scan is under way, which counts when it has seen all of these.
	underWay   bool
	incomplete bool // the last one could not read all folders that it has the right to
	unseen     int  // files whose size the file system did not tell the last one
	// draining says that Ray had stopped writing before the last one, so no file waits for more bytes.
	draining bool
}

// current is the number of the scan that is under way, or else of the last one.
func (s *scanState) current() int {
	if s.underWay {
		return s.number + 1
	}
	return s.number
}

// maxReported bounds the names that are kept so that each is told of once.
const maxReported = 10_000

// streamID identifies a stream of a session.
type streamID struct {
	node rayid.Node
	path string // below the logs folder
}

// retryTime is the time between two tries to read an unreadable file.
const retryTime = time.Minute

func (t *tree) scanSoon() { t.tailer.scanSoon() }

// scanning is what the scans of all sessions share.
type scanning struct {
	root     *os.Root
	draining bool
	// free is how many more files may be followed.
	free func() int
	// opened, unless nil, gets each folder before it is read. between is called between two batches of files, and ends
	// a scan early by an error.
	opened  func(dir string)
	between func() error
	// gone gets how many idle logs no scan finds any more, by their age.
	gone *[256]int
}

// scan looks at every file of the session's logs, and updates the followed files and their streams: it walks through
// the folders, gives free places to new files, and reconciles these and the followed files with what was known. When
// places become few, logs that no longer grow give theirs up. It returns the folders of logs, below Ray's temporary
// folder. The error is only that of sc.between; what cannot be read is reported. The tree is not locked while folders
// are read.
func (t *tree) scan(sc scanning, now time.Time) (dirs []string, err error) {
	w := &t.walked
	moved, movedErr := movedLogs(sc.root, t.session)
	t.lock.Lock()
	if movedErr == nil {
		t.nodes = moved
	}
	t.scans.underWay, t.empty.full = true, false
	t.lock.Unlock()
	clear(t.chosen[:cap(t.chosen)]) // so that their names can be freed
	found := &candidates{free: sc.free(), chosen: t.chosen[:0]}
	dirs = append(slices.Sorted(maps.Keys(moved)), t.dir)
	err = w.walkFolders(sc.root, dirs, visitor{opened: sc.opened, files: func(files []seenFile) error {
		t.lock.Lock()
		t.classifyFiles(files, found)
		t.lock.Unlock()
		return sc.between()
	}})
	found.free = min(found.free, sc.free()) // what was looked at meanwhile may have taken places
	t.lock.Lock()
	defer t.lock.Unlock()
	t.scans.underWay = false
	if err != nil {
		return nil, err
	}
	if movedErr != nil {
		w.recordError(path.Join(previousLogs, t.session), fmt.Errorf("read the folder of moved logs: %w", movedErr))
	}
	t.root = sc.root
	defer func() { t.root = nil }()
	t.scans.draining, t.scans.incomplete, t.scans.unseen = sc.draining || t.ended, w.incomplete, len(w.unseen)
	for _, err := range w.errs {
		t.reportOnce(err.Error(), err)
	}
	free := found.free
	t.seeRemoved(now, found)
	t.admitCandidates(found)
	t.waiting, t.chosen = found.waiting, found.chosen
	t.reconcile(now, found.chosen)
	t.passToNode()
	t.retireRemoved()
	if !w.incomplete {
		t.ageIdle(sc.gone)
	}
	switch {
	case t.waiting.count > 0: // logs wait for places
		t.retireStored(now, settleTime)
	case free < maxFollowed/2: // places may become few
		t.retireStored(now, idleAfter)
	}
	t.idle.dirty = t.idle.dirty || t.empty.unsaved
	t.saveAll(now)
	return w.dirs, nil
}

// saveAll writes what has changed. What could not be written is tried again by the next scan. The names of empty logs
// are listed before the idle logs are saved, because empty ones in that file count as listed.
func (t *tree) saveAll(now time.Time) {
	warn := func(err error, text string) {
		if err == nil {
			return
		}
		if log, ok := t.tailer.warnings.unsaved.Allow(now); ok {
			log.WithField("session", t.session).WithError(err).Warn(text)
		}
	}
	const unsaved = "could not save the identities of logs: a log that is rotated while the collector restarts could be " +
		"stored twice"
	warn(t.listEmpty(), "could not list empty logs; they are listed once what waits for the store is less")
	save := t.saveIdle
	if t.dirty {
		save = t.saveState
	}
	warn(save(), unsaved)
}

// markUnreadable makes a file not pending until it is tried again. The reason is logged once.
func (t *tree) markUnreadable(f *file, now time.Time, err error) {
	f.readFailed(now, err)
	t.reportOnce(f.path, err)
}

// openFailed makes a file that cannot be opened not pending: until the next scan if it was moved.
func (t *tree) openFailed(f *file, err error) {
	if isElsewhere(err) {
		if isDump(f.path) && errors.Is(err, errChanged) && f.stream.storedBytesOf(f) == 0 {
			f.size, f.sizeIsExact, f.prefix, f.linesEnd = 0, false, prefix{}, 0 // the next scan sees what is there now
		}
		f.handle(fileMoved)
		t.scanSoon()
		return
	}
	t.markUnreadable(f, time.Now(), err)
}

// reportOnce counts an error about a log or a folder, and warns of it, once for each what: its path, or the error's
// text. A warning that the throttle leaves out is not made up for. Of more than maxReported, each further error is
// counted.
func (t *tree) reportOnce(what string, err error) {
	if t.reported[what] {
		return
	}
	if len(t.reported) < maxReported {
		t.reported[what] = true
	}
	t.tailer.metrics.unreadable.Inc()
	if log, ok := t.tailer.warnings.unreadable.Allow(time.Now()); ok {
		text := "could not read a log; it is tried again"
		if errors.Is(err, fs.ErrPermission) {
			text += ": " + RightsAdvice
		}
		log.WithFields(logrus.Fields{"session": t.session, "log": what}).WithError(err).Warn(text)
	}
}

// RightsAdvice is what to do about files of Ray's that the collector has no right to read.
const RightsAdvice = "run Ray with umask 022, or the collector as Ray's user (securityContext.runAsUser)"

// updateSize asks the file system whether a file is longer than known. If the file is no longer at its path, it becomes
// moved and a scan is asked for.
func (t *tree) updateSize(f *file) error {
	opened, info, err := t.openLog(f)
	if isElsewhere(err) {
		f.handle(fileMoved)
		t.scanSoon()
	}
	if err != nil {
		return err
	}
	f.size = max(f.size, info.Size())
	return opened.Close()
}

// openSeen opens a log during a scan.
func (t *tree) openSeen(s seenFile) (*os.File, fs.FileInfo, error) {
	if removed := t.removed[s.id]; removed != nil {
		return removed.reopen()
	}
	return openUnchanged(t.root, s.fullPath(), s.id)
}

// openLog opens a log outside of a scan, also one that was removed and is still open, and notes whether the collector
// has the right to. The caller closes it, and holds the tree's lock.
func (t *tree) openLog(f *file) (*os.File, fs.FileInfo, error) {
	if removed := t.removed[f.id]; removed != nil {
		return removed.reopen()
	}
	root, err := os.OpenRoot(t.tailer.opts.Dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	opened, info, err := openUnchanged(root, f.fullPath(), f.id)
	f.forbidden = errors.Is(err, fs.ErrPermission)
	return opened, info, err
}

// streamOf returns the stream of a node's log, and creates it if needed.
func (t *tree) streamOf(node rayid.Node, logPath string) *stream {
	id := streamID{node, logPath}
	s := t.streams[id]
	if s == nil {
		s = &stream{tree: t, path: logPath, node: node, lastProgress: time.Now(),
			key: t.tailer.opts.Key(t.session, node, keyPath(logPath))}
		t.streams[id] = s
	}
	return s
}

// allStored says whether everything is stored that the last scan saw. Files that the collector has no right to read do
// not count: a session whose end waited for them would never end. After Ray has ended the session, only a scan since
// then counts, because the scans before it left out files that waited for more bytes.
func (t *tree) allStored() bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, f := range t.files {
		if f.forbidden {
			continue
		}
		s := f.stream
		stored := f.size == 0 || (s.state != unlisted && f.unstoredBytes() == 0)
		if !stored || f.state != following {
			return false
		}
	}
	scannedSinceEnd := t.scans.draining || !t.ended
	return scannedSinceEnd && !t.scans.incomplete && !t.empty.anyUnlisted() && len(t.copies) == 0 &&
		t.waiting.count == 0
}

// isQuiet says whether nothing was written for a while.
func (t *tree) isQuiet(now time.Time) bool { return now.Sub(t.lastWrite(now)) >= sweepAge }

// lastWrite is when a log was last written to; zero if that is not known.
func (t *tree) lastWrite(now time.Time) (last time.Time) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.idle.lastWrite > 0 {
		last = time.Unix(0, t.idle.lastWrite)
	}
	for _, f := range t.files {
		// A time of 0 is that of a machine whose clock was not set yet.
		if at := f.lastWritten(now); f.changed > 0 && at.After(last) {
			last = at
		}
	}
	return last
}

// previousLogs is where KubeRay's manifests move the logs of a container that ended, before the next one starts:
// prev-logs/{session}/{node}/logs.
const previousLogs = "prev-logs"

// maxNodes bounds the nodes whose logs were moved: each is another start of the container.
const maxNodes = 10_000

// movedLogs finds the folders that a session's logs were moved to, below root, which is Ray's temporary folder, and
// returns the node of each. There is usually none.
func movedLogs(root *os.Root, session string) (nodes map[string]rayid.Node, err error) {
	parent, err := regular.OpenFolder(root, path.Join(previousLogs, session))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, regular.ErrLink) {
		return nil, nil // the usual case: there is none
	}
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	names, more, err := regular.Last(parent, maxNodes, func(entry fs.DirEntry) bool {
		_, err := rayid.Parse[rayid.Node](entry.Name())
		return err == nil
	})
	if err == nil && more {
		err = fmt.Errorf("it has more than %d nodes", maxNodes)
	}
	if err != nil {
		return nil, err
	}
	nodes = make(map[string]rayid.Node)
	for _, name := range names {
		nodes[path.Join(previousLogs, session, name, "logs")], _ = rayid.Parse[rayid.Node](name)
	}
	return nodes, nil
}

// passToNode gives logs that are still written to the node that writes them now: a raylet that was restarted in its pod
// has a new ID and continues writing to the same files. f.ownBytes is set to the bytes until then, which remain the old
// node's. When these are stored, the rest becomes a file of the new node's stream.
func (t *tree) passToNode() {
	for _, f := range t.files {
		s, node := f.stream, t.nodeOf(f.dir)
		switch {
		case s.node == node:
			f.ownBytes = 0
		case f.ownBytes == 0 && s.isHome(f):
			// a file that is still empty stays with the old node up to its first byte
			f.ownBytes, t.dirty = max(f.size, 1), true
		case s.isReadyToPass(f):
			t.passRest(f, t.streamOf(node, s.path))
		}
	}
}

// passRest makes the rest of a file the oldest generation of another stream: it may have been rotated meanwhile.
func (t *tree) passRest(f *file, to *stream) {
	rest := *f
	rest.read, rest.ownBytes, rest.unstoredSince = f.ownBytes, 0, f.lastGrowth
	f.read, f.size = f.ownBytes, f.ownBytes
	f.handle(fileFinished)
	if f.stream.current != f {
		f.stream.dropFile(f)
	}
	to.insertFile(0, &rest)
	t.files[rest.id], t.dirty = &rest, true
}

// unreadError names one of the logs that the last scan and the uploads since could not read, though the collector has
// the right to; nil if there are none. The tree's lock is held.
func (t *tree) unreadError() error {
	if t.scans.incomplete {
		return fmt.Errorf("some of the logs of %s: not all of their folders can be read", t.session)
	}
	if t.scans.unseen > 0 {
		return fmt.Errorf("some of the logs of %s: the size of %d of them cannot be read", t.session, t.scans.unseen)
	}
	for _, f := range t.files {
		if f.state == unreadable && !f.forbidden && f.unstoredBytes() > 0 {
			return fmt.Errorf("some of the logs of %s, such as %s: they cannot be read", t.session, f.path)
		}
	}
	return nil
}
