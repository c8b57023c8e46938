// Package note serves the pins and notes of people on sessions: a page with a form, and JSON.
package note

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// maxBody bounds the body of a request with a note, in bytes. Each character takes at most 12 of them in JSON or in a
// form. The limit is twice that, so that a text that is a little too long is refused with a message of its own.
const maxBody = 24*notes.MaxText + 16<<10

// Handlers answer requests about the pin and the note on a session. An error is returned only if nothing was written.
type Handlers struct {
	Notes     *notes.Book
	Retention *retention.Policy // nil: sessions never expire
	Writable  bool              // whether the server stores pins and notes
	Log       logrus.FieldLogger
}

// noteJSON is the data of an answer.
type noteJSON struct {
	notes.Note
	// Expires is when retention may remove the session, RFC 3339; "" if it does not. Why says by which rule.
	Expires string `json:"expires,omitempty"`
	Why     string `json:"why,omitempty"`
}

// answer returns the note on a session, and when and why retention removes the session.
func (h Handlers) answer(e catalog.Entry, n notes.Note) noteJSON {
	fate := h.Retention.Of(e, time.Now())
	answer := noteJSON{Note: n, Why: fate.Why}
	if !n.Pinned && !fate.Expires.IsZero() {
		answer.Expires = fate.Expires.UTC().Format(time.RFC3339)
	}
	return answer
}

// Get answers with the pin and the note on a session as JSON.
func (h Handlers) Get(w http.ResponseWriter, r *http.Request, e catalog.Entry) error {
	n, err := h.Notes.Read(r.Context(), e.Ref)
	if err != nil {
		return err
	}
	writer.Data(w, h.answer(e, n))
	return nil
}

// Page shows the pin and the note on a session, in a form if the server stores notes.
func (h Handlers) Page(w http.ResponseWriter, r *http.Request, e catalog.Entry) error {
	n, err := h.Notes.Read(r.Context(), e.Ref)
	if err != nil {
		return err
	}
	web.Write(w, http.StatusOK, web.Note{
		Frame: visible.SessionFrame(r, e, "note"), Path: e.Ref.Path(), Note: n, Kept: h.Kept(e),
		Why: h.Retention.Of(e, time.Now()).Why, Writable: h.Writable, MaxText: notes.MaxText,
		Seen: noteVersion(n),
	})
	return nil
}

// noteVersion identifies a version of a note by the time of its last change, as "at" is in JSON; "" if there is no
// note.
func noteVersion(n notes.Note) string {
	if n.At.IsZero() {
		return ""
	}
	return n.At.UTC().Format(time.RFC3339Nano)
}

// errChanged says that a note has changed since the client read it.
var errChanged = errors.New("somebody changed the pin or the note since it was read")

// Write changes the pin and the note on a session by a form or JSON with pinned, text and seen, the version of the note
// that the client has read: the change is refused if the note has another version now. JSON without pinned or without
// text leaves that as it is; without seen, the note may have any version.
func (h Handlers) Write(w http.ResponseWriter, r *http.Request, e catalog.Entry) error {
	if !h.Writable {
		return &problem.Problem{
			Status: http.StatusForbidden, Title: "Notes are off", Detail: "This server does not store pins and notes.",
			Advice: "Start it without --notes=false, or use `historyserver note`.",
		}
	}
	given, form, err := readNote(r)
	if err != nil {
		return problem.BadRequest(err)
	}
	n, err := h.Notes.Change(r.Context(), e.Ref, func(n *notes.Note) error {
		if given.Seen != nil && *given.Seen != noteVersion(*n) {
			return errChanged
		}
		id, _ := access.IdentityOf(r.Context())
		given.Apply(n, id.User)
		return nil
	})
	switch {
	case errors.Is(err, errChanged):
		return &problem.Problem{
			Status: http.StatusConflict, Title: "The note has changed", Detail: problem.Sentence(err),
			Advice:   "Go back, copy what you wrote, and open the note again.",
			Programs: `Read the note again, and send the change with its "at" as "seen".`,
		}
	case errors.Is(err, notes.ErrTooLong):
		return problem.BadRequest(err)
	case errors.Is(err, notes.ErrBusy):
		return &problem.Problem{
			Status: http.StatusConflict, Title: "The session is being changed", Detail: problem.Sentence(err),
			Advice: "Open the session to see whether it is still there.",
		}
	case errors.Is(err, notes.ErrNotStored):
		h.Log.WithError(err).WithField("session", e.Ref.String()).
			Warn("cannot store a note: the server needs the right to create and overwrite below notes/, or " +
				"--notes=false")
		return &problem.Problem{
			Status: http.StatusBadGateway, Title: "The note is not stored",
			Detail: "The store did not accept the note; the server's log has the error.",
			Advice: "The server needs the right to create and overwrite below notes/.",
		}
	case err != nil:
		return err
	}
	if form {
		browser.Redirect(w, http.StatusSeeOther, "./note")
		return nil
	}
	writer.Data(w, h.answer(e, n))
	return nil
}

