// Package server is the history server's HTTP side: it finds out which session a request is about, loads it, and hands the request to the
// dashboard's answers, to the Ray Dashboard's own files or to its own pages.
//
// A session is chosen in two ways, which lead to the same handlers: by cookies, which /enter_cluster sets, and by a path prefix,
// /namespaces/{namespace}/clusters/{name}/sessions/{session}/, which can be shared and given to Ray's own tools. A script of
// a page below such a prefix asks for the page's session even where it leaves the prefix out.
package server

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/access"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/kube"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/sessioncache"
)

// Options of a Server.
type Options struct {
	Catalog  *catalog.Catalog
	Live     *kube.Clusters // running clusters; nil: none are asked for
	Access   *access.Access // nil: everybody sees everything
	Sessions *sessioncache.Cache[*session.Session]
	Routes   []dashboard.Route
	// DashboardDir holds builds of the Ray Dashboard's frontend, one in each folder v{Ray version}.
	DashboardDir string
	// Storage says in a few words where sessions are stored, for pages that tell of trouble with it.
	Storage string
	// Version is that of the program: answers that clients keep are asked for again after an update.
	Version string
	// LoadWait is how long a request waits for its session; 20 s if 0. Ray's proxying dashboard gives up after 30 s.
	LoadWait   time.Duration
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
}

// Server answers all requests.
type Server struct {
	opts      Options
	sessions  visible
	builds    *builds
	container *restful.Container
	handler   http.Handler
	draining  atomic.Bool
}

// Path parameters that choose a session. Their names are none that the dashboard's routes use.
const (
	paramNamespace = "session_namespace"
	paramCluster   = "session_cluster"
	paramKind      = "session_kind"
	paramSession   = "session_name"
	paramAt        = "session_at"
	paramPath      = "file_path"
)

// Prefixes that choose a session by path.
const (
	sessionPrefix = "/namespaces/{" + paramNamespace + "}/clusters/{" + paramCluster + "}/sessions/{" + paramSession + "}"
	atPrefix      = sessionPrefix + "/at/{" + paramAt + "}"
)

// New makes a server of its parts, which it does not own.
func New(opts Options) (*Server, error) {
	if opts.LoadWait == 0 {
		opts.LoadWait = 20 * time.Second
	}
	if opts.Access == nil {
		var err error
		if opts.Access, err = access.New(access.Config{}, nil, opts.Log); err != nil {
			return nil, fmt.Errorf("make the server: %w", err)
		}
	}
	s := &Server{opts: opts, sessions: visible{opts.Catalog, opts.Live, opts.Access}, builds: &builds{dir: opts.DashboardDir}}
	container := restful.NewContainer()
	s.container = container
	container.DoNotRecover(true) // the middleware does, and does not show the stack to the client
	container.ServiceErrorHandler(s.routingError)
	container.Filter(noteRoute)
	container.Filter(s.authorize)
	for _, prefix := range []string{"", sessionPrefix, atPrefix} {
		// What is answered does not depend on Accept: without this, one that is not a wildcard gets 406.
		ws := new(restful.WebService).Path(prefix).Produces("*/*").Consumes("*/*")
		s.addDashboard(ws)
		if prefix == "" {
			s.addOwn(ws)
		}
		container.Add(ws)
	}
	handler, err := s.middleware(opts.Access.Handler(http.HandlerFunc(container.Dispatch)))
	if err != nil {
		return nil, fmt.Errorf("make the server: %w", err)
	}
	s.handler = handler
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Route is a method and the template of the paths it is answered for, such as /nodes/{node_id}.
type Route struct{ Method, Path string }

// Routes lists all that the router has.
func (s *Server) Routes() []Route {
	var routes []Route
	for _, ws := range s.container.RegisteredWebServices() {
		for _, r := range ws.Routes() {
			routes = append(routes, Route{r.Method, r.Path})
		}
	}
	return routes
}

// get adds a route for GET and HEAD.
func get(ws *restful.WebService, path string, f restful.RouteFunction) {
	ws.Route(ws.GET(path).To(f))
	ws.Route(ws.HEAD(path).To(f))
}

// addDashboard adds what a Ray dashboard answers: all of it is about one session.
func (s *Server) addDashboard(ws *restful.WebService) {
	heads := make(map[string]bool)
	for _, route := range s.opts.Routes {
		heads[route.Path] = heads[route.Path] || route.Method == http.MethodHead
	}
	for _, route := range s.opts.Routes {
		ws.Route(ws.Method(route.Method).Path(route.Path).To(s.answer(route)))
		// aiohttp, which Ray's dashboard is built with, answers HEAD wherever it answers GET.
		if route.Method == http.MethodGet && !heads[route.Path] {
			ws.Route(ws.HEAD(route.Path).To(s.answer(route)))
		}
	}
	get(ws, "/", s.index)
	get(ws, "/session_status", s.sessionStatus)
	get(ws, "/session_activity", s.activity)
	get(ws, "/{"+paramPath+":*}", s.file)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		ws.Route(ws.Method(method).Path("/{" + paramPath + ":*}").To(s.other))
	}
}

// addOwn adds what only the history server has.
func (s *Server) addOwn(ws *restful.WebService) {
	get(ws, "/homepage", s.homepage)
	get(ws, "/homepage/assets/{"+paramPath+"}", s.asset)
	get(ws, "/clusters", s.clusters)
	const enter = "/enter_cluster/{" + paramNamespace + "}"
	get(ws, enter+"/{"+paramCluster+"}", s.enter)
	get(ws, enter+"/{"+paramCluster+"}/{"+paramSession+"}", s.enter)
	get(ws, enter+"/{"+paramKind+"}/{"+paramCluster+"}/{"+paramSession+"}", s.enter)
	get(ws, "/healthz", s.healthy)
	get(ws, "/livez", s.healthy)
	get(ws, "/readyz", s.ready)
	metrics := promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{DisableCompression: true})
	get(ws, "/metrics", func(req *restful.Request, resp *restful.Response) {
		metrics.ServeHTTP(resp.ResponseWriter, req.Request)
	})
}

// healthy says that the process answers.
func (s *Server) healthy(_ *restful.Request, resp *restful.Response) {
	writeText(resp, http.StatusOK, "ok\n")
}

// Drain has /readyz say that no further requests should be sent here; those that come are answered.
func (s *Server) Drain() { s.draining.Store(true) }

// ready says whether the store could be listed since the start.
func (s *Server) ready(req *restful.Request, resp *restful.Response) {
	switch l := s.opts.Catalog.Known(); {
	case s.draining.Load():
		writeText(resp, http.StatusServiceUnavailable, "the server is shutting down\n")
	case l.At.IsZero() && l.Err == nil:
		writeText(resp, http.StatusServiceUnavailable, "the stored sessions are being listed for the first time\n")
	case l.At.IsZero():
		writeText(resp, http.StatusServiceUnavailable, fmt.Sprintf("the stored sessions could not be listed yet: %v\n", l.Err))
	case l.Err != nil:
		writeText(resp, http.StatusOK, fmt.Sprintf("ok, but the last listing failed: %v\n", l.Err))
	default:
		writeText(resp, http.StatusOK, "ok\n")
	}
}
