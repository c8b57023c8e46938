// Package atomicfile writes a file either completely or not at all, so that a crash leaves the old file or the new one.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write replaces the file at path with data: after a crash at any instant the file holds what it held before or data,
// and once Write has returned nil it is data even if the machine loses power. The folder must exist. Two writers of one
// path must not run at once.
func Write(path string, data []byte) error { return WriteMode(path, data, ownerOnly) }

// WriteMode is Write of a file with a mode, whatever the process's umask is. The mode of the other writes is 0600.
func WriteMode(path string, data []byte, mode fs.FileMode) error {
	return writeWhole(path, mode, func(w *bufio.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

const ownerOnly = 0o600

// WriteFunc writes a file whole or not at all, as Write does. What the function writes becomes its content, so that
// long data need not be held in memory. The function need not flush. After an error the file is as it was, unless only
// the folder could not be synced: then the new file is there, but a crash may bring back the old one.
func WriteFunc(path string, write func(*bufio.Writer) error) error {
	return writeWhole(path, ownerOnly, write)
}

func writeWhole(path string, mode fs.FileMode, write func(*bufio.Writer) error) error {
	temp := tempName(path)
	err := writeSynced(temp, mode, write)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
	} else {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// tempName returns the name under which this process writes a file: another process may write the same one.
func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.tmp", filepath.Base(path), os.Getpid()))
}

// writeSynced writes a new file and syncs it to disk. After an error a part of the file may be there. What has its name
// is removed: a process with this ID was killed, or somebody else made a link to another file.
func writeSynced(path string, mode fs.FileMode, write func(*bufio.Writer) error) error {
	const newFile = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path, newFile, ownerOnly)
	if errors.Is(err, fs.ErrExist) && os.Remove(path) == nil {
		f, err = os.OpenFile(path, newFile, ownerOnly)
	}
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if mode != ownerOnly {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = write(w)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir puts the names of the files in a folder on disk, after files were made, renamed or removed there.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err = errors.Join(SyncFolder(d), d.Close()); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// SyncFolder is SyncDir of an open folder. Some file systems (of network shares, of FUSE) say that folders cannot be
// synced: there is nothing more to do then.
func SyncFolder(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// Names says whether path still is the name of an open file. If the file was deleted, what is written to it is lost
// when it is closed.
func Names(path string, open interface{ Stat() (fs.FileInfo, error) }) bool {
	at, err := os.Lstat(path)
	if err != nil {
		return false
	}
	info, err := open.Stat()
	return err == nil && os.SameFile(at, info)
}
