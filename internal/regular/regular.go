// Package regular opens files and folders in places where another user may have put anything. It opens only regular
// files and folders, follows no symbolic link out of the root, none at all to a folder, never blocks (as opening a FIFO
// would), and never reads more than allowed.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is a folder, FIFO, device or symbolic link where a file is wanted.
var ErrNotRegular = errors.New("it is not a regular file")

// errTooLong is a file with more bytes than allowed.
var errTooLong = errors.New("the file is too long")

// Open opens a regular file below root, and describes it. Links within root are followed; links that lead out of it are
// errors. Anything else than a file is ErrNotRegular, at once: opening a FIFO would otherwise wait for its writer.
func Open(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// OpenFile is Open of a path: its folder is the root.
func OpenFile(path string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, _, err := Open(root, filepath.Base(path))
	return f, err
}

// Read returns the content of a regular file below root. A file of more than limit bytes is an error. Errors contain
// the name, never the content.
func Read(root *os.Root, name string, limit int64) ([]byte, error) {
	f, _, err := Open(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Stat's size is no bound: the file may grow, and files of /proc have size 0.
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errTooLong}
	}
	return data, nil
}

// ReadFile is Read of a path: its folder is the root.
func ReadFile(path string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return Read(root, filepath.Base(path), limit)
}

// ErrLink is a symbolic link, or something else that is no folder, where a folder is wanted.
var ErrLink = errors.New("it is a symbolic link or no folder")

// OpenFolder opens a folder below root. No part of its path may be a symbolic link (ErrLink), because the folder that a
// link names has a path of its own. Anything else than a folder is an error at once, even a FIFO.
func OpenFolder(root *os.Root, name string) (*os.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	folder, err := root.Open(".")
	if err != nil || name == "." {
		return folder, err
	}
	for step := range strings.SplitSeq(name, "/") {
		next, err := OpenSubfolder(folder, step)
		_ = folder.Close()
		if err != nil {
			return nil, err
		}
		folder = next
	}
	return folder, nil
}

// OpenSubfolder opens a folder in an open one, by a name without slashes. A symbolic link, and what is no folder, is
// ErrLink.
func OpenSubfolder(parent *os.File, name string) (*os.File, error) {
	p := filepath.Join(parent.Name(), name)
	for {
		fd, err := unix.Openat(int(parent.Fd()), name,
			unix.O_RDONLY|unix.O_NONBLOCK|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), p), nil
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
			return nil, &fs.PathError{Op: "open", Path: p, Err: ErrLink}
		case !errors.Is(err, unix.EINTR):
			return nil, &fs.PathError{Op: "open", Path: p, Err: err}
		}
	}
}

// Folder lists the entries of a folder below root, in no order. If there are more than limit, it lists limit of them.
func Folder(root *os.Root, name string, limit int) ([]fs.DirEntry, error) {
	f, err := OpenFolder(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return entries, nil
}

// Last returns the names of the wanted entries of an open folder, sorted: the last limit of them. more says that there
// were others. It holds only little more than limit names in memory, however many entries the folder has.
func Last(folder *os.File, limit int, wanted func(fs.DirEntry) bool) (names []string, more bool, err error) {
	const batch = 256
	cut := func() {
		slices.Sort(names)
		if over := len(names) - limit; over > 0 {
			names, more = slices.Delete(names, 0, over), true
		}
	}
	for {
		entries, err := folder.ReadDir(batch)
		for _, e := range entries {
			if wanted(e) {
				names = append(names, e.Name())
			}
		}
		if len(names) > 2*limit+batch { // not at each name
			cut()
		}
		if err != nil {
			cut()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return names, more, err
		}
	}
}
