package logs

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// stateFile says which file is which generation of which log of a session, so that a rotation is recognised across a
// restart of the collector. It does not say how much of a log is stored: only the store's listing does.
type stateFile struct {
	Streams []streamEntry `json:"wholes"` // the key of the first versions
}

type streamEntry struct {
	Path  string      `json:"path,omitempty"`
	Raw   []byte      `json:"raw,omitempty"` // the path, if it is not UTF-8, which JSON cannot hold
	Node  string      `json:"node"`          // hex
	Base  int64       `json:"base,omitempty"`
	From  int64       `json:"from,omitempty"`
	Cur   int         `json:"cur,omitempty"` // index into Files
	Files []fileEntry `json:"files"`
}

type fileEntry struct {
	Dir  string `json:"dir"`
	Name string `json:"name,omitempty"`
	Raw  []byte `json:"raw,omitempty"` // the name, if it is not UTF-8
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	// N and Sum are the prefix: a hash of the first N bytes.
	N    int64  `json:"n,omitempty"`
	Sum  uint64 `json:"sum,omitempty"`
	Read int64  `json:"read,omitempty"`
	// Size is the size of a dump, which is stored as it was when it was first read; 0 means not known.
	Size int64 `json:"size,omitempty"`
	// Limit is file.ownBytes; 0: all bytes.
	Limit int64 `json:"limit,omitempty"`
	Gone  bool  `json:"gone,omitempty"`
}

// saveState writes the idle logs and then the state, so that a log that became idle is always in one of the files. The
// tree's lock is held.
func (t *tree) saveState() error {
	if err := t.saveIdle(); err != nil {
		return err
	}
	if err := atomicfile.WriteFunc(t.state, t.encode); err != nil {
		return err
	}
	t.dirty = false
	clear(t.idle.again)
	return nil
}

// encode writes the tree's state as the JSON of a stateFile, one stream at a time: for a hundred thousand logs the JSON
// is 40 MB long.
func (t *tree) encode(w *bufio.Writer) error {
	_, _ = w.WriteString(`{"wholes":[`) // the writer keeps its first error
	separator := ""
	lines := json.NewEncoder(w)
	for _, s := range t.streams {
		_, _ = w.WriteString(separator)
		if err := lines.Encode(s.toEntry()); err != nil {
			return fmt.Errorf("encode the state of log %s: %w", s.path, err)
		}
		separator = ","
	}
	_, err := w.WriteString("]}\n")
	return err
}

func (s *stream) toEntry() streamEntry {
	entry := streamEntry{Node: s.node.String(), Base: s.base, From: s.fileOffset, Cur: slices.Index(s.files, s.current)}
	entry.Path, entry.Raw = textOrRaw(s.path)
	for _, f := range s.files {
		entry.Files = append(entry.Files, f.toEntry())
	}
	return entry
}

// textOrRaw returns a path as text or, if JSON would change it, as bytes.
func textOrRaw(path string) (text string, raw []byte) {
	if utf8.ValidString(path) {
		return path, nil
	}
	return "", []byte(path)
}

// loadState reads the state that an earlier collector left. A file that cannot be parsed is renamed and not used: the
// store's listing still shows how much of each log is stored.
func (t *tree) loadState() error {
	data, err := os.ReadFile(t.state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state of %s: %w", t.session, err)
	}
	var state stateFile
	if err := json.Unmarshal(data, &state); err != nil {
		t.log.WithError(err).Warnf("%s is damaged: a log that was rotated in the meantime may be stored under both "+
			"of its names", t.state)
		return os.Rename(t.state, t.state+".damaged")
	}
	present := presentDevices(t.tailer.opts.Dir, state.Streams)
	for _, entry := range state.Streams {
		entry.Path = cmp.Or(entry.Path, string(entry.Raw))
		node, err := rayid.Parse[rayid.Node](entry.Node)
		if err != nil || !entry.isValid() {
			t.log.WithField("log", entry.Path).Warnf(
				"%s has an invalid entry for this log: if it was rotated in the meantime, it may be stored under "+
					"both of its names", t.state)
			continue
		}
		t.restoreStream(node, entry, present)
	}
	return nil
}

