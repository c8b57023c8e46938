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

// maxBody bounds a note that is sent, in bytes: each character takes at most 12, in JSON and in a form. A text that is
// too long may be somewhat longer, to be refused with a message.
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
	// Expires is when the session may be removed, RFC 3339; "" if it is kept. Why says why.
	Expires string `json:"expires,omitempty"`
	Why     string `json:"why,omitempty"`
}

// answer says what is noted of a session, and when and why retention removes it.
func (h Handlers) answer(e catalog.Entry, n notes.Note) noteJSON {
	fate := h.Retention.Of(e, time.Now())
	answer := noteJSON{Note: n, Why: fate.Why}
	if !n.Pinned && !fate.Expires.IsZero() {
		answer.Expires = fate.Expires.UTC().Format(time.RFC3339)
	}
	return answer
}

// Get answers with the note.
func (h Handlers) Get(w http.ResponseWriter, r *http.Request, e catalog.Entry) error {
	n, err := h.Notes.Read(r.Context(), e.Ref)
	if err != nil {
		return err
	}
	writer.Data(w, h.answer(e, n))
	return nil
}

// Page shows the note and a form.
func (h Handlers) Page(w http.ResponseWriter, r *http.Request, e catalog.Entry) error {
	n, err := h.Notes.Read(r.Context(), e.Ref)
	if err != nil {
		return err
	}
	web.Write(w, http.StatusOK, web.Note{
		Frame: visible.FrameOf(r, e, "note"), Path: e.Ref.Path(), Note: n, Kept: h.Kept(e),
		Why: h.Retention.Of(e, time.Now()).Why, Writable: h.Writable, MaxText: notes.MaxText,
		Seen: version(n),
	})
	return nil
}

// version identifies a version of a note: its "at" as in JSON, "" if there is no note.
func version(n notes.Note) string {
	if n.At.IsZero() {
		return ""
	}
	return n.At.UTC().Format(time.RFC3339Nano)
}

// errChanged is a request about a note that was changed in the meantime.
var errChanged = errors.New("somebody changed the pin or the note since it was read")

// Write takes a form or JSON of pinned, text, and seen: the version of the note that the request is about. The request
// is refused if the note has changed. JSON that leaves pinned or text out leaves it as it is; without seen it changes
// the note that is there.
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
		if given.Seen != nil && *given.Seen != version(*n) {
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
			Advice: "Go back, copy what you wrote, and open the note again.",
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

// given is what a request says of a note. Seen is nil if it says nothing of the version.
type given struct {
	notes.Edit
	Seen *string `json:"seen"`
}

// readNote reads what a request says, and whether it is a form.
func readNote(r *http.Request) (g given, form bool, err error) {
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

// Kept says in a few words how long a session is kept, such as "expires in 12 days" or "pinned"; "" if forever or not
// known.
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

// soon is in how many days a session expires at most that lists and the bar say it of.
const soon = 7

// Label is Kept of a session that is pinned or expires soon, or else "note" if there is one; "" for nothing.
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

// Bar is what the bar shows of a session's pin, note and expiry, and what it says at the pointer; "" for nothing.
func (h Handlers) Bar(e catalog.Entry) (label, title string) {
	if e.Ref.Name == catalog.Live {
		return "", ""
	}
	if label = h.Label(e); label == "" && h.Writable {
		label = "pin"
	}
	return label, cmp.Or(h.Notes.Of(e.Ref).Text, "Pin the session, so that it is not removed, or write a note on it")
}