// noteRequest is a request to change a note. Seen is nil if it names no version.
type noteRequest struct {
	notes.Edit
	Seen *string `json:"seen"`
}

// readNote reads a request to change a note; form says whether it was sent by a form, not as JSON.
func readNote(r *http.Request) (g noteRequest, form bool, err error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return g, false, fmt.Errorf("read the note: %w", err)
	}
	if len(body) > maxBody {
		return g, false, notes.ErrTooLong
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		if err := json.Unmarshal(body, &g); err != nil {
			return g, false, fmt.Errorf("the note is no JSON such as {\"pinned\": true, \"text\": \"…\"}: %w", err)
		}
		return g, false, nil
	case "application/x-www-form-urlencoded":
		v, err := url.ParseQuery(string(body))
		if err != nil {
			return g, false, fmt.Errorf("read the note: %w", err)
		}
		pinned, text := v.Get("pinned") != "", strings.ReplaceAll(v.Get("text"), "\r\n", "\n")
		g.Pinned, g.Text = &pinned, &text
		if seen := v.Get("seen"); v.Has("seen") {
			g.Seen = &seen
		}
		return g, true, nil
	}
	return g, false, fmt.Errorf("a note of type %.100q: want application/json or a form", r.Header.Get("Content-Type"))
}

// Kept says in a few words how long a session is kept, such as "expires in 12 days" or "pinned"; "" if it does not
// expire, or if it is not known when.
func (h Handlers) Kept(e catalog.Entry) string {
	if h.Notes.Of(e.Ref).Pinned {
		return "pinned"
	}
	switch days, expires := h.Retention.Of(e, time.Now()).Days(time.Now()); {
	case !expires:
		return ""
	case days == 0:
		return "expires today"
	case days == 1:
		return "expires in 1 day"
	default:
		return fmt.Sprintf("expires in %d days", days)
	}
}

// soon is for how many days before a session expires lists and the bar say so.
const soon = 7

// Label is the text of a session's link to its note: what Kept says if the session is pinned or expires soon, else
// "note" if it has one, else "".
func (h Handlers) Label(e catalog.Entry) string {
	note, now := h.Notes.Of(e.Ref), time.Now()
	days, expires := h.Retention.Of(e, now).Days(now)
	switch {
	case note.Pinned || expires && days <= soon:
		return h.Kept(e)
	case note.Text != "":
		return "note"
	}
	return ""
}

// BarTexts returns the label of the bar's link to a session's note, and its title, which browsers show at the pointer.
// Both are "" for a running cluster, of which nothing is stored.
func (h Handlers) BarTexts(e catalog.Entry) (label, title string) {
	if e.Ref.Name == catalog.Live {
		return "", ""
	}
	if label = h.Label(e); label == "" && h.Writable {
		label = "pin"
	}
	return label, cmp.Or(h.Notes.Of(e.Ref).Text, "Pin the session, so that it is not removed, or write a note on it")
}
