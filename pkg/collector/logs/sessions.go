package logs

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/collector/node"
)

// Session is the state of one session's logs.
type Session struct {
	Name string
	// Stored says that all of its logs are stored, as far as the last scan saw them and may read them.
	Stored bool
	// Quiet says that nothing was written to them for a while.
	Quiet bool
	// LastWrite is when a log was last written to; zero if none was seen.
	LastWrite time.Time
}

// Sessions lists the sessions in Ray's temporary folder by name, and so by time, without folders that the last scan
// found to hold nothing of Ray. latest is the session that the link session_latest names, or else the newest; "" if
// there is none. Both are empty if Ray's temporary folder does not exist yet.
func (t *Tailer) Sessions() (sessions []Session, latest string, err error) {
	root, names, err := t.openRoot()
	if root == nil {
		return nil, "", err
	}
	defer root.Close()
	t.mu.Lock()
	names = slices.DeleteFunc(names, func(name string) bool { return t.notRay[name] })
	t.mu.Unlock()
	now := time.Now()
	for _, name := range names {
		s := Session{Name: name}
		if tree := t.treeOf(name); tree != nil {
			s.LastWrite = tree.lastWrite(now)
			s.Stored = tree.allStored()
			s.Quiet = tree.isQuiet(now)
		}
		sessions = append(sessions, s)
	}
	return sessions, latestSession(root, names), nil
}

// maxSessions bounds how many of the sessions in Ray's temporary folder are looked at, the newest and the one that
// session_latest names: whoever runs in the pod can make folders of such names.
const maxSessions = 10_000

// sessionDirs lists the session folders in Ray's temporary folder by name, and so by time: the newest maxSessions, and
// the one that session_latest names. session_latest itself is usually a symbolic link; whatever it is, it is no
// session, and neither is a copy of a session's folder: that there is one is logged once.
func (t *Tailer) sessionDirs(root *os.Root) ([]string, error) {
	folder, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, more, err := regular.Last(folder, maxSessions, func(entry fs.DirEntry) bool {
		session := node.IsSession(entry.Name())
		if entry.IsDir() && !session && strings.HasPrefix(entry.Name(), "session_2") { // of a year
			t.otherNames.Do(func() {
				t.opts.Log.Infof("folders in Ray's temporary folder have names that Ray gives no session, such as %.300q: "+
					"nothing of them is stored", entry.Name())
			})
		}
		return entry.IsDir() && session
	})
	if more {
		t.warnings.sessions.Warn(time.Now(), fmt.Sprintf("Ray's temporary folder has more than %d sessions: the logs of "+
			"the older ones are not stored", maxSessions), nil)
		info, err := root.Lstat(node.Latest(root))
		if err == nil && info.IsDir() && !slices.Contains(names, info.Name()) {
			names = slices.Insert(names, 0, info.Name())
		}
	}
	return names, err
}

// latestSession is the session that session_latest names, or else the newest.
func latestSession(root *os.Root, sessions []string) string {
	if name := node.Latest(root); slices.Contains(sessions, name) {
		return name
	}
	if len(sessions) == 0 {
		return ""
	}
	return sessions[len(sessions)-1]
}

// SetEnded says whether Ray has ended a session on this node; it may run it again later. From the next scan on, no file
// of an ended session waits for more bytes. It returns false if nothing changed or the session was not scanned yet.
func (t *Tailer) SetEnded(session string, ended bool) (changed bool) {
	tree := t.treeOf(session)
	if tree == nil {
		return false
	}
	tree.lock.Lock()
	changed = tree.ended != ended
	tree.ended = ended
	tree.lock.Unlock()
	if changed {
		t.scanSoon()
	}
	return changed
}

// dropTrees forgets the sessions whose folder is gone (present has the others), with their state files.
func (t *Tailer) dropTrees(present map[string]bool) {
	for _, tree := range t.allTrees() {
		if present[tree.session] {
			continue
		}
		tree.lock.Lock()
		for _, f := range tree.files {
			tree.finishFile(f)
		}
		for _, removed := range tree.removed {
			removed.close()
		}
		tree.lock.Unlock()
		t.mu.Lock()
		delete(t.trees, tree.session)
		t.mu.Unlock()
		if err := tree.removeState(); err != nil {
			t.opts.Log.WithError(err).Warn("could not remove the state of a session whose folder is gone")
		}
	}
}

// waitingSessions are sessions of a scan whose logs wait because their node is not known. There may be thousands of
// folders.
type waitingSessions struct {
	count int
	first error // of the first
}

func (w *waitingSessions) add(err error) {
	if w.count++; w.count == 1 {
		w.first = err
	}
}

// logWaiting remembers which sessions wait for their node and have logs (unread), and which folders hold nothing of Ray
// (notRay). It logs one line for all that wait and one for notRay, however many folders there are. Only folders that
// the scan before found to hold nothing either are logged, because Ray may just be filling a new one.
func (t *Tailer) logWaiting(waiting, unread waitingSessions, notRay map[string]bool) {
	t.mu.Lock()
	stay := 0 // how many folders hold nothing of Ray in two scans in a row
	for session := range notRay {
		if t.notRay[session] {
			stay++
		}
	}
	more := stay > t.loggedNotRay
	t.notRay, t.unread = notRay, nil
	switch unread.count {
	case 0:
	case 1:
		t.unread = fmt.Errorf("the logs of %w", unread.first)
	default:
		t.unread = fmt.Errorf("the logs of %d sessions, such as %w", unread.count, unread.first)
	}
	t.mu.Unlock()
	now := time.Now()
	if waiting.count > 0 {
		if log, ok := t.warnings.waiting.Allow(now); ok {
			log.WithError(waiting.first).Infof("the logs of %d sessions wait until the nodes are known",
				waiting.count)
		}
	}
	if more {
		if log, ok := t.warnings.notRay.Allow(now); ok {
			t.loggedNotRay = stay
			log.Infof("%d folders in Ray's temporary folder are named like sessions and hold nothing that Ray makes: "+
				"nothing of them is stored", stay)
		}
	}
}
