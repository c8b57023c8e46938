package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/internal/regular"
)

// seenFile is one log file as a walk saw it.
type seenFile struct {
	dir     string // the logs folder, below Ray's temporary folder
	path    string // below the logs folder, with slashes
	id      fileID
	size    int64
	changed int64 // modification time, Unix ns
}

// full is the file's path below Ray's temporary folder.
func (s seenFile) full() string { return s.dir + "/" + s.path }

// walkResult is the result of one walk. The next walk reuses it: with thousands of files, its memory is most of the cost of a walk.
type walkResult struct {
	dirs []string // all folders, below Ray's temporary folder
	// partial says that something could not be read, so a file that is missing here may still exist.
	partial bool
	errs    []error

	batch []seenFile
	visit visitor
}

// visitor gets what a walk finds.
type visitor struct {
	// opened, unless nil, gets each folder before it is read.
	opened func(dir string)
	// files gets the files of a folder, batchSize at most; a walk ends early when it returns an error.
	files func([]seenFile) error
}

// batchSize is how many files of a folder are handed on at a time: a folder may have half a million.
const batchSize = 512

// maxDepth is how many folders deep logs are looked for: each has a descriptor open while those in it are read, and is opened through all those
// above it. Ray's own logs are in the first two.
const maxDepth = 32

// walk lists the regular files below logs folders, which are below root. Symbolic links are neither followed nor listed: their target
// is found under its own name if it is below a logs folder. The error is that of visit.
func (w *walkResult) walk(root *os.Root, dirs []string, visit visitor) error {
	*w = walkResult{dirs: w.dirs[:0], batch: w.batch[:0], visit: visit}
	for _, dir := range dirs {
		opened, err := regular.OpenFolder(root, dir)
		if err := w.folder(opened, err, dir, "", maxDepth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walkResult) fail(err error) {
	w.partial = true
	w.errs = append(w.errs, err)
}

// folder lists a folder that was opened, or could not be, and those in it down to depth.
func (w *walkResult) folder(opened *os.File, err error, dir, below string, depth int) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, regular.ErrLink):
		w.errs = append(w.errs, fmt.Errorf("log folder %q is not read: %w", path.Join(dir, below), err))
		return nil
	case err != nil:
		w.fail(fmt.Errorf("read log folder %q: %w", path.Join(dir, below), err))
		return nil
	}
	defer opened.Close()
	if depth == 0 {
		w.errs = append(w.errs, fmt.Errorf("folder %q: logs more than %d folders deep are not read", path.Join(dir, below), maxDepth))
		return nil
	}
	w.dirs = append(w.dirs, path.Join(dir, below))
	if w.visit.opened != nil {
		w.visit.opened(path.Join(dir, below))
	}
	var within []string
	for {
		names, err := opened.Readdirnames(batchSize)
		w.batch = w.batch[:0]
		for _, name := range names {
			if w.file(opened, dir, below, name) {
				within = append(within, name)
			}
		}
		if err := w.visit.files(w.batch); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) || (err == nil && len(names) == 0) {
			break
		}
		if err != nil {
			w.fail(fmt.Errorf("read log folder %q: %w", path.Join(dir, below), err))
			break
		}
	}
	for _, name := range within {
		subfolder, err := regular.OpenSubfolder(opened, name)
		if err := w.folder(subfolder, err, dir, path.Join(below, name), depth-1); err != nil {
			return err
		}
	}
	return nil
}

// file adds a file of a folder to the batch if it is a log; isFolder says that it is a folder with logs instead.
func (w *walkResult) file(opened *os.File, dir, below, name string) (isFolder bool) {
	p := name
	if below != "" {
		p = below + "/" + name
	}
	var stat unix.Stat_t
	err := unix.Fstatat(int(opened.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		w.fail(fmt.Errorf("read log %q: %w", p, err))
	case stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		return !skippedDir(name)
	case stat.Mode&unix.S_IFMT == unix.S_IFREG && !skippedFile(name):
		w.batch = append(w.batch, seenFile{dir: dir, path: p, id: fileID{uint64(stat.Dev), stat.Ino}, size: stat.Size, changed: stat.Mtim.Nano()})
	}
	return false
}
