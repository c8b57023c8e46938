package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// fileID is what a file keeps when it is renamed. File systems give the inode of a removed file to a new one, so that it says who a
// file is only together with its print.
type fileID struct{ dev, ino uint64 }

// found is one log file as a walk saw it.
type found struct {
	path    string // below the logs folder, with slashes
	id      fileID
	size    int64
	changed time.Time // modification time
}

// walkResult is one look at a logs folder.
type walkResult struct {
	files []found
	dirs  []string // all folders, below the logs folder; "." is itself
	// partial: something could not be read, so that a file that is missing here may exist all the same.
	partial bool
	errs    []error
}

// walk lists the regular files below dir, itself below root. Symbolic links are neither followed nor listed: what they lead to is
// found where it is, if it is below dir at all.
func walk(root *os.Root, dir string) walkResult {
	var w walkResult
	w.folder(root, dir, ".")
	return w
}

func (w *walkResult) folder(root *os.Root, dir, below string) {
	entries, err := readDir(root, path.Join(dir, below))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.partial = true
		w.errs = append(w.errs, fmt.Errorf("read log folder %s: %w", below, err))
	}
	if err == nil {
		w.dirs = append(w.dirs, below)
	}
	for _, entry := range entries {
		name := path.Join(below, entry.Name())
		switch kind := entry.Type(); {
		case kind.IsDir():
			if !skippedDir(entry.Name()) {
				w.folder(root, dir, name)
			}
			continue
		case !kind.IsRegular(), skippedFile(entry.Name()):
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			w.partial = true
			w.errs = append(w.errs, fmt.Errorf("look at log %s: %w", name, err))
			continue
		}
		if info.Mode().IsRegular() {
			w.files = append(w.files, found{path: name, id: idOf(info), size: info.Size(), changed: info.ModTime()})
		}
	}
}

func readDir(root *os.Root, dir string) ([]fs.DirEntry, error) {
	d, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.ReadDir(-1)
}

func idOf(info fs.FileInfo) fileID {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fileID{uint64(s.Dev), s.Ino}
	}
	return fileID{}
}

// errChanged is a file that is no longer what the last scan saw under its name.
var errChanged = errors.New("the log was replaced since it was last looked at")

// open opens a log, unless it is no longer the file id. It never leaves root by a symbolic link and never waits, as opening a FIFO would.
func open(root *os.Root, name string, id fileID) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || idOf(info) != id) {
		err = errChanged
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// printBytes is how many of a file's first bytes tell it from another with its inode.
const printBytes = 1024

// print is a fingerprint of a file: a hash of its first n bytes.
type print struct {
	n   int64
	sum uint64
}

// printOf reads the print of the first n bytes of f, fewer if it is shorter.
func printOf(f io.ReaderAt, n int64) (print, error) {
	var buf [printBytes]byte
	k, err := f.ReadAt(buf[:min(n, printBytes)], 0)
	if err != nil && err != io.EOF {
		return print{}, err
	}
	return print{n: int64(k), sum: hash(buf[:k])}, nil
}
