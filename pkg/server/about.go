package server

import (
	"net/http"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// About says to programs that this is a history server, and how their users sign in. Everybody may read it.
type About struct {
	Version string        `json:"version"`
	SignIn  access.SignIn `json:"sign_in"`
}

// about answers what a program needs to know before its user has signed in.
func (s *Server) about(w http.ResponseWriter, _ *http.Request) error {
	writer.Data(w, About{Version: s.opts.Version, SignIn: s.opts.Access.SignIn()})
	return nil
}

// Memory that answering with a session's summary takes, in bytes: for one object while the objects are listed, and
// besides them.
const (
	listedBytes  = 400
	summaryBytes = 1 << 20
)

// stored answers with a summary of the objects that are stored for the chosen session. It lists them, so it reserves
// memory by their number.
func (s *Server) stored(w http.ResponseWriter, r *http.Request, e catalog.Entry) error {
	if e.Ref.Name == catalog.Live {
		return catalog.ErrNoSession // it runs, and nothing of it is stored
	}
	release, err := s.opts.Memory.Reserve(r.Context(), budget.Work, summaryBytes+int64(e.Objects)*listedBytes)
	if err != nil {
		return err
	}
	defer release()
	summary, err := s.opts.Stored(r.Context(), e.Ref)
	if err != nil {
		return err
	}
	writer.Data(w, summary)
	return nil
}

// healthy says that the process answers.
func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) error {
	writeText(w, http.StatusOK, "ok\n")
	return nil
}

// Drain makes /readyz answer that no further requests should be sent here. Requests that still arrive are answered.
func (s *Server) Drain() { s.draining.Store(true) }

// ready answers 200 once the store could be listed since the start, and 503 before that and while the server shuts
// down. Anybody may request it without credentials, so the store's error is only in the log.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) error {
	status, text := http.StatusServiceUnavailable, ""
	switch l := s.opts.Catalog.Cached(); {
	case s.draining.Load():
		text = "the server is shutting down\n"
	case l.At.IsZero() && l.Err == nil:
		text = "the first listing of the stored sessions has not finished\n"
	case l.At.IsZero():
		text = "the stored sessions could not be listed yet; see the log\n"
	case l.Err != nil:
		status, text = http.StatusOK, "ok, but the last listing failed; see the log\n"
	default:
		status, text = http.StatusOK, "ok\n"
	}
	writeText(w, status, text)
	return nil
}

// writeText sends a plain text. An error means that the client went away.
func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// asset serves the style sheet, scripts and images of the server's own pages.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "public, max-age=3600")
	http.ServeFileFS(w, r, web.Assets(), r.PathValue(paramPath))
	return nil
}
