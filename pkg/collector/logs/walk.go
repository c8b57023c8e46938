package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// fullPath is the file's path below Ray's temporary folder.
func (s seenFile) fullPath() string { return s.dir + "/" + s.path }

// isAt says whether both files have the same path. Each scan asks it of every file that is followed: to compare
// fullPath would allocate.
func (s seenFile) isAt(other seenFile) bool { return s.dir == other.dir && s.path == other.path }

// walkResult is the result of one walk. The next walk reuses it: with thousands of files, its memory is most of the
// cost of a walk.
type walkResult struct {
	dirs []string // the folders, below Ray's temporary folder: maxWatched at most
	// incomplete says that something could not be read that may be read later: a file that is missing here may still
	// exist.
	incomplete bool
	// forbidden are the folders that the collector has no right to read. What is in them may still exist, too.
	forbidden map[string]bool
	// left says of one of the logs that are never read why; nil: there are none.
	left error
	// unseen are the files and folders of which the file system gives no size and time, as a damaged disk or a share
	// does for weeks. They may still exist, with what is in them, and say nothing of others.
	unseen map[string]bool
	errs   []error

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

// maxDepth is how many folders deep logs are looked for: each has a descriptor open while those in it are read, and is
// opened through all those above it. Ray's own logs are in the first two.
const maxDepth = 32

// walkFolders lists the regular files below logs folders, which are below root. Symbolic links are neither followed nor
// listed: their target is found under its own name if it is below a logs folder. The error is that of visit.
func (w *walkResult) walkFolders(root *os.Root, dirs []string, visit visitor) error {
	*w = walkResult{dirs: w.dirs[:0], batch: w.batch[:0], visit: visit}
	for _, dir := range dirs {
		opened, err := regular.OpenFolder(root, dir)
		if err := w.readFolder(opened, err, dir, "", maxDepth); err != nil {
			return err
		}
	}
	return nil
}

// recordError notes that not all of a folder could be read.
func (w *walkResult) recordError(folder string, err error) {
	switch {
	case !errors.Is(err, fs.ErrPermission):
		w.incomplete = true
	case w.forbidden == nil:
		w.forbidden = map[string]bool{folder: true}
	default:
		w.forbidden[folder] = true
	}
	w.addError(err)
}

// addError keeps an error for the log, unless there are batchSize: whoever makes half a million files can have as many.
func (w *walkResult) addError(err error) {
	if len(w.errs) < batchSize {
		w.errs = append(w.errs, err)
	}
}

// recordUnseen notes a file, or a folder, of which the file system gives no size and time. If these are many, their
// folder counts as one that could not be read.
func (w *walkResult) recordUnseen(file string, err error) {
	if w.unseen == nil {
		w.unseen = make(map[string]bool)
	}
	if w.incomplete = w.incomplete || len(w.unseen) >= batchSize; !w.incomplete {
		w.unseen[file] = true
	}
	w.addError(err)
}

// isBelow says whether a file would be in one of the folders, or below one.
func isBelow(folders map[string]bool, s seenFile) bool {
	full := s.fullPath()
	for i := range len(full) {
		if full[i] == '/' && folders[full[:i]] {
			return true
		}
	}
	return false
}

// readFolder adds a folder to w.dirs, hands the logs in it on to w.visit, and does the same with its subfolders, depth
// levels down. dir is the logs folder and below the folder's path in it; err is that of opening the folder. What cannot
// be read is noted in w. The returned error is that of w.visit.
func (w *walkResult) readFolder(opened *os.File, err error, dir, below string, depth int) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, regular.ErrLink):
		w.left = fmt.Errorf("logs in %s: %w; move Ray's whole temporary folder instead (ray start --temp-dir, "+
			"--ray-tmp-dir)", path.Join(dir, below), regular.ErrLink)
		w.addError(w.left)
		return nil
	case err != nil:
		w.recordError(path.Join(dir, below), fmt.Errorf("read log folder %q: %w", path.Join(dir, below), err))
		return nil
	}
	defer opened.Close()
	if depth == 0 {
		if names, _ := opened.Readdirnames(1); len(names) > 0 {
			w.left = fmt.Errorf("logs in %s: they are more than %d folders deep", path.Join(dir, below), maxDepth)
			w.addError(w.left)
		}
		return nil
	}
	if len(w.dirs) < maxWatched {
		w.dirs = append(w.dirs, path.Join(dir, below))
	}
	if w.visit.opened != nil {
		w.visit.opened(path.Join(dir, below))
	}
	var within []string
	for {
		names, err := opened.Readdirnames(batchSize)
		w.batch = w.batch[:0]
		for _, name := range names {
			if w.addEntry(opened, dir, below, name) {
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
			w.recordError(path.Join(dir, below), fmt.Errorf("read log folder %q: %w", path.Join(dir, below), err))
			break
		}
	}
	for _, name := range within {
		subfolder, err := regular.OpenSubfolder(opened, name)
		if err := w.readFolder(subfolder, err, dir, path.Join(below, name), depth-1); err != nil {
			return err
		}
	}
	return nil
}

