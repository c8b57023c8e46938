package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// List implements blob.Lister. It walks the folders in the order of keys, and holds the names of one folder of each
// level in memory.
func (s *Store) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		// The walk starts at the deepest folder that the prefix names whole.
		parentKey, path := "", "."
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			parentKey = prefix[:i+1]
			name, err := FileName(prefix[:i])
			if prefix[:i] == "" { // keys with an empty first segment
				name, err = marker, nil
			}
			if err != nil {
				return // no key can start so
			}
			path = name
		}
		w := walk{ctx: ctx, store: s, prefix: prefix, opts: opts, yield: yield}
		if _, err := w.listFolder(path, parentKey); err != nil && !errors.Is(err, errStopped) {
			yield(blob.Object{}, fmt.Errorf("list %s: %w", prefix, err))
		}
	}
}

// errStopped ends a walk whose caller has seen enough.
var errStopped = errors.New("stopped")

type walk struct {
	ctx    context.Context
	store  *Store
	prefix string
	opts   blob.ListOptions
	yield  func(blob.Object, error) bool // false ends the listing
}

// keyedEntry is an entry of a folder with the key it stands for; a folder's ends in "/". These sort as the keys below
// them do, which the names alone do not: "a.b" comes before "a/b".
type keyedEntry struct {
	key   string
	entry fs.DirEntry
}

// listFolder lists the objects in the folder at path, whose key is parentKey. found says whether there were any.
func (w *walk) listFolder(path, parentKey string) (found bool, err error) {
	entries, err := w.entriesOf(path, parentKey)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if err := w.ctx.Err(); err != nil {
			return found, err
		}
		listed, err := w.listEntry(path+"/"+e.entry.Name(), e)
		found = found || listed
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// listEntry lists one entry of a folder: a file as an object, and a folder by all objects in it or, in a delimited
// listing, as one prefix. found says whether there was an object to list.
func (w *walk) listEntry(path string, e keyedEntry) (found bool, err error) {
	path = strings.TrimPrefix(path, "./")
	if e.entry.IsDir() {
		switch {
		case w.opts.StartAfter >= e.key && (w.opts.Delimited || !strings.HasPrefix(w.opts.StartAfter, e.key)):
			return false, nil // all keys in it come before the first that is wanted
		case !w.opts.Delimited || len(e.key) <= len(w.prefix): // a delimited listing enters the prefix's own folder
			return w.listFolder(path, e.key)
		}
		if found, err = w.holdsObject(path); err != nil || !found {
			return found, err
		}
		return true, w.emit(blob.Object{Key: e.key, Prefix: true})
	}
	if !e.entry.Type().IsRegular() || e.key <= w.opts.StartAfter {
		return false, nil
	}
	info, err := e.entry.Info()
	if errors.Is(w.store.mapReadError(err), os.ErrNotExist) {
		return false, nil // deleted since
	}
	if err != nil {
		return false, err
	}
	return true, w.emit(objectOf(e.key, info))
}

func (w *walk) emit(o blob.Object) error {
	if !w.yield(o, nil) {
		return errStopped
	}
	return nil
}

// entriesOf returns what is in the folder at path whose keys begin with the prefix, in the order of keys. parentKey is
// the folder's key. The walk visits no folder above the prefix: List starts it at the deepest one that the prefix
// names.
func (w *walk) entriesOf(path, parentKey string) ([]keyedEntry, error) {
	dir, err := w.store.readFolder(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries := make([]keyedEntry, 0, len(dir))
	for _, entry := range dir {
		segment, ok := keySegment(entry.Name())
		if !ok {
			continue // no key has such a name
		}
		key := parentKey + segment
		if entry.IsDir() {
			key += "/"
			if strings.Count(path, "/") >= maxFolders {
				continue // no object can be there
			}
		}
		if strings.HasPrefix(key, w.prefix) {
			entries = append(entries, keyedEntry{key, entry})
		}
	}
	slices.SortFunc(entries, func(a, b keyedEntry) int { return strings.Compare(a.key, b.key) })
	return entries, nil
}

// holdsObject says whether there is any object below the folder at path: one that was just made for an object to come
// is no prefix yet.
func (w *walk) holdsObject(path string) (bool, error) {
	found := false
	probe := walk{ctx: w.ctx, store: w.store, yield: func(blob.Object, error) bool {
		found = true
		return false
	}}
	if _, err := probe.listFolder(path, ""); err != nil && !errors.Is(err, errStopped) {
		return false, err
	}
	return found, nil
}
