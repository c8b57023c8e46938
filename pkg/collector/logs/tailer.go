package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/pkg/collector/node"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Options of a tailer. All except PushInterval, DeleteShipped, Running and Redact must be set, Running only with
// DeleteShipped.
type Options struct {
	// Dir is Ray's temporary folder, which holds session_… folders. It need not exist yet.
	Dir string
	// StateDir is where the state files are kept; it must exist.
	StateDir string
	// Key is the key of a log's stream.
	Key func(session string, node rayid.Node, logPath string) string
	// ListEmpty adds the names of logs that were empty when they were first seen, a line each, to the list of a node's
	// empty logs. What it has taken is stored.
	ListEmpty func(session string, node rayid.Node, names []byte) error
	// Node finds the node whose logs a session's folder holds. The session's logs wait while it returns an error.
	Node func(ctx context.Context, session string) (rayid.Node, error)
	// PushInterval is how soon growth is to be stored; 0: as late as it is seen.
	PushInterval time.Duration
	// DeleteShipped removes the logs of ended sessions when all of them are stored.
	DeleteShipped bool
	// Running says whether Ray runs a session on this node. It is asked before logs are removed, and, if lines are
	// redacted, at the end: a log of a session that runs may end within a line. nil: none may.
	Running func(session string) (bool, error)
	// Redact overwrites what must not be stored; nil: nothing.
	Redact     *redact.Redactor
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// Tailer follows logs. Call New, then Start, then Close; or only New, and Scan by hand.
type Tailer struct {
	opts     Options
	metrics  *metrics
	warnings *warnings

	scanning sync.Mutex // one scan at a time

	mu       sync.Mutex
	trees    map[string]*tree // by session
	draining bool
	unread   error // of sessions whose node the last scan did not know

	notify     chan struct{} // something may be shipped
	scanWanted chan struct{} // a scan is wanted soon
	work       background.Worker

	notRay       map[string]bool // folders named like sessions that the last scan found to hold nothing of Ray
	loggedNotRay int             // how many of them were logged
	otherNames   sync.Once       // logs that a folder's name is like a session's
}

// warnings are lines that would otherwise fill the collector's log.
type warnings struct {
	lost, unreadable logthrottle.Throttle // of single logs, of which there may be a hundred thousand
	failed, unsaved  logthrottle.Throttle // of scans, of which each one may fail
	waiting, notRay  logthrottle.Throttle // of all sessions of a scan
	sessions         logthrottle.Throttle // of their number, at each look at the folder
}

// warnedAtOnce is how many of the logs that have the same trouble together are named.
const warnedAtOnce = 100

// New creates a tailer and registers its metrics; nothing is read before Start or Scan. Warnings about single logs name
// several of them, others one at a time.
func New(o Options) *Tailer {
	t := &Tailer{
		opts: o,
		warnings: &warnings{
			lost:       logthrottle.Throttle{Log: o.Log, Burst: warnedAtOnce},
			unreadable: logthrottle.Throttle{Log: o.Log, Burst: warnedAtOnce},
			failed:     logthrottle.Throttle{Log: o.Log}, unsaved: logthrottle.Throttle{Log: o.Log},
			waiting: logthrottle.Throttle{Log: o.Log}, notRay: logthrottle.Throttle{Log: o.Log},
			sessions: logthrottle.Throttle{Log: o.Log},
		},
		trees:      make(map[string]*tree),
		notify:     make(chan struct{}, 1),
		scanWanted: make(chan struct{}, 1),
	}
	t.metrics = newMetrics(o.Registerer, t)
	return t
}

// Notify returns a channel that receives when there may be something new to ship.
func (t *Tailer) Notify() <-chan struct{} { return t.notify }

// Sources returns the logs that have something to ship. Streams whose current file has no more move on to their next
// file before.
func (t *Tailer) Sources() []ship.Source {
	now := time.Now()
	var sources []ship.Source
	for tree := range t.lockedTrees() {
		changed := false
		for _, s := range tree.streams {
			changed = s.moveOn(now) || s.unsaved || changed // unsaved: Resume has changed where the stream continues
			s.unsaved = false
			if s.hasPending(now) {
				sources = append(sources, s)
			}
		}
		if !changed {
			continue
		}
		// Saved before anything of the next files is stored: after a crash the stored length alone does not show which
		// file a stream's last bytes came from. Once for all streams: each save writes what is known of every log.
		if err := tree.saveState(); err != nil {
			tree.log.WithError(err).Warn("could not save that a log was rotated: after a crash now, a part of it " +
				"could be stored twice")
		}
	}
	return sources
}

// Waiting returns the number of unstored bytes of all logs, and the arrival time of the oldest; zero if there are none.
// It includes rotated files that wait for older ones, and logs that wait for a place.
func (t *Tailer) Waiting() (bytes int64, oldest time.Time) {
	for tree := range t.lockedTrees() {
		for _, f := range tree.files {
			if n := f.unstoredBytes(); n > 0 && !f.stream.isTooSoon(f, time.Now()) {
				bytes += n
				oldest = earlierTime(oldest, f.unstoredSince)
			}
		}
		bytes += tree.waiting.bytes // of logs that are not in files: there is no place to follow them yet
		if tree.waiting.count > 0 {
			oldest = earlierTime(oldest, time.Unix(0, tree.waiting.oldest))
		}
	}
	return bytes, oldest
}

func (t *Tailer) allTrees() []*tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.trees))
}

