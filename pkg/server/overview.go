package server

import (
	"context"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
)

// overviewRoute is the page with what one wants to know of the chosen session first. It is answered like a route of the
// dashboard: found, loaded and limited in the same way.
func (s *Server) overviewRoute() dashboard.Route {
	return dashboard.Route{Method: http.MethodGet, Path: "/overview",
		Serve: func(w http.ResponseWriter, r *dashboard.Request) {
			if s.opts.Findings == nil || s.opts.Dashboard == nil {
				s.fail(w, r.Request, problem.NoRoute(r.Request, http.StatusNotFound))
				return
			}
			page, err := s.overview(r.Context(), r)
			if err != nil {
				s.fail(w, r.Request, err)
				return
			}
			w.Header().Set("Cache-Control", "no-store")
			web.Write(w, http.StatusOK, page)
		}}
}

func (s *Server) overview(ctx context.Context, r *dashboard.Request) (page web.Overview, err error) {
	if page.Report, err = s.opts.Findings(ctx, &r.Moment); err != nil {
		return page, err
	}
	s.opts.Dashboard.Prepare(&r.Moment)
	if page.Build, err = r.Build(ctx); err != nil {
		return page, err
	}
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return page, err
	}
	jobs, err := r.Jobs(ctx)
	if err != nil {
		return page, err
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
	page.Frame = visible.FrameOf(r.Request, page.Entry, "overview")
	page.Runs = s.lists.RunsOf(ctx, page.Entry)
	return page, nil
}
