package web

import (
	"io"

	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Note is the page with the pin and the note on a session.
type Note struct {
	Frame
	Path     string // of the session, from the server's root
	Ref      layout.Session
	Note     notes.Note
	Kept     string // how long the session is kept, such as "expires in 12 days"
	Why      string // a sentence without its end
	Writable bool
	Most     int    // characters of a note
	Seen     string // which note the page shows, for its form to say
}

var noteTemplate = page("note.html")

// Render writes the page.
func (p Note) Render(w io.Writer) error { return render(w, noteTemplate, p) }
