// Package logs follows the log files of every session below Ray's temporary folder, so that they can be shipped while they grow.
//
// The whole of a path is everything ever written to it: all generations, one after the other, however the file was rotated. Which file
// is which generation is told by its inode and a fingerprint of its first bytes, which are kept in a state file: a file that was renamed
// (raylet.out to raylet.out.1) is finished under the path it was written to and not shipped under its new name. A copy made before the
// original is truncated is recognised by its first bytes and finishes the original. A file of which nothing is known, say after the
// state was lost, is shipped under the name it has: perhaps twice, never not at all.
//
// A scan of the folders is the truth. What the kernel tells of changes (fsnotify) only wakes the scan up earlier; files are open only
// while they are read.
package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Options of a tailer. All but Shipped must be set.
type Options struct {
	// Dir is Ray's temporary folder, which holds session_… folders. It need not exist yet.
	Dir string
	// StateDir is where the state files are kept; it must exist.
	StateDir string
	// Key is the key of the whole of a log.
	Key func(session string, node rayid.Node, logPath string) string
	// Node finds the node whose logs a session's folder holds. While it cannot (an error), the session's logs wait.
	Node func(ctx context.Context, session string) (rayid.Node, error)
	// DeleteShipped removes the logs of sessions that are over once all of them are stored.
	DeleteShipped bool
	Log           logrus.FieldLogger
	Registerer    prometheus.Registerer
}

// Tailer follows logs. New, then Start, then Close; or only New, and Scan by hand.
type Tailer struct {
	opts    Options
	metrics *metrics

	scanning sync.Mutex // one scan at a time

	mu       sync.Mutex
	trees    map[string]*tree // by session
	draining bool

	notify chan struct{} // something may be shipped
	again  chan struct{} // a scan is wanted soon
	cancel context.CancelFunc
	done   chan struct{}

	nodeErrors map[string]time.Time // session → when its missing node was logged
}

// New makes a tailer. The state an earlier one left is read when its session is first found.
func New(o Options) *Tailer {
	t := &Tailer{
		opts:       o,
		trees:      make(map[string]*tree),
		notify:     make(chan struct{}, 1),
		again:      make(chan struct{}, 1),
		done:       make(chan struct{}),
		nodeErrors: make(map[string]time.Time),
	}
	t.metrics = newMetrics(o.Registerer, t)
	return t
}

// Notify says that there may be something new to ship.
func (t *Tailer) Notify() <-chan struct{} { return t.notify }

// Sources are the logs that have something to ship.
func (t *Tailer) Sources() []ship.Source {
	now := time.Now()
	var sources []ship.Source
	for _, tree := range t.all() {
		tree.lock.Lock()
		for _, w := range tree.wholes {
			if w.pending(now) {
				sources = append(sources, w)
			}
		}
		tree.lock.Unlock()
	}
	return sources
}

// Waiting is how many bytes of logs are not stored, those of rotated files that wait for others to be complete too, and when the first
// of them came.
func (t *Tailer) Waiting() (bytes int64, oldest time.Time) {
	for _, tree := range t.all() {
		tree.lock.Lock()
		for _, f := range tree.files {
			if n := f.end() - f.whole.consumed(f); n > 0 {
				bytes += n
				oldest = earlier(oldest, f.oldest)
			}
		}
		tree.lock.Unlock()
	}
	return bytes, oldest
}

func (t *Tailer) all() []*tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	trees := make([]*tree, 0, len(t.trees))
	for _, tree := range t.trees {
		trees = append(trees, tree)
	}
	return trees
}

// Drain says that nothing more will be written, so that from the next scan on nothing waits for what may still come.
func (t *Tailer) Drain() {
	t.mu.Lock()
	t.draining = true
	t.mu.Unlock()
}

// Astray says whether a log is no longer where the last scan saw it, so that what is left of it waits for the next.
func (t *Tailer) Astray() bool {
	for _, tree := range t.all() {
		tree.lock.Lock()
		for _, f := range tree.files {
			if f.astray {
				tree.lock.Unlock()
				return true
			}
		}
		tree.lock.Unlock()
	}
	return false
}

// Scan looks at all sessions once. It returns the folders that hold logs or may come to, below Dir, for them to be watched; an error
// is of Dir itself, errors of single files are logged.
func (t *Tailer) Scan(ctx context.Context) (dirs []string, err error) {
	t.scanning.Lock()
	defer t.scanning.Unlock()
	start := time.Now()
	defer func() { t.metrics.scan.Observe(time.Since(start).Seconds()) }()
	root, err := os.OpenRoot(t.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // Ray has not started yet
	}
	if err != nil {
		return nil, fmt.Errorf("open Ray's temporary folder (--ray-tmp-dir): %w", err)
	}
	defer root.Close()
	sessions, err := sessionDirs(root)
	if err != nil {
		return nil, fmt.Errorf("read Ray's temporary folder (--ray-tmp-dir): %w", err)
	}
	dirs = append(dirs, ".")
	present := make(map[string]bool, len(sessions))
	for _, session := range sessions {
		present[session] = true
		dirs = append(dirs, session)
		tree, err := t.tree(ctx, session)
		if err != nil {
			t.nodeUnknown(session, err)
			continue
		}
		dirs = append(dirs, tree.scan(root, time.Now(), t.isDraining())...)
	}
	t.dropTrees(present)
	if t.opts.DeleteShipped {
		t.sweep(root, sessions)
	}
	select {
	case t.notify <- struct{}{}:
	default:
	}
	return dirs, nil
}

