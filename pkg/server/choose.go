package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Cookies that choose a session; KubeRay's names.
const (
	cookieCluster   = "cluster_name"
	cookieNamespace = "cluster_namespace"
	cookieSession   = "session_name"
	// cookieDashboard is the version of the frontend that the user chose, if not the nearest.
	cookieDashboard = "dashboard_version"
)

// choice is the session that a request is about.
type choice struct {
	want   catalog.Want
	at     int64 // Unix ns; 0 is the session's end
	byPath bool
}

// errNoChoice is a request that names no session.
var errNoChoice = &problem{
	Status: http.StatusBadRequest,
	Title:  "No session is chosen",
	Detail: "This address answers for one stored session, and none is chosen.",
	Advice: "Open /homepage and enter a cluster, or put /namespaces/{namespace}/clusters/{name}/sessions/{session or latest} before the path.",
}

// choose reads the session out of the request's path or, without a prefix, the path of the page that asks, or the request's cookies.
func choose(req *restful.Request) (choice, error) {
	params := req.PathParameters()
	moment := params[paramAt]
	var c choice
	if name, ok := params[paramSession]; ok {
		c.byPath = true
		c.want = catalog.Want{Namespace: params[paramNamespace], Name: params[paramCluster], Session: name}
	} else if want, at, ok := pageOf(req.Request); ok {
		c.want, moment = want, at
	} else {
		c.want = catalog.Want{
			Namespace: cookie(req.Request, cookieNamespace), Name: cookie(req.Request, cookieCluster), Session: cookie(req.Request, cookieSession),
		}
		if c.want.Namespace == "" || c.want.Name == "" || c.want.Session == "" {
			return choice{}, errNoChoice
		}
	}
	at, err := dashboard.ParseAt(cmp.Or(req.Request.URL.Query().Get("at"), moment))
	if err != nil {
		return choice{}, badRequest(err)
	}
	c.at = at
	return c, nil
}

// sessionPage is the path of a session's page: its namespace, cluster, name and, if it is of a moment, which.
var sessionPage = regexp.MustCompile(`/namespaces/([^/]+)/clusters/([^/]+)/sessions/([^/]+)(?:/at/([^/]+))?(?:/|$)`)

// pageOf is the session, and moment, of the page whose script sent a request, if it is a session's page. A script may leave the page's
// prefix out: Ray 2.56's asks for /api/profiling_enabled wherever the dashboard is.
func pageOf(r *http.Request) (want catalog.Want, at string, ok bool) {
	if wantsPage(r) || r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return want, "", false
	}
	page, err := url.Parse(r.Referer())
	if err != nil {
		return want, "", false
	}
	parts := sessionPage.FindStringSubmatch(page.Path)
	if parts == nil {
		return want, "", false
	}
	return catalog.Want{Namespace: parts[1], Name: parts[2], Session: parts[3]}, parts[4], true
}

func cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// load finds and loads a chosen session, waiting at most as long as ctx allows.
func (s *Server) load(ctx context.Context, c choice) (e catalog.Entry, loaded *session.Session, release func(), err error) {
	if e, err = s.sessions.find(ctx, c.want); err != nil {
		return e, nil, nil, err
	}
	loaded, release, err = s.opts.Sessions.Get(ctx, e.Ref)
	if errors.Is(err, errWaited) {
		err = loading(s.opts.Sessions.Status(e.Ref))
	}
	return e, loaded, release, err
}

// errWaited is the cause of a context that ended because a request waited long enough.
var errWaited = errors.New("waited long enough")

// answer serves a route of the dashboard from the chosen session.
func (s *Server) answer(route dashboard.Route) restful.RouteFunction {
	return func(req *restful.Request, resp *restful.Response) {
		c, err := choose(req)
		if err != nil {
			s.fail(resp, req.Request, err)
			return
		}
		if s.passOn(req, resp, c) {
			return
		}
		ctx, cancel := context.WithTimeoutCause(req.Request.Context(), s.opts.LoadWait, errWaited)
		entry, loaded, release, err := s.load(ctx, c)
		cancel()
		if err != nil {
			s.fail(resp, req.Request, err)
			return
		}
		defer release()
		w := resp.ResponseWriter
		if etag := s.etag(req.Request, loaded, route.Path); matches(req.Request, etag) {
			w.Header().Set("ETag", etag)
			w.WriteHeader(http.StatusNotModified)
			return
		} else if etag != "" {
			w = &tagged{ResponseWriter: w, etag: etag}
		}
		r := &dashboard.Request{Request: req.Request, Session: loaded, At: c.at, Params: req.PathParameters()}
		if entry.Running && c.at == 0 {
			r.Running = s.stillRuns(entry.Ref)
		}
		route.Serve(w, r)
	}
}

// stillRuns asks, whenever it is called, whether more of a session is being stored.
func (s *Server) stillRuns(ref layout.Session) func(context.Context) bool {
	want := catalog.Want{Namespace: ref.Namespace, Name: ref.Cluster, Session: ref.Name}
	return func(ctx context.Context) bool {
		e, err := s.sessions.find(ctx, want)
		return err == nil && e.Running
	}
}
