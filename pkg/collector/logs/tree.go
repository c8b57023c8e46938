package logs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// tree is the logs folder of one session.
type tree struct {
	tmp     string // Ray's temporary folder
	session string
	dir     string // where logs are written, below tmp
	state   string // path of the state file
	node    rayid.Node
	keyOf   func(node rayid.Node, logPath string) string
	wake    func()
	log     logrus.FieldLogger
	metrics *metrics

	walked walkResult       // of the last scan
	seen   map[fileID]found // of the last scan

	lock   sync.Mutex
	root   *os.Root              // Ray's temporary folder, during a scan
	nodes  map[string]rayid.Node // whose logs a folder holds, where that is not the session's own
	files  map[fileID]*file
	wholes map[wholeID]*whole
	held   map[fileID]*heldFile
	dirty  bool // something that the state file should know changed
	// draining: nothing more will be written, so nothing waits for what may still come.
	draining bool
	reported map[string]bool // paths of which an error was logged
}

// wholeID tells the wholes of a session apart.
type wholeID struct {
	node rayid.Node
	path string // below the logs folder
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
	moved, nodes := movedLogs(root, t.session)
	w.walk(root, append(moved, t.dir))
	t.lock.Lock()
	defer t.lock.Unlock()
	t.root, t.nodes, t.draining = root, nodes, draining
	defer func() { t.root = nil }()
	for _, err := range w.errs {
		t.report(err.Error(), err)
	}
	t.reconcile(now, w)
	t.handOver()
	if t.dirty {
		if err := t.save(); err != nil {
			t.log.WithError(err).Warn("could not write which log is which: a log that is rotated while the collector is restarted could be stored twice")
		}
	}
	return w.dirs
}

// unreadable takes a file out of what is pending; the reason is logged once.
func (t *tree) unreadable(f *file, now time.Time, err error) {
	f.unreadable, f.retry = true, now.Add(retryTime)
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
	opened, info, err := t.open(f.full(), f.id)
	if errors.Is(err, errChanged) || errors.Is(err, fs.ErrNotExist) {
		f.astray = true
		t.wake()
	}
	if err != nil {
		return err
	}
	f.size = max(f.size, info.Size())
	return opened.Close()
}

// open opens a log, by its path below Ray's temporary folder, outside of a scan.
func (t *tree) open(name string, id fileID) (*os.File, fs.FileInfo, error) {
	root, err := os.OpenRoot(t.tmp)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	return open(root, name, id)
}

// previousLogs is where KubeRay's manifests move the logs of a container that ended, before the next one starts:
// prev-logs/{session}/{node}/logs.
const previousLogs = "prev-logs"

// movedLogs finds the folders that a session's logs were moved to, and whose they are.
func movedLogs(root *os.Root, session string) (dirs []string, nodes map[string]rayid.Node) {
	parent, err := root.Open(path.Join(previousLogs, session))
	if err != nil {
		return nil, nil // the usual case: there is none
	}
	defer parent.Close()
	names, err := parent.Readdirnames(-1)
	if err != nil {
		return nil, nil
	}
	nodes = make(map[string]rayid.Node)
	for _, name := range names {
		if node, err := rayid.Parse[rayid.Node](name); err == nil {
			dir := path.Join(previousLogs, session, name, "logs")
			dirs = append(dirs, dir)
			nodes[dir] = node
		}
	}
	return dirs, nodes
}

// handOver gives logs that are still written to the node that writes to them now: a raylet that was restarted in its pod has a new ID
// and goes on writing to the same files. What they held until then stays the old node's.
func (t *tree) handOver() {
	for _, f := range t.files {
		w := f.whole
		if w.node == t.node || !w.home(f) || f.gone {
			continue
		}
		if f.limit == 0 {
			f.limit, t.dirty = max(f.size, 1), true // a file that is still empty stays with the first node up to its first byte
			continue
		}
		if f.size <= f.limit || !w.resumed || w.flying || w.consumed(f) < f.limit {
			continue
		}
		rest := &file{id: f.id, dir: f.dir, name: f.name, print: f.print, size: f.size, changed: f.changed, read: f.limit, oldest: f.grown, grown: f.grown}
		f.read, f.size, f.gone = f.limit, f.limit, true
		if w.cur != f {
			w.files = slices.DeleteFunc(w.files, func(g *file) bool { return g == f })
		}
		t.wholeOf(t.node, w.path).add(rest)
		t.files[rest.id], t.dirty = rest, true
	}
}

// wholeOf is the whole of a node's log, made where there is none.
func (t *tree) wholeOf(node rayid.Node, logPath string) *whole {
	id := wholeID{node, logPath}
	w := t.wholes[id]
	if w == nil {
		w = &whole{tree: t, path: logPath, node: node, key: t.keyOf(node, keyPath(logPath))}
		t.wholes[id] = w
	}
	return w
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
		stored := f.size == 0 || (w.resumed && w.consumed(f) >= f.end())
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
