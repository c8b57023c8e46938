package sessionlogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// emptyList is one stored object with the paths of a node's logs that were empty when they were first seen. Those that
// have bytes by now are stored as any log.
type emptyList struct {
	object blob.Object
	read   bool
	paths  []string // sorted
}

const (
	// lineBytes is the memory of a line while its list is read: its place among all lines, and among the names.
	lineBytes = 2 * 16
	// pathBytes is the memory of a path besides its text: its place in its list, and in the sorted list of all paths.
	pathBytes = 2 * 16
)

// AddList adds a stored list of empty logs, which ReadLists then reads. prefix is what the keys of the node's logs
// begin with.
func (l *Set) AddList(o layout.Object, prefix string, b blob.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	logs := l.nodeOf(o.Node)
	logs.prefix = prefix
	logs.lists = append(logs.lists, emptyList{object: b})
	l.contents += chunkHash(b.Key, b.Size)
}

// ReadLists reads the lists of empty logs that were added. Those that former has read are taken from it; former may be
// nil. reserve is called with the bytes that the set holds or needs to read a list; its error ends ReadLists. A list
// that was removed has no names, a damaged one those that can be read.
func (l *Set) ReadLists(ctx context.Context, former *Set, reserve func(bytes int64) error) error {
	known := former.listsRead()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, logs := range l.nodes {
		for i := range logs.lists {
			list := &logs.lists[i]
			if before, ok := known[list.object.Key]; ok && before.object.Size == list.object.Size &&
				before.object.ETag == list.object.ETag {
				list.paths, list.read = before.paths, true
			}
			if !list.read {
				reserveMore := func(bytes int64) error { return reserve(l.bytes + bytes) }
				if err := list.readFrom(ctx, l.store, reserveMore); err != nil {
					return err
				}
			}
			logs.sorted = nil
			for _, p := range list.paths {
				l.bytes += int64(len(p)) + pathBytes
			}
			if err := reserve(l.bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// listsRead returns the lists that were read, by key; none if the set is nil.
func (l *Set) listsRead() map[string]emptyList {
	known := make(map[string]emptyList)
	if l == nil {
		return known
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, logs := range l.nodes {
		for _, list := range logs.lists {
			if list.read {
				known[list.object.Key] = list
			}
		}
	}
	return known
}

// readFrom reads a list, and calls reserve with the bytes of memory that this takes. A list that was removed, or that
// the store has archived, stays unread. A last line without its end, and lines that are no path of a log, are left out.
func (e *emptyList) readFrom(ctx context.Context, store blob.Reader, reserve func(bytes int64) error) error {
	size := min(e.object.Size, layout.MaxChunk)
	if err := reserve(size); err != nil {
		return err
	}
	body, err := store.Get(ctx, e.object.Key, 0, size)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, blob.ErrArchived) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read a list of empty logs: %w", err)
	}
	var text strings.Builder
	text.Grow(int(size))
	_, err = io.Copy(&text, io.LimitReader(body, size))
	// The list may have become shorter since it was listed: what there is of it counts.
	if err := errors.Join(err, body.Close()); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read a list of empty logs: %w", err)
	}
	lines := strings.Count(text.String(), "\n")
	if err := reserve(2*size + int64(lines)*lineBytes); err != nil { // twice: the text, and the copies of its lines
		return err
	}
	paths := make([]string, 0, lines)
	for line := range strings.Lines(text.String()) {
		if p, whole := strings.CutSuffix(line, "\n"); whole && layout.CheckLogPath(p) == nil {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	e.read, e.paths = true, make([]string, len(paths))
	for i, p := range paths {
		e.paths[i] = strings.Clone(p) // so that the text of the whole list is freed
	}
	return nil
}

func (n *nodeLogs) isEmpty(path string) bool {
	return slices.ContainsFunc(n.lists, func(e emptyList) bool {
		_, found := slices.BinarySearch(e.paths, path)
		return found
	})
}

func (n *nodeLogs) paths() []string {
	all := slices.Collect(maps.Keys(n.files))
	for _, list := range n.lists {
		all = append(all, list.paths...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
