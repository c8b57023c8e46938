package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
)

// findingsRoute is the page that says why the chosen session ended as it did. It is answered like a route of the
// dashboard: found, loaded and limited in the same way.
func (s *Server) findingsRoute() dashboard.Route {
	return dashboard.Route{Method: http.MethodGet, Path: "/findings",
		Serve: func(w http.ResponseWriter, r *dashboard.Request) {
			if s.opts.Findings == nil {
				s.fail(w, r.Request, problem.NoRoute(r.Request, http.StatusNotFound))
				return
			}
			query := r.URL.Query()
			if err := checkFindings(query); err != nil {
				s.fail(w, r.Request, problem.BadRequest(err))
				return
			}
			whole, err := s.opts.Findings(r.Context(), &r.Moment)
			report := whole
			if err == nil {
				report, err = whole.OfJob(query.Get("job_id"), query.Get("submission_id"))
			}
			var none *findings.NoJobError
			if errors.As(err, &none) {
				err = &problem.Problem{Status: http.StatusNotFound, Title: "No such job", Detail: none.Detail,
					Advice: none.Advice}
			}
			if err != nil {
				s.fail(w, r.Request, err)
				return
			}
			ref, e := r.Session.Ref, s.entryOf(r, whole)
			page := web.Findings{
				Frame: visible.FrameOf(r.Request, e, "findings"), Cluster: ref.Cluster, Namespace: ref.Namespace,
				Notes: s.opts.Notes != nil,
				Given: query, Whole: whole, Report: report,
			}
			if query.Get("format") != "" {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				_ = page.WriteMarkdown(w, query.Get("finding"))
				return
			}
			web.Write(w, http.StatusOK, page)
		}}
}

// entryOf is the session of a request as the list has it, with its outcome by its findings.
func (s *Server) entryOf(r *dashboard.Request, found *findings.Report) catalog.Entry {
	ref := r.Session.Ref
	e, err := s.sessions.Find(r.Context(), catalog.Selector{Namespace: ref.Namespace, Name: ref.Cluster,
		Session: ref.Name})
	if err != nil { // it was removed meanwhile
		e = catalog.Entry{Ref: ref, Start: r.Began, End: r.Ended}
	}
	e.Outcome = found.Outcome
	return e
}

// findingsPageParams are the parameters of the page: besides the job, the severity of the findings that it shows, and
// the form and the finding of a text for tickets.
var findingsPageParams = slices.Concat(findings.Params, []string{"severity", "format", "finding"})

func checkFindings(query url.Values) error {
	for name, values := range map[string][]string{"severity": {"", findings.Error, findings.Warning, findings.Info},
		"format": {"", "markdown"}} {
		if !slices.Contains(values, query.Get(name)) {
			return &param.Error{Name: name, Value: query.Get(name), Want: strings.Join(values[1:], " or ")}
		}
	}
	return nil
}

// FindingsOf gives the findings of the session that a request is about.
type FindingsOf func(context.Context, *moment.Moment) (*findings.Report, error)