// lockedTrees iterates over the trees of all sessions. It holds the lock of one tree while the loop's body runs for it.
func (t *Tailer) lockedTrees() iter.Seq[*tree] {
	return func(yield func(*tree) bool) {
		for _, tree := range t.allTrees() {
			tree.lock.Lock()
			more := yield(tree)
			tree.lock.Unlock()
			if !more {
				return
			}
		}
	}
}

// treeOf is a session's tree; nil if the session was not scanned yet.
func (t *Tailer) treeOf(session string) *tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trees[session]
}

// Drain says that Ray has stopped writing. From the next scan on, no file waits for more bytes.
func (t *Tailer) Drain() {
	t.mu.Lock()
	t.draining = true
	t.mu.Unlock()
}

// Waiters is how many logs wait until others are stored and make room for them, plus one for each session with names of
// empty logs that are not listed yet. Until it is 0, the next scan finds something to ship.
func (t *Tailer) Waiters() (count int) {
	for tree := range t.lockedTrees() {
		count += tree.waiting.count
		if tree.empty.anyUnlisted() {
			count++
		}
	}
	return count
}

// freePlaces is how many more logs may be followed, beside those that cannot become idle.
func (t *Tailer) freePlaces() int {
	free := maxFollowed
	for tree := range t.lockedTrees() {
		free -= len(tree.files) - tree.pinned
	}
	return max(free, 0)
}

// NeedsScan says whether another scan may find more to ship: a file is no longer where the last scan saw it, a file or
// folder could not be read, or the rest of a file has to pass to the stream of the node that writes it now.
func (t *Tailer) NeedsScan() bool {
	for tree := range t.lockedTrees() {
		for _, f := range tree.files {
			if f.state == moved || f.stream.isReadyToPass(f) {
				return true
			}
		}
		if tree.unreadError() != nil {
			return true
		}
	}
	return false
}

// Unread says which sessions have logs that were not read, and why: their node is not known, or they or their folders
// cannot be read although the collector has the right to. It is nil if there are none.
func (t *Tailer) Unread() error {
	t.mu.Lock()
	err := t.unread
	t.mu.Unlock()
	for tree := range t.lockedTrees() {
		err = errors.Join(err, tree.unreadError())
	}
	return err
}

// Forbidden says which logs are not stored because the collector has no right to read them, or never reads such: in a
// folder that is a link, which may lead anywhere, far down, or with a long path. It is nil if there are none.
func (t *Tailer) Forbidden() error {
	for tree := range t.lockedTrees() {
		if tree.walked.left != nil {
			return fmt.Errorf("not stored, such as %w", tree.walked.left)
		}
		for folder := range tree.walked.forbidden {
			return fmt.Errorf("not stored, such as the logs in %s: no right to read them; %s", folder, RightsAdvice)
		}
		for _, f := range tree.files {
			if f.forbidden && f.unstoredBytes() > 0 {
				return fmt.Errorf("not stored, such as %s: no right to read it; %s", f.fullPath(), RightsAdvice)
			}
		}
	}
	return nil
}

// logsOf is the folder of a session's logs, below Ray's temporary folder.
func logsOf(session string) string { return path.Join(session, "logs") }

// Scan scans all sessions once. It returns the folders to watch, below Dir. Errors of single files are logged, not
// returned.
func (t *Tailer) Scan(ctx context.Context) (dirs []string, err error) {
	return t.scanSessions(ctx, nil)
}

