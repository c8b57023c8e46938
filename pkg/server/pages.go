package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/shared"
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
	s.addLoadedPage(ws, "/findings", findingsPageParams, s.findingsPage)
	s.addLoadedPage(ws, "/timeline", []string{"from", "to", "colour", "node_id"}, s.timelinePage)
	s.addLoadedPage(ws, "/overview", nil, s.overviewPage)
}

// addLoadedPage adds a page about the chosen session, whose query may have parameters of these names. The session is
// found, loaded and limited like that of a route of the dashboard, but the page gets no ETag, because notes, prices and
// other runs, which it also shows, are in none. If build returns neither a page nor an error, it has written the answer
// itself.
func (s *Server) addLoadedPage(ws *restful.WebService, path string, names []string,
	build func(http.ResponseWriter, *dashboard.Request) (web.Page, error)) {
	route := dashboard.Route{Path: path, Serve: func(w http.ResponseWriter, r *dashboard.Request) {
		w.Header()["Etag"] = nil // writer.Tagged sets none over it
		page, err := build(w, r)
		if err != nil {
			s.answerError(w, r.Request, err)
		} else if page != nil {
			web.Write(w, http.StatusOK, page)
		}
	}}
	s.addSessionPage(ws, path, names, s.answerRoute(route))
}

// findingsPage is the page that says why the chosen session, or a job of it, ended as it did. With ?format= the answer
// is Markdown for tickets instead: of all findings, or of the one that ?finding= names.
func (s *Server) findingsPage(w http.ResponseWriter, r *dashboard.Request) (web.Page, error) {
	query := r.URL.Query()
	if err := checkFindingsParams(query); err != nil {
		return nil, err
	}
	whole, err := s.reportOf(r)
	if err != nil {
		return nil, err
	}
	report, err := whole.OfJob(query.Get("job_id"), query.Get("submission_id"))
	if none, ok := errors.AsType[*findings.NoJobError](err); ok {
		err = &problem.Problem{Status: http.StatusNotFound, Title: "No such job", Detail: none.Detail, Advice: none.Advice}
	}
	if err != nil {
		return nil, err
	}
	page := web.Findings{
		Frame: visible.SessionFrame(r.Request, s.entryOf(r, whole), "findings"), Given: query,
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
func (s *Server) timelinePage(_ http.ResponseWriter, r *dashboard.Request) (web.Page, error) {
	report, err := s.reportOf(r)
	if err != nil {
		return nil, err
	}
	return web.Timeline{Frame: visible.SessionFrame(r.Request, s.entryOf(r, report), "timeline"),
		Findings: report.Findings}, nil
}

// entryOf is the catalog's entry of a request's session, with the outcome that its findings say.
func (s *Server) entryOf(r *dashboard.Request, found *findings.Report) catalog.Entry {
	ref := r.Session.Ref
	e, err := s.sessions.Find(r.Context(), selectorOf(ref))
	if err != nil { // it was removed meanwhile
		e = catalog.Entry{Ref: ref, Start: r.Session.Life.Start}
	}
	e = withEndOf(e, r.Session)
	e.Outcome = found.Outcome
	return e
}

// findingsPageParams are the parameters of the page of findings: besides the job, the severity of the findings that it
// shows, and the form and the finding of a text for tickets.
var findingsPageParams = slices.Concat(findings.Params, []string{"severity", "format", "finding"})

// checkFindingsParams is the error about a value of a query that the page of findings does not know.
func checkFindingsParams(query url.Values) error {
	form := param.Form{Values: query}
	form.OneOf("severity", findings.Severities...)
	form.OneOf("format", "markdown")
	return form.Err
}

// FindingsOf gives the findings of the session that a request is about.
type FindingsOf func(context.Context, *moment.Moment) (*findings.Report, error)

// reportOf returns the findings for a page, which waits for them as for the session.
func (s *Server) reportOf(r *dashboard.Request) (*findings.Report, error) {
	ctx, cancel := findings.Within(r.Context(), s.waitFor(r.Request))
	defer cancel()
	report, err := s.opts.Findings(ctx, &r.Moment)
	if errors.Is(err, shared.ErrWaited) {
		return nil, findingsProblem(r.Session.Ref, r.At, "api/history/findings")
	}
	return report, err
}

// overviewPage is the page with what people want to know first of the chosen session: how it ended, its nodes, jobs,
// logs and costs, and the runs before it.
func (s *Server) overviewPage(_ http.ResponseWriter, r *dashboard.Request) (web.Page, error) {
	var page web.Overview
	var err error
	ctx := r.Context()
	if page.Report, err = s.reportOf(r); err != nil {
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
	page.Frame = visible.SessionFrame(r.Request, page.Entry, "overview")
	page.Kept = s.notes.Kept(page.Entry)
	page.Runs = s.lists.RunsOf(ctx, page.Entry)
	return page, nil
}
