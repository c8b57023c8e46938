package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// emptyLogs is the list of a node's logs that were empty when they were first seen: their paths, a line each. It is a
// stream of its own, because an object for each of half a million empty logs would cost as many requests. It implements
// ship.Source.
//
// The list is kept in a file, so that after a restart only new names are added. If the store has more of the list than
// the file explains, such as after the file was lost, all names of the file are listed again behind what is stored: a
// name may stand there twice.
type emptyLogs struct {
	key, path string

	mu      sync.Mutex
	added   []byte    // lines that are not in the file yet
	base    int64     // the stream's byte at base is the first one of the file's lines; -1: no listing has told it yet
	size    int64     // bytes of lines in the file
	pos     int64     // the bytes of the stream before it are stored, if resumed
	resumed bool      // a listing has told pos
	oldest  time.Time // when the first line that is not stored was added
}

const (
	// emptyHeader is the length of the file's first line, which has base.
	emptyHeader = 21
	// maxAdded bounds the lines that wait for the file, in bytes: more empty logs are looked at again by the next scan.
	maxAdded = 1 << 20
)

func newEmptyLogs(key, path string) *emptyLogs { return &emptyLogs{key: key, path: path, base: -1} }

// load reads what an earlier collector left, and calls known with each path of a log in it. A file without its first
// line is written again.
func (e *emptyLogs) load(known func(logPath string)) error {
	f, err := os.Open(e.path)
	if err != nil {
		return fmt.Errorf("read the list of empty logs: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	header := make([]byte, emptyHeader)
	if _, err := io.ReadFull(lines, header); err != nil {
		return nil
	}
	base, err := strconv.ParseInt(string(header[:emptyHeader-1]), 10, 64)
	if err != nil || base < -1 {
		return nil
	}
	e.base = base
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, bufio.ErrBufferFull): // a crash may have left a part of a line
			return nil
		case err != nil:
			return fmt.Errorf("read the list of empty logs: %w", err)
		}
		known(string(line[:len(line)-1]))
		e.size += int64(len(line))
		e.oldest = time.Now()
	}
}

// add adds a path to the list; false if there is no room until write succeeds.
func (e *emptyLogs) add(now time.Time, logPath string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.added)+len(logPath) >= maxAdded && e.write() != nil {
		return false
	}
	e.added = append(append(e.added, logPath...), '\n')
	if e.oldest.IsZero() {
		e.oldest = now
	}
	return true
}

// save writes what was added.
func (e *emptyLogs) save() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.write()
}

// write writes the lines that were added. Nothing of them counts unless all are written.
func (e *emptyLogs) write() error {
	if len(e.added) == 0 {
		return nil
	}
	if e.size == 0 {
		if err := e.writeAt(os.O_CREATE, e.header(), 0); err != nil {
			return err
		}
	}
	if err := e.writeAt(os.O_CREATE, e.added, emptyHeader+e.size); err != nil {
		return err
	}
	e.size += int64(len(e.added))
	e.added = e.added[:0]
	return nil
}

func (e *emptyLogs) header() []byte { return fmt.Appendf(nil, "%020d\n", e.base) }

// writeAt writes to the file at an offset. With os.O_CREATE it makes the file if there is none.
func (e *emptyLogs) writeAt(create int, data []byte, at int64) error {
	f, err := os.OpenFile(e.path, os.O_WRONLY|create, 0o600)
	if err == nil {
		_, err = f.WriteAt(data, at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write the list of empty logs: %w", err)
	}
	return nil
}

// waiting returns the bytes of the list that are not stored.
func (e *emptyLogs) waiting() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	bytes := int64(len(e.added)) + e.size
	if e.resumed {
		bytes -= e.pos - e.base
	}
	return bytes
}

// Key implements ship.Source.
func (e *emptyLogs) Key() string { return e.key }

// Unresumed says that Resume was not called yet.
func (e *emptyLogs) Unresumed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.resumed
}

// Resume implements ship.Source.
func (e *emptyLogs) Resume(stored int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pos, e.resumed = stored, true
	if e.base < 0 || stored < e.base || stored > e.base+e.size || !e.isLineStart(stored) {
		e.base = stored
		if e.size > 0 {
			if err := e.writeAt(0, e.header(), 0); err != nil {
				e.resumed = false
				return err
			}
		}
	}
	e.updateAge()
	return nil
}

