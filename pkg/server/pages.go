package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
)

// addPages adds the pages about the chosen session that need its findings.
func (s *Server) addPages(ws *restful.WebService) {
	s.sessionPage(ws, "/findings", findingsPageParams, s.findingsPage)
	s.sessionPage(ws, "/timeline", []string{"from", "to"}, s.timelinePage)
	s.sessionPage(ws, "/overview", nil, s.overviewPage)
}

// sessionPage adds a page about the chosen session. It is answered like a route of the dashboard: found, loaded and
// limited in the same way. Without a page, build has answered.
func (s *Server) sessionPage(ws *restful.WebService, path string, names []string,
	build func(http.ResponseWriter, *dashboard.Request) (web.Page, error)) {
	route := dashboard.Route{Path: path, Serve: func(w http.ResponseWriter, r *dashboard.Request) {
		page, err := build(w, r)
		if err != nil {
			s.fail(w, r.Request, err)
		} else if page != nil {
			web.Write(w, http.StatusOK, page)
		}
	}}
	s.pageOf(ws, path, names, s.answer(route))
}

// findingsPage says why the chosen session, or a job of it, ended as it did.
func (s *Server) findingsPage(w http.ResponseWriter, r *dashboard.Request) (web.Page, error) {
	query := r.URL.Query()
	if err := checkFindings(query); err != nil {
		return nil, err
	}
	whole, err := s.reportOf(w, r)
	if err != nil {
		return nil, err
	}
	report, err := whole.OfJob(query.Get("job_id"), query.Get("submission_id"))
	var none *findings.NoJobError
	if errors.As(err, &none) {
		err = &problem.Problem{Status: http.StatusNotFound, Title: "No such job", Detail: none.Detail, Advice: none.Advice}
	}
	if err != nil {
		return nil, err
	}
	page := web.Findings{
		Frame: visible.FrameOf(r.Request, s.entryOf(r, whole), "findings"), Given: query,
		Whole: whole, Report: report,
	}
	if query.Get("format") != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_ = page.WriteMarkdown(w, query.Get("finding"))
		return nil, nil
	}
	return page, nil
}

// timelinePage shows the chosen session's tasks and actors over time.
func (s *Server) timelinePage(w http.ResponseWriter, r *dashboard.Request) (web.Page, error) {
	report, err := s.reportOf(w, r)
	if err != nil {
		return nil, err
	}
	return web.Timeline{Frame: visible.FrameOf(r.Request, s.entryOf(r, report), "timeline"),
		Findings: report.Findings}, nil
}

// entryOf is the session of a request as the list has it, with its outcome by its findings.
func (s *Server) entryOf(r *dashboard.Request, found *findings.Report) catalog.Entry {
	ref := r.Session.Ref
	e, err := s.sessions.Find(r.Context(), exactly(ref))
	if err != nil { // it was removed meanwhile
		e = catalog.Entry{Ref: ref, Start: r.Session.Life.Start}
	}
	e = toldBy(e, r.Session)
	e.Outcome = found.Outcome
	return e
}

// findingsPageParams are the parameters of the page: besides the job, the severity of the findings that it shows, and
// the form and the finding of a text for tickets.
var findingsPageParams = slices.Concat(findings.Params, []string{"severity", "format", "finding"})

func checkFindings(query url.Values) error {
	form := param.Form{Values: query}
	form.OneOf("severity", findings.Error, findings.Warning, findings.Info)
	form.OneOf("format", "markdown")
	return form.Err
}

// FindingsOf gives the findings of the session that a request is about.
type FindingsOf func(context.Context, *moment.Moment) (*findings.Report, error)

// reportOf returns the findings for a page. A page of a partial report gets no ETag: it may be complete at the next
// request.
func (s *Server) reportOf(w http.ResponseWriter, r *dashboard.Request) (*findings.Report, error) {
	report, err := s.opts.Findings(r.Context(), &r.Moment)
	if err == nil && report.Partial {
		w.Header()["Etag"] = nil
	}
	return report, err
}

// overviewPage has what one wants to know of the chosen session first.
func (s *Server) overviewPage(w http.ResponseWriter, r *dashboard.Request) (web.Page, error) {
	var page web.Overview
	var err error
	ctx := r.Context()
	if page.Report, err = s.reportOf(w, r); err != nil {
		return nil, err
	}
	if page.Build, err = r.Build(ctx); err != nil {
		return nil, err
	}
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := r.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	page.Prices = s.opts.Fleet.Prices
	page.Nodes, page.OfJobs = nodes.All, jobs
	for _, node := range r.Session.Logs.Nodes() {
		for _, file := range r.Session.Logs.Paths(node) {
			page.Logs++
			page.LogBytes += r.Session.Logs.StoredBytes(node, file)
		}
	}
	page.Entry = s.entryOf(r, page.Report)
	page.Began, page.Ended = r.Life(ctx)
	page.Frame = visible.FrameOf(r.Request, page.Entry, "overview")
	page.Kept = s.notes.Kept(page.Entry)
	page.Runs = s.lists.RunsOf(ctx, page.Entry)
	return page, nil
}