// addEntry adds the entry name of an open folder to w.batch if it is a log. isFolder says that it is a folder that may
// hold logs instead. dir is the logs folder and below the folder's path in it. What cannot be read is noted in w.
func (w *walkResult) addEntry(opened *os.File, dir, below, name string) (isFolder bool) {
	p := name
	if below != "" {
		p = below + "/" + name
	}
	stat, err := statFile(opened, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, fs.ErrPermission):
		w.recordError(path.Join(dir, below), fmt.Errorf("read log %q: %w", p, err))
	case err != nil:
		w.recordUnseen(path.Join(dir, p), fmt.Errorf("read log %q: %w", p, err))
	case stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		return name != "runtime_resources" // it holds no logs
	case stat.Mode&unix.S_IFMT == unix.S_IFREG && !skippedFile(name):
		w.batch = append(w.batch, seenFile{dir: dir, path: p, id: fileID{uint64(stat.Dev), stat.Ino}, size: stat.Size,
			changed: stat.Mtim.Nano()})
	}
	return false
}

// statFile is statIn, unless a test replaces it.
var statFile = statIn

// statIn tells of a file in an open folder, of a link itself. A signal may interrupt that on network shares.
func statIn(folder *os.File, name string) (stat unix.Stat_t, err error) {
	for {
		err = unix.Fstatat(int(folder.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
		if !errors.Is(err, unix.EINTR) {
			return stat, err
		}
	}
}

// skippedFile says which regular files are not logs: core dumps, as the kernel names them by default.
func skippedFile(name string) bool {
	rest, ok := strings.CutPrefix(name, "core")
	if !ok {
		return false
	}
	if rest == "" {
		return true
	}
	_, err := strconv.ParseUint(strings.TrimPrefix(rest, "."), 10, 64)
	return rest[0] == '.' && err == nil
}

// keyPath returns a file's path as it is used in a key. Keys are UTF-8 and appear in XML, so control characters and
// bytes that are not UTF-8 are written as %XX. So is a % that would read as one of them: two files with one key would
// be one log, of parts of both.
func keyPath(path string) string {
	clean := utf8.ValidString(path)
	for i := 0; clean && i < len(path); i++ {
		clean = path[i] >= 0x20 && path[i] != 0x7f && !readsAsEscaped(path[i:])
	}
	if clean {
		return path
	}
	var out strings.Builder
	for i := 0; i < len(path); {
		r, size := utf8.DecodeRuneInString(path[i:])
		if (r == utf8.RuneError && size == 1) || r < 0x20 || r == 0x7f || readsAsEscaped(path[i:]) {
			fmt.Fprintf(&out, "%%%02X", path[i])
			i++
			continue
		}
		out.WriteString(path[i : i+size])
		i += size
	}
	return out.String()
}

// readsAsEscaped says whether s begins with what keyPath writes in the place of a byte.
func readsAsEscaped(s string) bool {
	if len(s) < 3 || s[0] != '%' || s[1:3] != strings.ToUpper(s[1:3]) {
		return false
	}
	b, err := strconv.ParseUint(s[1:3], 16, 8)
	return err == nil && (b < 0x20 || b >= 0x7f || b == '%')
}

// splitRotated splits the path of a rotated file into the path that it was rotated from and its number, 1 for the
// newest. ok is false if it has no number. Ray's parts in Python call a rotated file monitor.log.3, those in C++ and
// the outputs of workers raylet.3.out (spdlog's rotating_file_sink).
func splitRotated(p string) (base string, number int, ok bool) {
	folder, stem := path.Split(p)
	extension := ""
	for range 2 { // the number is behind the last dot, or before the extension
		i := strings.LastIndexByte(stem, '.')
		if i <= 0 {
			break
		}
		if n, err := strconv.ParseUint(stem[i+1:], 10, 16); err == nil {
			return folder + stem[:i] + extension, int(n), true
		}
		stem, extension = stem[:i], stem[i:]
	}
	return "", 0, false
}

// mayCopy says whether a file at path may be a copy that rotation made of a log: raylet.out.1, raylet.out-2026.
func mayCopy(path, log string) bool {
	rest, ok := strings.CutPrefix(path, log)
	return ok && rest != "" && !strings.Contains(rest, "/") && strings.ContainsRune(".-_~", rune(rest[0]))
}

// byGeneration compares files for sorting: the rotated files of a log come in the order in which they were written, and
// all rotated files before all others.
func byGeneration(a, b seenFile) int {
	aBase, aNumber, aRotated := splitRotated(a.path)
	bBase, bNumber, bRotated := splitRotated(b.path)
	switch {
	case aRotated && bRotated && aBase == bBase:
		return bNumber - aNumber // the higher, the older
	case aRotated && !bRotated:
		return -1
	case bRotated && !aRotated:
		return 1
	}
	return strings.Compare(a.path, b.path)
}

// dumpRest is the time without writes after which a dump counts as the last one. Raylet and GCS write theirs every 10 s
// (debug_dump_period_milliseconds).
const dumpRest = 2 * time.Minute

// isDump says whether a file is a dump of a Ray process's state (debug_state.txt, debug_state_gcs.txt), which is
// overwritten in place repeatedly. It does not grow, and its chunks would come from different dumps. It is stored once,
// with its content when the process has ended or the collector ends, and not read again.
func isDump(logPath string) bool {
	name := path.Base(logPath)
	return strings.HasPrefix(name, "debug_state") && strings.HasSuffix(name, ".txt")
}
