// Package notes holds the pins and notes of people on stored sessions. A pinned session is not removed.
//
// A note is one small object, which is replaced when it changes; docs/storage.md describes its key and form. Its text is untrusted.
package notes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/lease"
)

const (
	// MaxText is how many characters a note may have.
	MaxText = 2000
	maxBy   = 200
	// maxObject bounds the bytes that are read of a stored note.
	maxObject = 32 << 10
)

// Note is a pin or a note on a session; the zero Note is neither.
type Note struct {
	Pinned bool      `json:"pinned"`
	Text   string    `json:"text"`
	By     string    `json:"by,omitempty"` // who wrote it; "" where nobody signs in
	At     time.Time `json:"at,omitzero"`
	// Damaged says that the stored object is not a valid note. It may have contained a pin, so the session counts as pinned until another note
	// replaces it.
	Damaged bool `json:"damaged,omitempty"`
}

// Empty says that there is neither a pin nor a text.
func (n Note) Empty() bool { return !n.Pinned && n.Text == "" }

// Errors of Write.
var (
	// ErrTooLong: the text has more than MaxText characters.
	ErrTooLong = fmt.Errorf("a note has at most %d characters", MaxText)
	// ErrNotStored: the store did not take the note.
	ErrNotStored = errors.New("the note is not stored")
	// ErrBusy: the session is being changed, so it is not known whether the pin came in time.
	ErrBusy = errors.New("the session is being compacted or removed: the pin is stored, but it may be too late; " +
		"look again in a minute")
)

// Read returns the note on a session, the zero Note if there is none. An object that is not a note counts as a pinned one with Damaged set.
func Read(ctx context.Context, store blob.Reader, root string, ref layout.Session) (Note, error) {
	note, err := read(ctx, store, layout.NoteKey(root, ref))
	if errors.Is(err, os.ErrNotExist) {
		return Note{}, nil
	}
	return note, err
}

func read(ctx context.Context, store blob.Reader, key string) (n Note, err error) {
	body, err := store.Get(ctx, key, 0, maxObject)
	if err != nil {
		return n, fmt.Errorf("read the note %s: %w", key, err)
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	if err != nil {
		return Note{}, fmt.Errorf("read the note %s: %w", key, err)
	}
	var stored *Note // nil for null, which says nothing
	if json.Unmarshal(text, &stored) != nil || stored == nil {
		return Note{Pinned: true, Damaged: true}, nil
	}
	n = *stored
	n.Text, n.By, n.Damaged = cut(clean(n.Text), MaxText), cut(clean(n.By), maxBy), false
	return n, nil
}

// Write stores a note on a session and replaces the one before; an empty note means that there is none. After ErrBusy the note is stored.
func Write(ctx context.Context, store blob.Store, root string, ref layout.Session, n Note) error {
	n.Text, n.By, n.Damaged = strings.TrimSpace(clean(n.Text)), cut(clean(n.By), maxBy), false
	if len([]rune(n.Text)) > MaxText {
		return ErrTooLong
	}
	key := layout.NoteKey(root, ref)
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := store.Put(ctx, key, bytes.NewReader(body)); err != nil {
		return fmt.Errorf("%w: store %s: %w", ErrNotStored, key, err)
	}
	if !n.Pinned {
		return nil
	}
	// A program that removes a session takes its lease and then looks for a pin: either it sees this pin, or its lease is seen here.
	held, err := lease.Held(ctx, store, root, ref)
	if err == nil && held {
		err = ErrBusy
	}
	return err
}

// clean removes characters that are not text.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, "�"))
}

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}
