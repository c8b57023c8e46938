package logs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// The file of resting logs serves as the state file does for those that are followed: a log that is rotated while the collector restarts is
// recognised. Empty logs are not in it, because the lists of empty logs have them. All numbers are little endian.

const restingMagic = "resting\x01"

// restingEntry is one record of the file.
type restingEntry struct {
	Key, Sum, Ino uint64
	N             uint16
	Node          uint8
}

func (t *tree) restingPath() string { return t.state + ".resting" }

// saveResting writes the file of resting logs; the tree's lock is held.
func (t *tree) saveResting() error {
	err := atomicfile.WriteFunc(t.restingPath(), func(w *bufio.Writer) error {
		_, _ = w.WriteString(restingMagic) // the writer keeps its first error
		_ = binary.Write(w, binary.LittleEndian, t.resting.dev)
		_ = w.WriteByte(uint8(min(len(t.resting.nodes), maxRestingNodes-1)))
		for i := range min(len(t.resting.nodes), maxRestingNodes-1) {
			_, _ = w.Write(t.resting.nodes[i][:])
		}
		var record []byte
		for key, f := range t.resting.files {
			if f.n == 0 || f.node == maxRestingNodes-1 {
				continue
			}
			record, _ = binary.Append(record[:0], binary.LittleEndian, restingEntry{uint64(key), f.sum, f.ino, f.n, f.node})
			_, _ = w.Write(record)
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.restingDirty = false
	return nil
}

// loadResting reads the file of resting logs. Those in it are looked at again, because the store's listing says whether they are stored. A
// damaged file is not used further than it can be read.
func (t *tree) loadResting() error {
	f, err := os.Open(t.restingPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the resting logs of %s: %w", t.session, err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	magic := make([]byte, len(restingMagic))
	var dev uint64
	var nodes uint8
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != restingMagic {
		return nil
	}
	if binary.Read(r, binary.LittleEndian, &dev) != nil || binary.Read(r, binary.LittleEndian, &nodes) != nil {
		return nil
	}
	index := make([]uint8, nodes)
	for i := range index {
		var node rayid.Node
		if _, err := io.ReadFull(r, node[:]); err != nil {
			return nil
		}
		index[i], _ = t.resting.nodeIndex(node)
	}
	t.resting.dev = dev
	record := make([]byte, binary.Size(restingEntry{}))
	for {
		var e restingEntry
		if _, err := io.ReadFull(r, record); err != nil {
			return nil
		}
		_, _ = binary.Decode(record, binary.LittleEndian, &e)
		if int(e.Node) < len(index) && e.N > 0 && e.N <= maxPrefix {
			t.resting.put(restingKey(e.Key), restingFile{sum: e.Sum, ino: e.Ino, look: noLook, n: e.N, node: index[e.Node]})
		}
	}
}

// removeState removes what is kept of the session on disk.
func (t *tree) removeState() error {
	files := []string{t.state, t.restingPath()}
	nodes, err := t.emptyNodes()
	for _, node := range nodes {
		files = append(files, t.emptyPath(node))
	}
	for _, file := range files {
		if removed := os.Remove(file); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}
