package logs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// Session is the state of one session's logs.
type Session struct {
	Name string
	// Stored says that all of its logs are stored, as far as the last scan saw them.
	Stored bool
	// Quiet says that nothing was written to them for a while.
	Quiet bool
	// LastWrite is when a log was last written to; zero if none was seen.
	LastWrite time.Time
}

// Sessions lists the sessions in Ray's temporary folder by name, and so by time, and says which of them session_latest names, or else is the
// newest. Folders that the last scan found to hold nothing of Ray are none.
func (t *Tailer) Sessions() (sessions []Session, latest string, err error) {
	root, names, err := t.open()
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
		t.mu.Lock()
		tree := t.trees[name]
		t.mu.Unlock()
		if tree != nil {
			s.LastWrite = tree.lastWrite()
			s.Stored = tree.stored()
			s.Quiet = tree.quiet(now)
		}
		sessions = append(sessions, s)
	}
	return sessions, current(root, names), nil
}

// sessionDirs lists the session folders in Ray's temporary folder by name, and so by time. session_latest is usually a symbolic link; whatever
// it is, it is no session.
func sessionDirs(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && layout.IsSession(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// current is the session that session_latest names, or else the newest.
func current(root *os.Root, sessions []string) string {
	if to, err := root.Readlink("session_latest"); err == nil && slices.Contains(sessions, filepath.Base(to)) {
		return filepath.Base(to)
	}
	if len(sessions) == 0 {
		return ""
	}
	return sessions[len(sessions)-1]
}

// SetEnded says that Ray has ended a session here, or with false that it runs it again. From the next scan on, no file of an ended session
// waits for more bytes. It returns false if that was known.
func (t *Tailer) SetEnded(session string, ended bool) (changed bool) {
	t.mu.Lock()
	tree := t.trees[session]
	t.mu.Unlock()
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

// dropTrees forgets sessions whose folder is gone.
func (t *Tailer) dropTrees(present map[string]bool) {
	for _, tree := range t.all() {
		if present[tree.session] {
			continue
		}
		tree.lock.Lock()
		for _, f := range tree.files {
			tree.finish(f)
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