// scanSessions scans all sessions once, as Scan does. If w is not nil, it watches folders before it reads them, and
// between batches of files it looks at those that the kernel's notices name. It returns the folders to watch, below
// Ray's temporary folder. The error says that not all sessions were scanned; sessions whose node is not known wait.
func (t *Tailer) scanSessions(ctx context.Context, w *watcher) (dirs []string, err error) {
	t.scanning.Lock()
	defer t.scanning.Unlock()
	start := time.Now()
	defer func() { t.metrics.scan.Observe(time.Since(start).Seconds()) }()
	root, sessions, err := t.openRoot()
	if root == nil {
		return nil, err
	}
	defer root.Close()
	t.mu.Lock()
	draining := t.draining
	t.mu.Unlock()
	sc := scanning{root: root, draining: draining, free: t.freePlaces, between: ctx.Err, gone: new([256]int)}
	if w != nil {
		sc.opened = func(dir string) { w.watchFolder(dir) }
		sc.between = func() error {
			w.lookDuringScan(func(c changes) { t.lookAtChanges(ctx, root, c) })
			return ctx.Err()
		}
	}
	dirs = append(dirs, ".")
	present, notRay := make(map[string]bool, len(sessions)), make(map[string]bool)
	var waiting, unread waitingSessions
	for _, session := range sessions {
		present[session] = true
		tree, err := t.treeOrNew(ctx, session)
		if errors.Is(err, node.ErrNoRay) {
			notRay[session] = true
			continue
		}
		dirs = append(dirs, session)
		if err != nil {
			err = fmt.Errorf("%s: %w", session, err)
			waiting.add(err)
			if _, statErr := root.Stat(logsOf(session)); statErr == nil {
				unread.add(err)
			}
			continue
		}
		logDirs, err := tree.scan(sc, time.Now())
		if err != nil {
			return nil, fmt.Errorf("not all logs were looked at: %w", err)
		}
		dirs = append(dirs, logDirs...)
	}
	if newest := len(sessions) - 1; newest >= 0 && notRay[sessions[newest]] {
		dirs = append(dirs, sessions[newest]) // Ray may be about to fill it
	}
	t.logWaiting(waiting, unread, notRay)
	t.dropTrees(present)
	t.forgetGone(sc.gone)
	if t.opts.DeleteShipped {
		t.removeStoredLogs(root, sessions)
	}
	background.Signal(t.notify)
	return dirs, nil
}

// openRoot opens Ray's temporary folder, which the caller closes, and lists the sessions in it. root is nil after an
// error, and without an error if there is no folder yet.
func (t *Tailer) openRoot() (root *os.Root, sessions []string, err error) {
	root, err = os.OpenRoot(t.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil // Ray has not started yet
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open Ray's temporary folder (--ray-tmp-dir): %w", err)
	}
	if sessions, err = t.sessionDirs(root); err != nil {
		_ = root.Close()
		return nil, nil, fmt.Errorf("read Ray's temporary folder (--ray-tmp-dir): %w", err)
	}
	return root, sessions, nil
}

// treeOrNew returns the session's tree. If there is none yet, it makes one with the state that an earlier collector
// left, or returns the error with which the session's node cannot be found. It also passes a new node of a known
// session on.
func (t *Tailer) treeOrNew(ctx context.Context, session string) (*tree, error) {
	known := t.treeOf(session)
	id, err := t.opts.Node(ctx, session)
	if known != nil {
		if err == nil {
			known.lock.Lock()
			known.node = id
			known.lock.Unlock()
		}
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	made := &tree{
		tailer: t, session: session, dir: logsOf(session), node: id,
		state: filepath.Join(t.opts.StateDir, session+".json"), log: t.opts.Log.WithField("session", session),
		files: make(map[fileID]*file), streams: make(map[streamID]*stream), copies: make(map[fileID]time.Time),
		removed: make(map[fileID]*removedLog), empty: emptyLogs{names: make(map[rayid.Node][]byte)},
		idle:     idleLogs{files: make(map[idleKey]idleFile), again: make(map[idleKey]idleFile)},
		reported: make(map[string]bool),
	}
	if err := made.loadState(); err != nil {
		return nil, err
	}
	if err := made.loadIdle(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.trees[session] = made
	t.mu.Unlock()
	return made, nil
}

// scanSoon asks the monitor for a scan.
func (t *Tailer) scanSoon() { background.Signal(t.scanWanted) }

func (t *Tailer) absolutePath(dir string) string {
	return filepath.Join(t.opts.Dir, filepath.FromSlash(strings.TrimPrefix(dir, "./")))
}
