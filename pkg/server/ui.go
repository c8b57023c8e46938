package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

// indexWait is how long the dashboard's page is held back for a load before a page with its progress is shown instead.
const indexWait = 1500 * time.Millisecond

// index is the Ray Dashboard's page for the chosen session, or the list of sessions if none is chosen.
func (s *Server) index(req *restful.Request, resp *restful.Response) {
	r := req.Request
	c, err := choose(req)
	if errors.Is(err, errNoChoice) {
		s.homepage(req, resp)
		return
	}
	if err != nil {
		s.fail(resp, r, err)
		return
	}
	if c.byPath && !strings.HasSuffix(r.URL.Path, "/") {
		// The page's requests are relative to it. The target is relative too: a proxy may have cut a prefix off.
		target := path.Base(r.URL.EscapedPath()) + "/"
		if r.URL.RawQuery != "" {
			target += "?" + r.URL.RawQuery
		}
		resp.Header().Set("Location", target)
		resp.WriteHeader(http.StatusFound)
		return
	}
	cluster, live, err := s.sessions.running(r.Context(), c.want)
	if err != nil {
		s.fail(resp, r, err)
		return
	}
	if live && c.at == 0 {
		// The pages are this server's where it has any; only data is the running cluster's.
		if len(s.builds.all()) == 0 {
			s.forward(req, resp, c, cluster)
			return
		}
		s.dashboardPage(resp, r, liveEntry(cluster))
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), min(indexWait, s.opts.LoadWait), errWaited)
	defer cancel()
	e, _, release, err := s.load(ctx, c)
	if err == nil {
		release()
	} else if p := s.problemOf(err); p.Status != http.StatusServiceUnavailable || !wantsPage(r) || e.Ref.Name == "" {
		s.fail(resp, r, err)
		return
	} else {
		resp.Header().Set("Cache-Control", "no-store")
		s.loadingPage(resp, r, e, "")
		return
	}
	s.dashboardPage(resp, r, e)
}

// dashboardPage serves a build's index.html: the one the user chose, else the nearest to the session's Ray version.
func (s *Server) dashboardPage(w http.ResponseWriter, r *http.Request, e catalog.Entry) {
	version := r.URL.Query().Get("dashboard")
	if version == "" {
		// A cookie may name a build that is gone since.
		if version = cookie(r, cookieDashboard); !s.builds.has(version) {
			version = s.builds.nearest(e.RayVersion)
		}
	}
	f, _, err := s.builds.open(version, "index.html")
	if version == "" || err != nil {
		s.fail(w, r, s.missingBuild(firstOf(version, e.RayVersion)))
		return
	}
	defer func() { _ = f.Close() }()
	w.Header().Set("Cache-Control", "no-store")
	s.withBar(w, r, f, e)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// missingBuild says that there is no frontend to show. It is 404, so that the proxying dashboard of Ray shows its own.
func (s *Server) missingBuild(version string) *problem {
	if version == "" {
		version = "2.60.0"
	}
	p := &problem{Status: http.StatusNotFound, Title: "The Ray Dashboard's pages are missing"}
	if s.opts.DashboardDir == "" {
		p.Detail = "No folder with builds of the Ray Dashboard's frontend is configured."
	} else {
		p.Detail = fmt.Sprintf("The folder %s holds no build of the Ray Dashboard's frontend for Ray %s.", s.opts.DashboardDir, version)
	}
	p.Advice = fmt.Sprintf("Run `make dashboard RAY_VERSION=%s` and point --dashboard-dir to the folder that holds v%s. The APIs work without it.", version, version)
	return p
}

// file serves a file of the frontend: anything but its first page.
func (s *Server) file(req *restful.Request, resp *restful.Response) {
	r := req.Request
	name := req.PathParameter(paramPath)
	f, info, err := s.builds.open("", name)
	if err != nil || name == "index.html" {
		if err == nil {
			_ = f.Close()
		}
		if c, err := choose(req); err == nil && s.passOn(req, resp, c) {
			return
		}
		s.routingError(restful.ServiceError{Code: http.StatusNotFound}, req, resp)
		return
	}
	defer func() { _ = f.Close() }()
	if strings.HasPrefix(name, "static/") {
		resp.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		resp.Header().Set("Cache-Control", "public, max-age=3600")
	}
	http.ServeContent(resp.ResponseWriter, r, info.Name(), info.ModTime(), f)
}

// sessionStatus tells how far the load of the chosen session is, and begins it if need be.
func (s *Server) sessionStatus(req *restful.Request, resp *restful.Response) {
	c, err := choose(req)
	if err != nil {
		s.fail(resp, req.Request, err)
		return
	}
	ctx, cancel := context.WithTimeoutCause(req.Request.Context(), s.opts.LoadWait, errWaited)
	defer cancel()
	e, err := s.sessions.find(ctx, c.want)
	if err != nil {
		s.fail(resp, req.Request, err)
		return
	}
	s.opts.Sessions.Begin(e.Ref)
	resp.Header().Set("Cache-Control", "no-store")
	writeJSON(resp, http.StatusOK, progressOf(s.opts.Sessions.Status(e.Ref)))
}

// loadingPage shows the progress of a load and then goes to the dashboard at target, relative; "" is the page itself. Where scripts are
// off it reloads itself.
func (s *Server) loadingPage(w http.ResponseWriter, r *http.Request, e catalog.Entry, target string) {
	st := progressOf(s.opts.Sessions.Status(e.Ref))
	s.page(w, http.StatusOK, web.Loading{
		Base: base(r), Session: e.Ref.Name, Cluster: e.Ref.Cluster, Namespace: e.Ref.Namespace, Target: target,
		State: string(st.State), BytesDone: st.BytesDone, BytesTotal: st.BytesTotal,
	})
}
