package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// The state file of a session tells which file is which generation of which log, so that a rotation is recognised across a restart of
// the collector. How much of a log is stored it does not tell: that is the store's word.
type stateFile struct {
	Wholes []stateWhole `json:"wholes"`
}

type stateWhole struct {
	Path  string       `json:"path"`
	Node  string       `json:"node"` // hex
	Base  int64        `json:"base,omitempty"`
	From  int64        `json:"from,omitempty"`
	Cur   int          `json:"cur,omitempty"` // index into Files
	Files []stateEntry `json:"files"`
}

type stateEntry struct {
	Dir  string `json:"dir"`
	Name string `json:"name"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	// The print: a hash of the first N bytes.
	N    int64  `json:"n,omitempty"`
	Sum  uint64 `json:"sum,omitempty"`
	Read int64  `json:"read,omitempty"`
	// Limit is where the file's part of the whole ends, 0 if it does not.
	Limit int64 `json:"limit,omitempty"`
	Gone  bool  `json:"gone,omitempty"`
}

// save writes the state; the tree's lock is held.
func (t *tree) save() error {
	s := stateFile{Wholes: make([]stateWhole, 0, len(t.wholes))}
	for _, w := range t.wholes {
		sw := stateWhole{Path: w.path, Node: w.node.String(), Base: w.base, From: w.from, Cur: slices.Index(w.files, w.cur)}
		for _, f := range w.files {
			sw.Files = append(sw.Files, stateEntry{Dir: f.dir, Name: f.name, Dev: f.id.dev, Ino: f.id.ino, N: f.print.n, Sum: f.print.sum, Read: f.read, Limit: f.limit, Gone: f.gone})
		}
		s.Wholes = append(s.Wholes, sw)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the state of %s: %w", t.session, err)
	}
	if err := atomicfile.Write(t.state, data); err != nil {
		return err
	}
	t.dirty = false
	return nil
}

// load reads the state an earlier collector left. A file that does not parse is set aside: the store still tells how much of each log
// it has.
func (t *tree) load() error {
	data, err := os.ReadFile(t.state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state of %s: %w", t.session, err)
	}
	var s stateFile
	if err := json.Unmarshal(data, &s); err != nil {
		t.log.WithError(err).Warnf("%s is damaged: a log that was rotated meanwhile may be stored under both of its names", t.state)
		return os.Rename(t.state, t.state+".damaged")
	}
	for _, sw := range s.Wholes {
		node, err := rayid.Parse[rayid.Node](sw.Node)
		if err != nil || len(sw.Files) == 0 {
			continue
		}
		w := &whole{tree: t, path: sw.Path, node: node, key: t.keyOf(node, keyPath(sw.Path)), base: sw.Base, from: sw.From, pos: sw.Base}
		for i, e := range sw.Files {
			f := &file{id: fileID{e.Dev, e.Ino}, dir: e.Dir, name: e.Name, limit: e.Limit, gone: e.Gone, print: print{e.N, e.Sum}, read: e.Read, size: e.Read, whole: w}
			if i == sw.Cur {
				f.size = sw.From
			}
			w.files = append(w.files, f)
			if !f.gone {
				t.files[f.id] = f
			}
		}
		w.cur = w.files[min(max(sw.Cur, 0), len(w.files)-1)]
		t.wholes[wholeID{node, w.path}] = w
	}
	return nil
}
