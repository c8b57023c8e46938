package server

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
)

// timelineRoute is the page that shows the chosen session's tasks and actors over time. It is answered like a route of
// the dashboard: found, loaded and limited in the same way.
func (s *Server) timelineRoute() dashboard.Route {
	return dashboard.Route{Method: http.MethodGet, Path: "/timeline",
		Serve: func(w http.ResponseWriter, r *dashboard.Request) {
			if s.opts.Findings == nil {
				s.fail(w, r.Request, problem.NoRoute(r.Request, http.StatusNotFound))
				return
			}
			report, err := s.opts.Findings(r.Context(), &r.Moment)
			if err != nil {
				s.fail(w, r.Request, err)
				return
			}
			w.Header().Set("Cache-Control", "no-store")
			web.Write(w, http.StatusOK, web.Timeline{
				Frame:   visible.FrameOf(r.Request, s.entryOf(r, report), "timeline"),
				Cluster: r.Session.Ref.Cluster, Findings: report.Findings,
			})
		}}
}
