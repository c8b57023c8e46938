package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
)

// enter chooses a session: it sets the cookies, begins to load and waits for that a while. The answer is KubeRay's JSON; with
// ?open=dashboard it is a page that shows the load and then opens the dashboard. A page rather than a redirect, because the proxying
// dashboard of Ray follows redirects itself and the cookies would be lost.
//
// Forms: /enter_cluster/{namespace}/{name}/{session} and KubeRay's newer /enter_cluster/{namespace}/{kind}/{name}[/{session}].
func (s *Server) enter(req *restful.Request, resp *restful.Response) {
	r := req.Request
	want := wantOf(req.PathParameters())
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.opts.LoadWait, errWaited)
	defer cancel()
	version := r.URL.Query().Get("dashboard")
	if version != "" && !s.builds.has(version) {
		s.fail(resp, r, s.missingBuild(version))
		return
	}
	resp.Header().Set("Cache-Control", "no-store")
	cluster, live, err := s.sessions.running(ctx, want)
	if err != nil {
		s.fail(resp, r, err)
		return
	}
	if live {
		if !s.elsewhere(resp, r, liveEntry(cluster)) {
			s.enterLive(resp, r, cluster, version)
		}
		return
	}
	e, err := s.sessions.find(ctx, want)
	if err != nil {
		s.fail(resp, r, err)
		return
	}
	if s.elsewhere(resp, r, e) {
		return
	}
	s.setCookies(resp, r, e, version)
	if r.URL.Query().Get("open") == "dashboard" {
		s.opts.Sessions.Begin(e.Ref)
		s.loadingPage(resp, r, e, base(r))
		return
	}
	answer := map[string]any{"result": "success", "name": e.Ref.Cluster, "namespace": e.Ref.Namespace, "session": e.Ref.Name}
	switch _, release, err := s.opts.Sessions.Get(ctx, e.Ref); {
	case err == nil:
		release()
	case errors.Is(err, errWaited):
		answer["loading"] = progressOf(s.opts.Sessions.Status(e.Ref))
	default:
		s.fail(resp, r, err)
		return
	}
	writeJSON(resp, http.StatusOK, answer)
}

// elsewhere answers a request that another site had the browser make: it must not change what the browser has chosen, so it is sent on to
// the session's path.
func (s *Server) elsewhere(resp *restful.Response, r *http.Request, e catalog.Entry) bool {
	if r.Header.Get("Sec-Fetch-Site") != "cross-site" {
		return false
	}
	resp.Header().Set("Location", base(r)+sessionPath(e))
	resp.WriteHeader(http.StatusSeeOther)
	return true
}

// wantOf tells the forms of the path apart: a kind is one of three words, and the session's name starts with session_.
func wantOf(params map[string]string) catalog.Want {
	w := catalog.Want{Namespace: params[paramNamespace], Kind: params[paramKind], Name: params[paramCluster], Session: params[paramSession]}
	if w.Kind == "" && catalog.Kind(w.Name) != "" && !isSession(w.Session) {
		w.Kind, w.Name, w.Session = w.Name, w.Session, ""
	}
	if w.Session == "" {
		w.Session = catalog.Latest
	}
	return w
}

func isSession(name string) bool {
	return name == catalog.Latest || name == catalog.Live || strings.HasPrefix(name, "session_")
}

// setCookies makes the session the browser's choice. They last as long as the browser runs.
func (s *Server) setCookies(w http.ResponseWriter, r *http.Request, e catalog.Entry, dashboard string) {
	set := func(name, value string) {
		c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"}
		if value == "" {
			c.MaxAge = -1
		}
		http.SetCookie(w, c)
	}
	set(cookieCluster, e.Ref.Cluster)
	set(cookieNamespace, e.Ref.Namespace)
	set(cookieSession, e.Ref.Name)
	set(cookieDashboard, dashboard)
}
