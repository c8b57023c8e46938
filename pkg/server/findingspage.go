package server

import (
	"errors"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/server/browser"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

// findingsRoute is the page that says why the chosen session ended as it did. It is answered like a route of the dashboard: found, loaded and
// limited in the same way.
func (s *Server) findingsRoute() dashboard.Route {
	return dashboard.Route{Method: http.MethodGet, Path: "/findings", Serve: func(w http.ResponseWriter, r *dashboard.Request) {
		if s.opts.Findings == nil {
			s.fail(w, r.Request, problem.NoRoute(r.Request, http.StatusNotFound))
			return
		}
		report, err := s.opts.Findings(r)
		query := r.URL.Query()
		if err == nil {
			report, err = report.OfJob(query.Get("job_id"), query.Get("submission_id"))
		}
		var none *findings.NoJobError
		if errors.As(err, &none) {
			err = &problem.Problem{Status: http.StatusNotFound, Title: "No such job", Detail: none.Detail, Advice: none.Advice}
		}
		if err != nil {
			s.fail(w, r.Request, err)
			return
		}
		ref := r.Session.Ref
		page := web.Findings{Base: browser.Root(r.Request), Cluster: ref.Cluster, Namespace: ref.Namespace, Notes: s.opts.Notes != nil, Report: report}
		e, err := s.sessions.Find(r.Context(), catalog.Selector{Namespace: ref.Namespace, Name: ref.Cluster, Session: ref.Name})
		page.Comparable = err == nil && e.HasEarlier && s.opts.Dashboard != nil
		web.Write(w, http.StatusOK, page)
	}}
}

// FindingsOf gives the findings of the session that a request is about.
type FindingsOf func(*dashboard.Request) (*findings.Report, error)
