package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/access"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/notes"
	"github.com/rayhistory/historyserver/pkg/server/browser"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

// maxNoteBody bounds a note that is sent, in bytes.
const maxNoteBody = 64 << 10

// addNotes adds the routes of the pin and the note on the chosen session: a page with a form, and JSON.
func (s *Server) addNotes(ws *restful.WebService) {
	if s.opts.Notes == nil {
		return
	}
	const api = "/api/history/note"
	s.get(ws, "/note", s.notePage)
	s.get(ws, api, s.note)
	s.add(ws, http.MethodPost, "/note", s.writeNote)
	s.add(ws, http.MethodPost, api, s.writeNote)
}

// noteJSON is the data of the answer.
type noteJSON struct {
	notes.Note
	// Expires is when the session may be removed, RFC 3339; "" if it is kept. Why says why.
	Expires string `json:"expires,omitempty"`
	Why     string `json:"why,omitempty"`
}

// noted finds the chosen session and reads the note on it.
func (s *Server) noted(ctx context.Context, r *request) (e catalog.Entry, n notes.Note, err error) {
	c, err := choose(r)
	if err != nil {
		return e, n, err
	}
	if e, err = s.sessions.find(ctx, c.selector); err != nil {
		return e, n, err
	}
	n, err = s.opts.Notes.Read(ctx, e.Ref)
	return e, n, err
}

func (s *Server) noteOf(e catalog.Entry, n notes.Note) noteJSON {
	fate := s.opts.Retention.Of(e, time.Now())
	answer := noteJSON{Note: n, Why: fate.Why}
	if !n.Pinned && !fate.Expires.IsZero() {
		answer.Expires = fate.Expires.UTC().Format(timeFormat)
	}
	return answer
}

func (s *Server) note(w http.ResponseWriter, r *request) error {
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.opts.LoadWait, problem.ErrWaited)
	defer cancel()
	e, n, err := s.noted(ctx, r)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, map[string]any{"result": true, "msg": "", "data": s.noteOf(e, n)})
	return nil
}

func (s *Server) notePage(w http.ResponseWriter, r *request) error {
	if strings.HasSuffix(r.URL.Path, "/") { // the page's links are relative
		browser.Redirect(w, http.StatusFound, "../note")
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.opts.LoadWait, problem.ErrWaited)
	defer cancel()
	e, n, err := s.noted(ctx, r)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	web.Write(w, http.StatusOK, web.Note{
		Base: base(r.Request), Path: web.SessionPath(e.Ref), Ref: e.Ref, Note: n, Kept: s.kept(e),
		Why: s.opts.Retention.Of(e, time.Now()).Why, Writable: s.opts.WriteNotes, Most: notes.MaxText,
	})
	return nil
}

// writeNote takes a form (pinned, text) or JSON of the same fields; JSON that leaves one out leaves it as it is.
func (s *Server) writeNote(w http.ResponseWriter, r *request) error {
	if !s.opts.WriteNotes {
		return &problem.Problem{
			Status: http.StatusForbidden, Title: "Notes are off", Detail: "This server does not store pins and notes.",
			Advice: "Start it without --notes=false, or use `historyserver note`.",
		}
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.opts.LoadWait, problem.ErrWaited)
	defer cancel()
	e, n, err := s.noted(ctx, r)
	if err != nil {
		return err
	}
	form, err := readNote(r, &n)
	if err != nil {
		return problem.BadRequest(err)
	}
	n.At = time.Now().UTC()
	id, _ := access.IdentityOf(r.Context())
	n.By = id.User
	switch err := s.opts.Notes.Write(ctx, e.Ref, n); {
	case errors.Is(err, notes.ErrTooLong):
		return problem.BadRequest(err)
	case errors.Is(err, notes.ErrBusy):
		return &problem.Problem{
			Status: http.StatusConflict, Title: "The session is being changed", Detail: problem.Sentence(err),
			Advice: "Open the session to see whether it is still there.",
		}
	case err != nil:
		s.opts.Log.WithError(err).WithField("session", e.Ref.String()).
			Warn("cannot store a note: the server needs the right to create and overwrite below notes/, or --notes=false")
		return &problem.Problem{
			Status: http.StatusBadGateway, Title: "The note is not stored", Detail: "The store did not take the note; the server's log has its words.",
			Advice: "The server needs the right to create and overwrite below notes/.",
		}
	}
	if form {
		browser.Redirect(w, http.StatusSeeOther, "./note")
		return nil
	}
	writeJSON(w, http.StatusOK, map[string]any{"result": true, "msg": "", "data": s.noteOf(e, n)})
	return nil
}

// readNote changes a note as a request says, and says whether that is a form.
func readNote(r *request, n *notes.Note) (form bool, err error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxNoteBody+1))
	if err != nil {
		return false, fmt.Errorf("read the note: %w", err)
	}
	if len(body) > maxNoteBody {
		return false, notes.ErrTooLong
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		var given struct {
			Pinned *bool   `json:"pinned"`
			Text   *string `json:"text"`
		}
		if err := json.Unmarshal(body, &given); err != nil {
			return false, fmt.Errorf("the note is no JSON such as {\"pinned\": true, \"text\": \"…\"}: %w", err)
		}
		if given.Pinned != nil {
			n.Pinned = *given.Pinned
		}
		if given.Text != nil {
			n.Text = *given.Text
		}
		return false, nil
	case "application/x-www-form-urlencoded":
		v, err := url.ParseQuery(string(body))
		if err != nil {
			return false, fmt.Errorf("read the note: %w", err)
		}
		n.Pinned, n.Text = v.Get("pinned") != "", strings.ReplaceAll(v.Get("text"), "\r\n", "\n")
		return true, nil
	}
	return false, fmt.Errorf("a note of type %.100q: want application/json or a form", r.Header.Get("Content-Type"))
}

// kept says in a few words how long a session is kept, such as "expires in 12 days" or "pinned"; "" if forever or not known.
func (s *Server) kept(e catalog.Entry) string {
	if s.opts.Notes.Of(e.Ref).Pinned {
		return "pinned"
	}
	switch days, expires := s.opts.Retention.Of(e, time.Now()).Days(time.Now()); {
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

// barNote is what the bar shows of a session's pin, note and expiry, and what it says at the pointer; "" for nothing.
func (s *Server) barNote(e catalog.Entry) (label, title string) {
	if s.opts.Notes == nil || e.Ref.Name == catalog.Live {
		return "", ""
	}
	n := s.opts.Notes.Of(e.Ref)
	label = s.kept(e)
	switch {
	case label == "" && n.Text != "":
		label = "note"
	case label == "" && s.opts.WriteNotes:
		label = "pin"
	}
	return label, cmp.Or(n.Text, "Pin the session, so that it is not removed, or write a note on it")
}
