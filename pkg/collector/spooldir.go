package collector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rayhistory/historyserver/internal/privatedir"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// subfolders of the spool's folder.
var subfolders = []string{"events", "logs", "snapshots"}

// spoolFolder creates the spool's folder and its subfolders, and returns its path. That is a folder inside
// Options.SpoolDir if other users may have been able to write to that one, or if Ray's temporary folder is inside it,
// because Ray's user must be able to write there.
func spoolFolder(o Options) (string, error) {
	wanted := o.SpoolDir
	if ray, err := resolvePath(o.RayTmpDir); err != nil {
		return "", err
	} else if own, err := resolvePath(wanted); err != nil {
		return "", err
	} else if isWithin(ray, own) {
		wanted = filepath.Join(wanted, ".rayhistory")
	}
	dir, err := privateFolder(wanted, o.RayTmpDir)
	if err != nil {
		return "", fmt.Errorf("make the spool's folder (--spool-dir): %w", err)
	}
	if dir != wanted {
		o.Log.WithField("folder", dir).Warn(
			"other users may have written to the spool's folder (--spool-dir): the collector uses a folder inside " +
				"it, and does not ship files that were already there")
	}
	return dir, makeSubfolders(dir)
}

func privateFolder(dir, rayTmpDir string) (string, error) {
	if err := LeaveToRay(dir, rayTmpDir); err != nil {
		return "", err
	}
	return privatedir.Open(dir)
}

// makeSubfolders makes no other folder: the one that they are in may be gone again, with Ray's.
func makeSubfolders(dir string) error {
	for _, name := range subfolders {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the spool's folder (--spool-dir): %w", err)
		}
	}
	return nil
}

// removeUnfinished removes files that a collector was writing when it was killed: no other one uses the locked folder.
// Those of other programs of this user stay: the folder may be one that they also use.
func (c *Collector) removeUnfinished() {
	for _, pattern := range []string{".sessions.json.*.tmp", ".chunks.jsonl.*.tmp", "logs/.session_*.tmp",
		"snapshots/session_*/*.tmp"} {
		left, _ := fs.Glob(os.DirFS(c.opts.SpoolDir), pattern) // the folder's own path is no pattern
		for _, file := range left {
			_ = os.Remove(filepath.Join(c.opts.SpoolDir, file))
		}
	}
}

// keepFolder makes the spool's folder again if it was deleted, as programs that clean /tmp do. What the collector
// remembers is written there again when it changes.
func (c *Collector) keepFolder() error {
	c.folder.Lock()
	defer c.folder.Unlock()
	gone := func(name string) bool {
		info, err := os.Lstat(filepath.Join(c.opts.SpoolDir, name))
		if err != nil {
			return errors.Is(err, fs.ErrNotExist)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		return !ok || int(stat.Uid) != os.Geteuid() // another user made it
	}
	if !gone(".") && !slices.ContainsFunc(subfolders, gone) {
		return nil
	}
	dir, err := privateFolder(c.opts.SpoolDir, c.opts.RayTmpDir)
	if err == nil && dir != c.opts.SpoolDir {
		err = errors.New("it was deleted, and other users can write to the one that is there now")
	}
	if err == nil {
		err = makeSubfolders(dir)
	}
	if err != nil {
		return fmt.Errorf("make the spool's folder (--spool-dir) again: %w", err)
	}
	c.opts.Log.WithField("folder",
		dir).Error("the spool's folder (--spool-dir) or a part of it was deleted and is made again: events that were " +
		"not stored yet are lost. Set --spool-dir to a folder that no program cleans")
	return nil
}

func (c *Collector) isSpooled(session string) bool {
	prefix := layout.Prefix(c.opts.Root, c.sessions.refOf(session))
	return slices.ContainsFunc(c.spool.Streams(),
		func(s *spool.Stream) bool { return strings.HasPrefix(s.Key(), prefix) })
}

func (c *Collector) spoolSeries(ctx context.Context, session string, hour time.Time, lines []byte) error {
	return c.spool.AppendMinor(ctx, layout.SeriesKey(c.opts.Root, c.sessions.refOf(session), hour), lines)
}

func (c *Collector) spoolMetrics(ctx context.Context, session string, id rayid.Node, hour time.Time,
	lines []byte) error {
	return c.spool.AppendMinor(ctx, layout.MetricsKey(c.opts.Root, c.sessions.refOf(session), id, hour), lines)
}

// spoolEmptyLogs spools names of empty logs; the tailer keeps what is not taken.
func (c *Collector) spoolEmptyLogs(session string, id rayid.Node, names []byte) error {
	return c.spool.AppendMinor(context.Background(),
		layout.EmptyLogsKey(c.opts.Root, c.sessions.refOf(session), id), names)
}

// noKind is the layout.Kind of the streams in the spool that layout.KindOfStream does not tell: all events.
const noKind = layout.Kind(0)

// spooledGroup is the group of the streams in the spool of a kind.
func (c *Collector) spooledGroup(name string, kind layout.Kind, compression layout.Compression) ship.Group {
	isOfKind := func(key string) bool { return layout.KindOfStream(key) == kind }
	return ship.Group{
		Name: name, Compression: compression,
		Sources: func() (sources []ship.Source) {
			for _, s := range c.spool.Streams() {
				if isOfKind(s.Key()) {
					sources = append(sources, s)
				}
			}
			return sources
		},
		Waiting: func() (int64, time.Time) { return c.spool.Waiting(isOfKind) },
	}
}

// NoRayError says that a folder of the collector's cannot be made yet, because it would be below a folder that Ray
// makes. If the collector made that one, Ray's user could not write to it, and Ray would not start.
type NoRayError struct {
	Folder string // that Ray makes
}

func (e *NoRayError) Error() string {
	return fmt.Sprintf("Ray has not made the folder %s yet", e.Folder)
}

// LeaveToRay returns a NoRayError if making a folder, with those above it that are missing, would make one of Ray's:
// its temporary folder, one above that, or a session's.
func LeaveToRay(folder, rayTmpDir string) error {
	own, err := resolvePath(folder)
	if err != nil {
		return err
	}
	ray, err := resolvePath(rayTmpDir)
	if err != nil {
		return err
	}
	top := own // the highest folder that is missing
	for dir := own; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		top = dir
	}
	if _, err := os.Lstat(top); err == nil {
		return nil // all are there
	}
	if isWithin(ray, top) {
		return &NoRayError{rayTmpDir}
	}
	if below, ok := strings.CutPrefix(top, ray+string(filepath.Separator)); ok && strings.HasPrefix(below, "session_") {
		return &NoRayError{top}
	}
	return nil
}

func isWithin(path, folder string) bool {
	const separator = string(filepath.Separator)
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, separator)+separator)
}

// resolvePath returns a path as an absolute one without symbolic links. What does not exist at its end stays as it is.
func resolvePath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	missing := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, missing), nil
		}
		if dir == filepath.Dir(dir) {
			return path, nil
		}
		missing = filepath.Join(filepath.Base(dir), missing)
	}
}
