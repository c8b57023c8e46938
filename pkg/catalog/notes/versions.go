package notes

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// maxTries is how often a note is read, or changed, again because somebody else changed it.
const maxTries = 20

// versions are the stored versions of a note.
type versions struct {
	newest  version
	highest int64 // the highest number
	keys    []string
}

// version is a stored version of a note; the zero value, without a key, stands for none.
type version struct {
	blob.Object
	number int64
}

// newerThan says whether a version is newer than another, which may be the zero version. Versions have numbers; earlier
// versions of the program wrote one without a number (0). Beside such a one, the time when they were stored decides.
func (v version) newerThan(other version) bool {
	if v.number == 0 || other.number == 0 {
		return other.Key == "" || v.ModTime.After(other.ModTime) || v.ModTime.Equal(other.ModTime) &&
			v.number > other.number
	}
	return v.number > other.number
}

// maxAfter is how many earlier versions a version names.
const maxAfter = 20

// listVersions lists the stored versions of a session's note, usually one. The newest is not always the one with the
// highest number: an earlier version of the program writes none (0).
func listVersions(ctx context.Context, store blob.Lister, root string, ref layout.Session) (versions, error) {
	var v versions
	for o, err := range store.List(ctx, layout.NoteKey(root, ref), blob.ListOptions{}) {
		if err != nil {
			return v, fmt.Errorf("list the note on %s: %w", ref, err)
		}
		if about, n, err := layout.ParseNote(root, o.Key); err == nil && about == ref {
			if this := (version{o, n}); this.newerThan(v.newest) {
				v.newest = this
			}
			v.highest, v.keys = max(v.highest, n), append(v.keys, o.Key)
		}
	}
	return v, nil
}

// Read returns the note on a session, the zero Note if there is none. An object that is not a note counts as a pinned
// one with Damaged set.
func Read(ctx context.Context, store blob.Reader, root string, ref layout.Session) (Note, error) {
	n, _, err := readNewest(ctx, store, root, ref)
	return n.Note, err
}

// readNewest reads the newest version of a note, and returns it with all versions that were listed; the zero value if
// there is none. The error is ErrContended if others replaced each version before it was read.
func readNewest(ctx context.Context, store blob.Reader, root string, ref layout.Session) (n stored, v versions,
	err error) {
	for range maxTries {
		if v, err = listVersions(ctx, store, root, ref); err != nil || v.newest.Key == "" {
			return stored{}, v, err
		}
		n, err = readNote(ctx, store, v.newest.Key)
		if !errors.Is(err, os.ErrNotExist) { // a later version has replaced it
			return n, v, err
		}
	}
	return n, v, ErrContended
}

// Change reads the note on a session, which is empty if there is none, lets change modify it, and stores it. If
// somebody else changes the note meanwhile, change is called again with their note, so no change is lost. The note is
// stored also if the error is ErrBusy.
func Change(ctx context.Context, store blob.Store, root string, ref layout.Session, change func(*Note) error) (Note,
	error) {
	for range maxTries {
		n, v, err := readNewest(ctx, store, root, ref)
		if err == nil {
			err = change(&n.Note)
		}
		if err != nil {
			return Note{}, err
		}
		if n.ID != "" { // it has an earlier version, which this one replaces: After names these, the newest first
			n.After = slices.Insert(n.After, 0, n.ID)[:min(len(n.After)+1, maxAfter)]
		}
		n.ID = rand.Text()
		err = createNext(ctx, store, root, ref, &n, v)
		if !errors.Is(err, os.ErrExist) {
			return n.Note, err
		}
	}
	return Note{}, ErrContended
}

// createNext stores a note as the version after v, and removes all earlier versions. It returns os.ErrExist if somebody
// else has created that version: then nothing is stored. If the note pins a session that is being removed, it returns
// ErrBusy.
func createNext(ctx context.Context, store blob.Store, root string, ref layout.Session, n *stored, v versions) error {
	if err := n.check(); err != nil {
		return err
	}
	key := layout.NoteVersionKey(root, ref, v.highest+1)
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := store.Create(ctx, key, bytes.NewReader(body)); errors.Is(err, os.ErrExist) {
		return os.ErrExist
	} else if err != nil {
		return fmt.Errorf("%w: store %s: %w", ErrNotStored, key, err)
	}
	// Since the versions were listed, somebody may have created this version and replaced it, so that its number was
	// free again. Then there is a later version that was not made from this one.
	latest, now, err := readNewest(ctx, store, root, ref)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotStored, err)
	}
	if latest.ID != n.ID && !slices.Contains(latest.After, n.ID) {
		_ = store.Delete(ctx, key)
		return os.ErrExist
	}
	for _, old := range now.keys {
		if old != now.newest.Key {
			_ = store.Delete(ctx, old) // what is left is removed with a later change
		}
	}
	if !n.Pinned {
		return nil
	}
	// A program that removes a session takes its lease and then looks for a pin: either it sees this pin, or its lease
	// is seen here.
	held, err := lease.Held(ctx, store, root, ref)
	if err == nil && held {
		err = ErrBusy
	}
	return err
}

// Remove removes the note on a session.
func Remove(ctx context.Context, store blob.Store, root string, ref layout.Session) error {
	v, err := listVersions(ctx, store, root, ref)
	if err != nil {
		return err
	}
	for _, key := range v.keys {
		if err := store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