// presentDevices returns the present number of each device, by its number in the state file: a volume that is mounted
// again may have another one, as a network share does on each machine. Inodes stay, so it looks at the paths of a
// device's files until one of them still has its inode; if all were rotated or moved, it takes the number that one of
// their folders has. dir is Ray's temporary folder.
func presentDevices(dir string, streams []streamEntry) map[uint64]uint64 {
	present, ofFolders := make(map[uint64]uint64), make(map[uint64]uint64)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return present
	}
	defer root.Close()
	for _, s := range streams {
		for _, e := range s.Files {
			if _, known := present[e.Dev]; known {
				continue
			}
			info, err := root.Lstat(path.Join(e.Dir, cmp.Or(e.Name, string(e.Raw))))
			if err == nil && idOf(info).ino == e.Ino {
				present[e.Dev] = idOf(info).dev
			} else if info, err := root.Lstat(e.Dir); err == nil { // this file was moved, removed or replaced
				ofFolders[e.Dev] = idOf(info).dev
			}
		}
	}
	maps.Copy(ofFolders, present)
	return ofFolders
}

// restoreStream adds a stream from the state file. present is of presentDevices.
func (t *tree) restoreStream(node rayid.Node, entry streamEntry, present map[uint64]uint64) {
	s := t.streamOf(node, entry.Path)
	s.base, s.fileOffset, s.storedEnd = entry.Base, entry.From, entry.Base
	for i, e := range entry.Files {
		f := e.toFile()
		if dev, known := present[e.Dev]; known {
			f.id.dev = dev
		}
		if i == entry.Cur && !f.sizeIsExact {
			f.size = entry.From // read is not up to date for the current file
		}
		f.stream = s
		f.unstoredSince = time.Now().Add(-t.tailer.opts.PushInterval) // its new bytes may have waited for long
		s.files = append(s.files, f)
		if f.state != finished {
			t.files[f.id] = f
		}
	}
	s.current = s.files[min(max(entry.Cur, 0), len(s.files)-1)]
}

func (f *file) toEntry() fileEntry {
	e := fileEntry{
		Dir: f.dir, Dev: f.id.dev, Ino: f.id.ino, N: f.prefix.n, Sum: f.prefix.sum,
		Read: f.read, Limit: f.ownBytes, Gone: f.state == finished,
	}
	e.Name, e.Raw = textOrRaw(f.path)
	if isDump(f.path) {
		e.Size = f.size
	}
	return e
}

// toFile makes the file of an entry that an earlier collector saved. Its state is restored until a scan finds it, or
// finished if it was gone by then: all that could be read of it was read.
//
// A log's size is not saved: it has at least the bytes that were read of it, and the next scan tells the rest. The size
// of a dump of a Ray process's state (see isDump) is saved: it counts as it was when it was first looked at, although
// later dumps overwrite it.
func (e fileEntry) toFile() *file {
	f := &file{
		seenFile: seenFile{dir: e.Dir, path: cmp.Or(e.Name, string(e.Raw)), id: fileID{e.Dev, e.Ino}, size: e.Read},
		state:    restored, ownBytes: e.Limit, prefix: prefix{e.N, e.Sum}, read: e.Read,
	}
	if isDump(f.path) && e.Size > 0 {
		f.size, f.sizeIsExact = e.Size, true
	}
	if e.Gone {
		f.state = finished
	}
	return f
}

// isValid says whether saveState can have written the entry. Other users may be able to write to the folder, so the
// file is not trusted.
func (s streamEntry) isValid() bool {
	if layout.CheckLogPath(keyPath(s.Path)) != nil || len(s.Files) == 0 || s.Base < 0 || s.From < 0 {
		return false
	}
	return !slices.ContainsFunc(s.Files, func(e fileEntry) bool {
		return e.Dir == "" || e.Name == "" && len(e.Raw) == 0 || e.N < 0 || e.N > maxPrefix || e.Read < 0 ||
			e.Size < 0 || e.Limit < 0
	})
}

