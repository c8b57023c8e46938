// Package notes holds the pins and notes of people on stored sessions. A pinned session is not removed.
//
// A note is a small object. When it changes, its next version is created, so of two who change it at the same time one
// learns of the other; docs/storage.md describes its key and form. Its text is untrusted.
package notes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/rayhistory/historyserver/pkg/blob"
)

const (
	// MaxText is how many characters a note may have.
	MaxText = 2000
	maxBy   = 200
	// maxObject bounds the bytes that are read of a stored note: in JSON a character takes at most 12, as in
	// \ud83d\ude00; the rest is for the other fields.
	maxObject = 12*(MaxText+maxBy) + 8<<10
)

// Note is a pin or a note on a session; the zero Note is neither.
type Note struct {
	Pinned bool      `json:"pinned"`
	Text   string    `json:"text"`
	By     string    `json:"by,omitempty"` // who wrote it; "" where nobody signs in
	At     time.Time `json:"at,omitzero"`
	// Damaged says that the stored object is not a valid note. It may have contained a pin, so the session counts as
	// pinned until another note replaces it.
	Damaged bool `json:"damaged,omitempty"`
}

// check removes what is not text from a note that a person wrote; the error is ErrTooLong if its text is too long.
func (n *Note) check() error {
	n.Text, n.By, n.Damaged = strings.TrimSpace(cleanText(n.Text)), cut(cleanText(n.By), maxBy), false
	if len([]rune(n.Text)) > MaxText {
		return ErrTooLong
	}
	return nil
}

// Empty says that there is neither a pin nor a text.
func (n Note) Empty() bool { return !n.Pinned && n.Text == "" }

// Edit is what a person changes in a note; a nil field stays as it is. The server reads it as JSON.
type Edit struct {
	Pinned *bool   `json:"pinned,omitempty"`
	Text   *string `json:"text,omitempty"`
}

// Apply makes the changes in a note, and sets its time to now and its author to by.
func (e Edit) Apply(n *Note, by string) {
	if e.Pinned != nil {
		n.Pinned = *e.Pinned
	}
	if e.Text != nil {
		n.Text = *e.Text
	}
	n.At, n.By, n.Damaged = time.Now().UTC(), by, false
}

// Errors of Change.
var (
	// ErrTooLong: the text has more than MaxText characters.
	ErrTooLong = fmt.Errorf("a note has at most %d characters", MaxText)
	// ErrNotStored: the store did not take the note.
	ErrNotStored = errors.New("the note is not stored")
	// ErrContended: others changed the note at each try.
	ErrContended = errors.New("others change this note all the time: nothing is stored")
	// ErrBusy: the session is being changed, so it is not known whether the pin came in time.
	ErrBusy = errors.New("the session is being compacted or removed: the pin is stored, but it may be too late; " +
		"look again in a minute")
)

// stored is a note as it is stored.
type stored struct {
	Note
	// ID makes two versions of the same content different: storing the same body again counts as the same write.
	ID string `json:"id,omitempty"`
	// After has the IDs of the versions before, the newest first.
	After []string `json:"after,omitempty"`
}

// readNote reads a stored note. An object that is not a valid note counts as a pinned one with Damaged set, so that
// retention does not remove its session.
func readNote(ctx context.Context, store blob.Reader, key string) (n stored, err error) {
	var found *stored // stays nil if the object is the JSON null, which is no note
	err = blob.ReadJSON(ctx, store, key, maxObject, &found)
	switch {
	case err != nil && !errors.Is(err, blob.ErrMalformed):
		return n, fmt.Errorf("read a note: %w", err)
	case err != nil || found == nil:
		return stored{Note: Note{Pinned: true, Damaged: true}}, nil
	}
	n = *found
	n.Text, n.By, n.Damaged = cut(cleanText(n.Text), MaxText), cut(cleanText(n.By), maxBy), false
	return n, nil
}

// cleanText removes control characters, except newlines and tabs, and replaces invalid UTF-8.
func cleanText(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, "�"))
}

func cut(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit])
	}
	return text
}