// isLineStart says whether a line of the file begins at a byte of the stream.
func (e *emptyLogs) isLineStart(at int64) bool {
	if at == e.base {
		return true
	}
	end, err := e.read(at-1, 1)
	return err == nil && end[0] == '\n'
}

// read reads n bytes of the stream at an offset from the file.
func (e *emptyLogs) read(offset, n int64) ([]byte, error) {
	f, err := os.Open(e.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, n)
	_, err = f.ReadAt(data, emptyHeader+offset-e.base)
	return data, err
}

// Pending implements ship.Source. The list is cut at line ends.
func (e *emptyLogs) Pending(limit int64) (offset, n int64, oldest time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.resumed {
		return 0, min(e.size, limit), e.oldest
	}
	offset, n = e.pos, e.base+e.size-e.pos
	if n > limit {
		n = e.cut(offset, limit, n)
	}
	if n == 0 {
		return offset, 0, time.Time{}
	}
	return offset, n, e.oldest
}

// cut returns the length of the whole lines from an offset, at most limit bytes unless the first one has more.
func (e *emptyLogs) cut(offset, limit, all int64) int64 {
	const longest = 1024 // bytes that no line exceeds
	from := max(0, limit-longest)
	text, err := e.read(offset+from, min(limit+longest, all)-from)
	if err != nil {
		return 0 // Open tells the error
	}
	before, after := text[:limit-from], text[limit-from:]
	if i := bytes.LastIndexByte(before, '\n'); i >= 0 {
		return from + int64(i) + 1
	}
	return limit + int64(bytes.IndexByte(after, '\n')) + 1
}

// Open implements ship.Source.
func (e *emptyLogs) Open(offset, n int64) (io.ReadSeekCloser, error) {
	e.mu.Lock()
	at := emptyHeader + offset - e.base
	e.mu.Unlock()
	f, err := os.Open(e.path)
	if err != nil {
		return nil, fmt.Errorf("open the list of empty logs: %w", err)
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{io.NewSectionReader(f, at, n), f}, nil
}

// Shipped implements ship.Source.
func (e *emptyLogs) Shipped(end int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pos = end
	e.updateAge()
}

func (e *emptyLogs) updateAge() {
	if e.pos >= e.base+e.size && len(e.added) == 0 {
		e.oldest = time.Time{}
	} else if e.oldest.IsZero() {
		e.oldest = time.Now()
	}
}

// EmptyLogs returns the lists of empty logs that have something to ship.
func (t *Tailer) EmptyLogs() []ship.Source {
	var sources []ship.Source
	for tree := range t.locked() {
		for _, list := range tree.empty {
			if list.waiting() > 0 {
				sources = append(sources, list)
			}
		}
	}
	return sources
}

func (t *tree) emptyPath(node rayid.Node) string { return t.state + "." + node.String() + emptyExt }

const emptyExt = ".empty"

// loadEmpty reads the lists of empty logs that an earlier collector left. The logs in them are idle.
func (t *tree) loadEmpty() error {
	nodes, err := t.emptyNodes()
	if err != nil {
		return err
	}
	for _, node := range nodes {
		i, ok := t.idle.nodeIndex(node)
		if !ok {
			break
		}
		list := newEmptyLogs(t.tailer.opts.EmptyKey(t.session, node), t.emptyPath(node))
		if err := list.load(func(logPath string) {
			t.markSeen(keyOfPath(t.dir, logPath), idleFile{sum: prefixOf(nil).sum, node: i})
		}); err != nil {
			return err
		}
		t.empty[node] = list
	}
	return nil
}

// emptyNodes are the nodes that have lists of empty logs in the state's folder.
func (t *tree) emptyNodes() (nodes []rayid.Node, err error) {
	entries, err := os.ReadDir(filepath.Dir(t.state))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for lists of empty logs: %w", err)
	}
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), filepath.Base(t.state)+".")
		id, isList := strings.CutSuffix(rest, emptyExt)
		if node, err := rayid.Parse[rayid.Node](id); ok && isList && err == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}
