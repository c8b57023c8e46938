package logs

import (
	"errors"
	"fmt"
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
	// Stored says that all of its logs are stored, and nothing was written for a while.
	Stored bool
	// LastWrite is when a log was last written to; zero if none was seen.
	LastWrite time.Time
}

// Sessions lists the sessions in Ray's temporary folder, and which of them Ray runs.
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

// sessionDirs lists the session folders in Ray's temporary folder by name, and so by time. session_latest is a symbolic link and not
// listed.
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

// current is the session that Ray runs: the target of session_latest, or else the newest.
func current(root *os.Root, sessions []string) string {
	if to, err := root.Readlink("session_latest"); err == nil && slices.Contains(sessions, filepath.Base(to)) {
		return filepath.Base(to)
	}
	if len(sessions) == 0 {
		return ""
	}
	return sessions[len(sessions)-1]
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
		delete(t.nodeErrors, tree.session)
		if err := os.Remove(tree.state); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.opts.Log.WithError(err).Warn("could not remove the state of a session whose folder is gone")
		}
	}
}