func (t *Tailer) isDraining() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.draining
}

// sessionDirs lists the session folders in Ray's temporary folder, in order of their names and so of their time. session_latest is a
// symbolic link to one of them and not listed.
func sessionDirs(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && layout.CheckSessionName(entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// tree is the session's, made when it is first asked for and the session's node is known.
func (t *Tailer) tree(ctx context.Context, session string) (*tree, error) {
	t.mu.Lock()
	known := t.trees[session]
	t.mu.Unlock()
	node, err := t.opts.Node(ctx, session)
	if known != nil {
		if err == nil {
			known.setNode(node)
		}
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	made := &tree{
		tmp:     t.opts.Dir,
		session: session, dir: path.Join(session, "logs"), node: node,
		state: filepath.Join(t.opts.StateDir, session+".json"),
		keyOf: func(node rayid.Node, logPath string) string { return t.opts.Key(session, node, logPath) },
		wake:  t.scanSoon, log: t.opts.Log.WithField("session", session), metrics: t.metrics,
		files: make(map[fileID]*file), wholes: make(map[wholeID]*whole), held: make(map[fileID]*heldFile), reported: make(map[string]bool),
	}
	if err := made.load(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.trees[session] = made
	t.mu.Unlock()
	return made, nil
}

// nodeUnknown logs once a minute that a session's logs wait.
func (t *Tailer) nodeUnknown(session string, err error) {
	if now := time.Now(); now.Sub(t.nodeErrors[session]) >= time.Minute {
		t.nodeErrors[session] = now
		t.opts.Log.WithField("session", session).WithError(err).Info("the session's logs wait until its node is known")
	}
}

// dropTrees forgets sessions whose folder is gone.
func (t *Tailer) dropTrees(present map[string]bool) {
	for _, tree := range t.all() {
		if present[tree.session] {
			continue
		}
		tree.lock.Lock()
		for _, f := range tree.files {
			tree.retire(f)
		}
		tree.lock.Unlock()
		t.mu.Lock()
		delete(t.trees, tree.session)
		t.mu.Unlock()
		delete(t.nodeErrors, tree.session)
		if err := os.Remove(tree.state); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.opts.Log.WithError(err).Warn("could not remove the state of a session that is gone")
		}
	}
}

// current is the session that Ray runs: what session_latest leads to, else the newest.
func current(root *os.Root, sessions []string) string {
	if to, err := root.Readlink("session_latest"); err == nil {
		return filepath.Base(to)
	}
	if len(sessions) == 0 {
		return ""
	}
	return sessions[len(sessions)-1]
}

// Session is what a tailer tells of one session.
type Session struct {
	Name string
	// Stored: all of its logs are stored, and nothing was written for a while.
	Stored bool
	// LastWrite is when a log was last written to; zero if none was seen.
	LastWrite time.Time
}

// Sessions tells of the sessions in Ray's temporary folder, and which of them Ray runs.
func (t *Tailer) Sessions() (sessions []Session, running string, err error) {
	root, err := os.OpenRoot(t.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("open Ray's temporary folder (--ray-tmp-dir): %w", err)
	}
	defer root.Close()
	names, err := sessionDirs(root)
	if err != nil {
		return nil, "", fmt.Errorf("read Ray's temporary folder (--ray-tmp-dir): %w", err)
	}
	for _, name := range names {
		s := Session{Name: name}
		t.mu.Lock()
		tree := t.trees[name]
		t.mu.Unlock()
		if tree != nil {
			s.LastWrite = tree.lastWrite()
			s.Stored = tree.complete(time.Now())
		}
		sessions = append(sessions, s)
	}
	return sessions, current(root, names), nil
}

// sweepAge is how long a session that is over must have been quiet before its logs are removed.
const sweepAge = 10 * time.Minute

// sweep removes the logs of sessions that are over and completely stored. Only what is stored is removed: the rest of the session's
// folder stays.
func (t *Tailer) sweep(root *os.Root, sessions []string) {
	running := current(root, sessions)
	for _, tree := range t.all() {
		if tree.session == running || !tree.complete(time.Now()) {
			continue
		}
		tree.lock.Lock()
		for _, f := range tree.files {
			if err := root.Remove(f.full()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				tree.report(f.name, err)
			}
		}
		count := len(tree.files)
		tree.lock.Unlock()
		if count > 0 {
			t.opts.Log.WithField("session", tree.session).Infof("removed %d logs of a session that is over: all of them are stored", count)
		}
	}
}

// scanSoon asks the monitor for a scan.
func (t *Tailer) scanSoon() {
	select {
	case t.again <- struct{}{}:
	default:
	}
}

// below is a path relative to Ray's temporary folder as an absolute one.
func (t *Tailer) below(dir string) string {
	return filepath.Join(t.opts.Dir, filepath.FromSlash(strings.TrimPrefix(dir, "./")))
}