// The file of idle logs serves as the state file does for those that are followed: a log that is rotated while the
// collector restarts is recognised, and empty logs are not listed again. All numbers are little endian.

const idleMagic = "resting\x01"

// idleEntry is one record of the file.
type idleEntry struct {
	Key, Sum, Ino uint64
	N             uint16
	Node          uint8
}

func (t *tree) idlePath() string { return t.state + ".resting" }

// saveIdle writes the file of idle logs. It has room for one node less than there may be, because their number is a
// byte: logs of that node are left out, and found anew. The tree's lock is held.
func (t *tree) saveIdle() error {
	if !t.idle.dirty {
		return nil
	}
	err := atomicfile.WriteFunc(t.idlePath(), func(w *bufio.Writer) error {
		_, _ = w.WriteString(idleMagic)                      // the writer keeps its first error
		_ = binary.Write(w, binary.LittleEndian, t.idle.dev) // for earlier versions
		_ = w.WriteByte(uint8(min(len(t.idle.nodes), maxIdleNodes-1)))
		for i := range min(len(t.idle.nodes), maxIdleNodes-1) {
			_, _ = w.Write(t.idle.nodes[i][:])
		}
		var record []byte
		for _, files := range []map[idleKey]idleFile{t.idle.again, t.idle.files} {
			for key, f := range files {
				if f.node == maxIdleNodes-1 {
					continue
				}
				if f.prefixSize == 0 && len(t.empty.names) > 0 {
					continue // empty logs in the file count as listed, and this one may be of those that are not
				}
				record, _ = binary.Append(record[:0], binary.LittleEndian,
					idleEntry{uint64(key), f.prefixSum, f.ino, f.prefixSize, f.node})
				_, _ = w.Write(record)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.idle.dirty, t.empty.unsaved = false, len(t.empty.names) > 0
	return nil
}

// loadIdle reads the file of idle logs. They have no stamp, so the next scan looks at each again, because the store's
// listing says whether they are stored. A damaged file is used as far as it can be read; nil is returned then, too.
func (t *tree) loadIdle() error {
	f, err := os.Open(t.idlePath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the idle logs of %s: %w", t.session, err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	magic := make([]byte, len(idleMagic))
	var dev uint64 // not used: device numbers may change with a restart, see idleLogs.isFile
	var nodes uint8
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != idleMagic {
		return nil
	}
	if binary.Read(r, binary.LittleEndian, &dev) != nil || binary.Read(r, binary.LittleEndian, &nodes) != nil {
		return nil
	}
	index := make([]uint8, nodes) // in t.idle.nodes, by the index in the file
	for i := range index {
		var node rayid.Node
		if _, err := io.ReadFull(r, node[:]); err != nil {
			return nil
		}
		index[i], _ = t.idle.nodeIndex(node)
	}
	type place struct {
		key  idleKey
		node rayid.Node
	}
	followed := make(map[place]bool) // by the state file: this one may have them, too, see idleLogs.again
	for _, s := range t.streams {
		followed[place{keyOfPath(t.dir, s.path), s.node}] = true
		followed[place{keyOfPath(s.current.dir, s.path), s.node}] = true
	}
	record := make([]byte, binary.Size(idleEntry{}))
	for {
		var e idleEntry
		if _, err := io.ReadFull(r, record); err != nil {
			return nil
		}
		_, _ = binary.Decode(record, binary.LittleEndian, &e)
		known := int(e.Node) < len(index) && e.N <= maxPrefix
		if known && !followed[place{idleKey(e.Key), t.idle.nodes[index[e.Node]]}] {
			t.idle.files[idleKey(e.Key)] = idleFile{prefixSum: e.Sum, ino: e.Ino, stamp: noStamp, prefixSize: e.N,
				node: index[e.Node]}
		}
	}
}

func (t *tree) removeState() error {
	var err error
	for _, file := range []string{t.state, t.idlePath()} {
		if failed := os.Remove(file); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
