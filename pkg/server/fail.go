package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// statusClientGone is nginx's status for a request whose client went away. It only appears in the log and the metrics.
const statusClientGone = 499

// answerError answers a request with what went wrong: browsers get a page, programs JSON. If the client is gone it only
// records that. While a session is being loaded, browsers get the page that shows the progress. Errors of the server
// are logged, but not that it is busy or waits (503).
func (s *Server) answerError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		w.WriteHeader(statusClientGone)
		return
	}
	p := problem.Of(err, s.opts.Storage)
	if p.Loading != nil && browser.WantsPage(r) {
		page := *p.Loading
		page.Frame = visible.Frame(r)
		w.Header()["Etag"] = nil // the answer to the same request is another one soon
		web.Write(w, http.StatusOK, page)
		return
	}
	if p.Status >= http.StatusInternalServerError && p.Status != http.StatusServiceUnavailable {
		s.opts.Log.WithError(err).WithField("path", r.URL.Path).Warn("cannot answer a request")
	}
	w.Header().Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if browser.WantsPage(r) {
		retries := p.RetryAfter > 0 && r.Method == http.MethodGet // only a person sends a form again
		if retries {
			w.Header().Set("Refresh", strconv.Itoa(p.RetryAfter)) // browsers ask again by themselves
		}
		web.Write(w, p.Status, web.Problem{Frame: s.problemFrame(r, p), Title: p.Title, Detail: p.Detail,
			Advice: p.Advice, Ways: p.Ways, Again: retries})
		return
	}
	// The envelope of Ray's State API (ray/dashboard/optional_utils.py, rest_response).
	writer.JSON(w, p.Status, map[string]any{"result": false, "msg": p.ForPrograms(), "data": p.Data})
}

// problemFrame is the frame around a problem's page. For a mistake in an address below a session's, it is that of the
// session, with links to the session's pages at its end: the moment in the address may be the mistake.
func (s *Server) problemFrame(r *http.Request, p *problem.Problem) web.Frame {
	switch p.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict:
		selector, _, ok := sessionInPath(r.URL.Path)
		if !ok {
			break
		}
		e, err := s.sessions.Find(r.Context(), selector)
		if err != nil {
			break
		}
		f := visible.SessionFrame(r, e, web.NoTab)
		f.Head.Moment = ""
		return f
	}
	return visible.Frame(r)
}
