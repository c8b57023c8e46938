package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileID is what a file keeps when it is renamed. File systems give the inode of a removed file to a new one, so that it says who a
// file is only together with its print.
type fileID struct{ dev, ino uint64 }

// found is one log file as a walk saw it.
type found struct {
	dir     string // the logs folder, below Ray's temporary folder
	path    string // below the logs folder, with slashes
	id      fileID
	size    int64
	changed int64 // modification time, Unix ns
}

// full is the file's path below Ray's temporary folder.
func (s found) full() string { return s.dir + "/" + s.path }

// walkResult is one look at logs folders. It is used again for the next: with thousands of files that is most of what a look costs.
type walkResult struct {
	files []found
	dirs  []string // all folders, below Ray's temporary folder
	// partial: something could not be read, so that a file that is missing here may exist all the same.
	partial bool
	errs    []error
}

// walk lists the regular files below logs folders, which are below root. Symbolic links are neither followed nor listed: what they
// lead to is found where it is, if it is there at all.
func (w *walkResult) walk(root *os.Root, dirs []string) {
	*w = walkResult{files: w.files[:0], dirs: w.dirs[:0]}
	for _, dir := range dirs {
		w.folder(root, dir, "")
	}
}

func (w *walkResult) fail(err error) {
	w.partial = true
	w.errs = append(w.errs, err)
}

func (w *walkResult) folder(root *os.Root, dir, below string) {
	opened, err := root.Open(path.Join(dir, below))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		w.fail(fmt.Errorf("read log folder %q: %w", path.Join(dir, below), err))
		return
	}
	defer opened.Close()
	names, err := opened.Readdirnames(-1)
	if err != nil {
		w.fail(fmt.Errorf("read log folder %q: %w", path.Join(dir, below), err))
	}
	w.dirs = append(w.dirs, path.Join(dir, below))
	fd := int(opened.Fd())
	for _, name := range names {
		var stat unix.Stat_t
		err := unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		p := name
		if below != "" {
			p = below + "/" + name
		}
		if err != nil {
			w.fail(fmt.Errorf("look at log %q: %w", p, err))
			continue
		}
		switch stat.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			if !skippedDir(name) {
				w.folder(root, dir, p)
			}
		case unix.S_IFREG:
			if !skippedFile(name) {
				w.files = append(w.files, found{dir: dir, path: p, id: fileID{uint64(stat.Dev), stat.Ino}, size: stat.Size, changed: stat.Mtim.Nano()})
			}
		}
	}
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
