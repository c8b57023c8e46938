package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/pkg/collector/node"
)

const (
	// sweepAge is the time without writes after which the logs of an ended session may be removed.
	sweepAge = 10 * time.Minute
	// lateTime is how long a removed log stays open that a process may still write to. What it writes is stored.
	lateTime = 2 * time.Minute
	// maxRemoved is how many removed logs of all sessions stay open at a time. The rest are removed later.
	maxRemoved = 256
)

// removedLog is a log that was removed, and that a process may still write to: not every process can be seen.
type removedLog struct {
	file      *os.File
	dir, path string
	until     time.Time
}

// removeStoredLogs removes the logs of sessions that have ended and are completely stored. The rest of the session's
// folder stays. A session has ended when its raylet does not listen and no process has one of its logs open to write;
// the session that session_latest names, and the newest, are spared in any case, since raylets of other network
// namespaces cannot be seen.
func (t *Tailer) removeStoredLogs(root *os.Root, sessions []string) {
	spared := []string{node.Latest(root)}
	if n := len(sessions); n > 0 {
		spared = append(spared, sessions[n-1])
	}
	free := maxRemoved // how many more logs may stay open
	for tree := range t.lockedTrees() {
		free -= len(tree.removed)
	}
	for _, tree := range t.allTrees() {
		if slices.Contains(spared, tree.session) {
			continue
		}
		if running, err := t.opts.Running(tree.session); running || err != nil {
			continue
		}
		count, open := tree.removeLogs(root, time.Now(), free)
		if free -= open; count > 0 {
			t.opts.Log.WithField("session", tree.session).Infof(
				"removed %d logs of an ended session: all of them are stored", count)
		}
	}
}

// removeLogs removes the logs of a session that does not run, if everything is stored, nothing was written for sweepAge
// and no process has a log open to write: one that has shows that the session may run, so none is removed then. It
// returns how many it removed, and how many of them stay open, at most free. What a walk cannot read stays.
func (t *tree) removeLogs(root *os.Root, now time.Time, free int) (count, open int) {
	if !t.allStored() || !t.isQuiet(now) {
		return 0, 0
	}
	moved, _ := movedLogs(root, t.session)
	dirs := append(slices.Sorted(maps.Keys(moved)), t.dir)
	var all walkResult
	anyInUse := false
	_ = all.walkFolders(root, dirs, visitor{files: func(files []seenFile) error {
		anyInUse = anyInUse || slices.ContainsFunc(files, func(s seenFile) bool { return isOpenToWrite(root, s) })
		return nil
	}})
	if anyInUse {
		return 0, 0
	}
	_ = all.walkFolders(root, dirs, visitor{files: func(files []seenFile) error {
		t.lock.Lock()
		defer t.lock.Unlock()
		for _, s := range files {
			if open >= free || !t.isStored(s) {
				continue
			}
			openBefore := len(t.removed)
			removed, err := t.removeLog(root, now, s)
			if err != nil {
				t.reportOnce(s.path, err)
			}
			if removed {
				count++
			}
			open += len(t.removed) - openBefore
		}
		return nil
	}})
	return count, open
}

// isStored says whether a file is as it was when all of it was stored.
func (t *tree) isStored(s seenFile) bool {
	if f := t.files[s.id]; f != nil {
		return f.unstoredBytes() == 0 && s.size == f.size && s.changed == f.changed
	}
	log, isIdle := t.findIdle(s)
	return isIdle && log.stamp == stampOf(s)
}

// removeLog removes a log unless it has changed since the walk or a process has it open to write. If it cannot be known
// that no process has it open, the removed file stays open for lateTime, and what is written to it is stored.
func (t *tree) removeLog(root *os.Root, now time.Time, s seenFile) (removed bool, err error) {
	opened, info, err := openUnchanged(root, s.fullPath(), s.id)
	if isElsewhere(err) {
		return false, nil // the next scan finds out
	}
	if err != nil {
		return false, err
	}
	use := useOf(opened)
	if use == inUse || info.Size() != s.size || info.ModTime().UnixNano() != s.changed {
		return false, opened.Close()
	}
	if err := root.Remove(s.fullPath()); err != nil {
		_ = opened.Close()
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	if use == notInUse && endLease(opened) { // useOf took the lease: nobody opened the file between
		return true, opened.Close()
	}
	t.removed[s.id] = &removedLog{file: opened, dir: s.dir, path: s.path, until: now.Add(lateTime)}
	return true, nil
}

// seeRemoved adds the removed logs that are still open to what a walk saw, so that what is written to them late is
// stored. It closes those that nothing was written to for lateTime.
func (t *tree) seeRemoved(now time.Time, c *candidates) {
	for id, r := range t.removed {
		info, err := r.file.Stat()
		if err != nil {
			continue // the next scan tries again
		}
		s := seenFile{dir: r.dir, path: r.path, id: id, size: info.Size(), changed: info.ModTime().UnixNano()}
		if !t.isStored(s) {
			r.until = now.Add(lateTime)
		}
		if now.After(r.until) {
			r.close()
			delete(t.removed, id)
			continue
		}
		t.classifyFiles([]seenFile{s}, c)
	}
}

// reopen returns another handle of the removed log, for the caller to close.
func (r *removedLog) reopen() (*os.File, fs.FileInfo, error) {
	fd, err := unix.FcntlInt(r.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("read a removed log: %w", err)
	}
	f := os.NewFile(uintptr(fd), r.path)
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func (r *removedLog) close() { _ = r.file.Close() }

// use says whether a process has a file open to write.
type use uint8

const (
	useUnknown use = iota
	inUse
	notInUse
)

// useOf is askUse, unless a test replaces it.
var useOf = askUse

// askUse asks the kernel for a read lease, which it gives only for a file that no process has open to write, in
// whatever container. It answers only the file's owner, or root. The lease stays until the file is closed.
func askUse(f *os.File) use {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		return notInUse
	case errors.Is(err, syscall.EAGAIN):
		return inUse
	}
	return useUnknown
}

// endLease gives a lease back. unused says that no process has asked to open the file to write meanwhile.
func endLease(f *os.File) (unused bool) {
	lease, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil && lease == unix.F_RDLCK
}

// isOpenToWrite says whether a process is known to have the log open to write.
func isOpenToWrite(root *os.Root, s seenFile) bool {
	opened, _, err := openUnchanged(root, s.fullPath(), s.id)
	if err != nil {
		return false
	}
	defer opened.Close()
	return useOf(opened) == inUse
}
