package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/assistant"
	"github.com/rayhistory/historyserver/pkg/server/list"
	"github.com/rayhistory/historyserver/pkg/server/logs"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/web/browser"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// Path parameters that choose a session. The dashboard's routes use none of these names.
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
	namespacePrefix = "/namespaces/{" + paramNamespace + "}"
	clusterPrefix   = namespacePrefix + "/clusters/{" + paramCluster + "}"
	sessionPrefix   = clusterPrefix + "/sessions/{" + paramSession + "}"
	atPrefix        = sessionPrefix + "/at/{" + paramAt + "}"
)

// Route is a method and the template of the paths it is answered for, such as /nodes/{node_id}.
type Route struct{ Method, Path string }

// Routes lists all routes. Those of GET answer HEAD, too.
func (s *Server) Routes() []Route {
	var routes []Route
	for _, ws := range s.router.RegisteredWebServices() {
		for _, r := range ws.Routes() {
			routes = append(routes, Route{r.Method, r.Path})
			if r.Method == http.MethodGet {
				routes = append(routes, Route{http.MethodHead, r.Path})
			}
		}
	}
	return routes
}

// headAsGet is a router that answers HEAD by the route for GET, as aiohttp does, which Ray's dashboard is built with;
// net/http leaves the body out. If HEAD had routes of its own, the list in which every request is looked up would be
// twice as long.
type headAsGet struct{ restful.CurlyRouter }

// SelectRoute implements restful.RouteSelector: HEAD is routed like GET.
func (s headAsGet) SelectRoute(services []*restful.WebService, r *http.Request) (*restful.WebService, *restful.Route,
	error) {
	if r.Method == http.MethodHead {
		r = r.WithContext(r.Context()) // a copy
		r.Method = http.MethodGet
	}
	return s.CurlyRouter.SelectRoute(services, r)
}

// handler answers a request, which has its route's path as Pattern, and path values. It returns an error only if it has
// written nothing; answerError answers with the error then.
type handler func(http.ResponseWriter, *http.Request) error

// newRouter makes the router with all routes: each below the root and below a session's address.
func (s *Server) newRouter() *restful.Container {
	router := restful.NewContainer()
	router.Router(headAsGet{})
	router.DoNotRecover(true) // the middleware does, and does not show the stack to the client
	router.ServiceErrorHandler(func(e restful.ServiceError, req *restful.Request, resp *restful.Response) {
		maps.Copy(resp.Header(), e.Header)
		if allow := resp.Header().Get("Allow"); strings.Contains(allow, http.MethodGet) {
			resp.Header().Set("Allow", allow+", "+http.MethodHead)
		}
		s.answerError(resp.ResponseWriter, req.Request, problem.NoRoute(req.Request, e.Code))
	})
	router.Filter(recordRoute)
	router.Filter(s.authorize)
	for _, prefix := range []string{"", sessionPrefix, atPrefix} {
		// Answers do not depend on Accept: without this, an Accept that is not a wildcard gets 406.
		ws := new(restful.WebService).Path(prefix).Produces("*/*").Consumes("*/*")
		s.addDashboard(ws)
		if prefix == "" {
			s.addOwn(ws)
		}
		router.Add(ws)
	}
	return router
}

// addRoute adds a route whose errors are answered by answerError.
func (s *Server) addRoute(ws *restful.WebService, method, path string, h handler) {
	ws.Route(ws.Method(method).Path(path).To(func(req *restful.Request, resp *restful.Response) {
		r := req.Request
		r.Pattern = req.SelectedRoutePath()
		for name, value := range req.PathParameters() {
			r.SetPathValue(name, value)
		}
		if err := h(resp.ResponseWriter, r); err != nil {
			s.answerError(resp.ResponseWriter, r, err)
		}
	}))
}

// addGet adds a route for GET, and so for HEAD.
func (s *Server) addGet(ws *restful.WebService, path string, h handler) {
	s.addRoute(ws, http.MethodGet, path, h)
}

// addPublic adds a route for GET that answers everybody without credentials: Kubernetes, Prometheus and programs whose
// users have not signed in request it. Its answer must not be about a namespace.
func (s *Server) addPublic(ws *restful.WebService, path string, h handler) {
	s.public = append(s.public, path)
	s.addGet(ws, path, h)
}

// addPage adds a page at path, which has one segment. The page's links are relative to an address without a slash at
// the end, so an address with one is redirected.
func (s *Server) addPage(ws *restful.WebService, path string, h handler) {
	s.addGet(ws, path, func(w http.ResponseWriter, r *http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/") {
			browser.Redirect(w, http.StatusFound, withQuery(".."+path, r))
			return nil
		}
		return h(w, r)
	})
}

// addSessionPage adds a page about the chosen session, whose query may have ?at= and the parameters names; those of
// several also more than once. The page's links, forms and scripts are relative to its address, so a request with ?at=
// is redirected to the address that has the moment in its path.
func (s *Server) addSessionPage(ws *restful.WebService, path string, names []string, h handler, several ...string) {
	s.addPage(ws, path, onlyParams(sessionParams(names...), func(w http.ResponseWriter, r *http.Request) error {
		if r.URL.Query().Get("at") == "" {
			return h(w, r)
		}
		c, err := readChoice(r)
		if err != nil {
			return err
		}
		browser.Redirect(w, http.StatusFound, momentAddress(r, c, path))
		return nil
	}, several...))
}

// onlyParams is a handler that calls h, but refuses a query with other parameters than these names, or with one given
// twice that is not among several: a mistyped filter must not look like one that passes everything. Routes that Ray,
// Grafana and Prometheus have, too, are not wrapped, because those ignore other parameters.
func onlyParams(names []string, h handler, several ...string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := param.Check(r.URL.RawQuery, names, several...); err != nil {
			return problem.BadRequest(err)
		}
		return h(w, r)
	}
}

// sessionParams are the names of a query's parameters for a route about one session: these, and that of the moment at
// which the session is shown.
func sessionParams(names ...string) []string { return append(slices.Clip(names), "at") }

// withChoice is a handler that calls h with the session that the request chooses, which is not looked up.
func withChoice(h func(http.ResponseWriter, *http.Request, choice) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := readChoice(r)
		if err != nil {
			return err
		}
		return h(w, r, c)
	}
}

// withSession is a handler that calls h with the catalog's entry of the chosen session, without loading the session.
// The request's context ends after LoadWait.
func (s *Server) withSession(h func(http.ResponseWriter, *http.Request, catalog.Entry) error) handler {
	return withChoice(func(w http.ResponseWriter, r *http.Request, c choice) error {
		ctx, cancel := s.findContext(r.Context())
		defer cancel()
		e, err := s.sessions.Find(ctx, c.selector)
		if err != nil {
			return err
		}
		return h(w, r.WithContext(ctx), e)
	})
}

// addDashboard adds the routes about one session: those of a Ray dashboard and those of our own pages. The last are for
// every other path: files of the frontend, and requests that would change something.
func (s *Server) addDashboard(ws *restful.WebService) {
	for _, route := range s.opts.Routes {
		h := s.answerRoute(route)
		if route.Own {
			h = onlyParams(sessionParams(route.Params...), h)
		}
		s.addRoute(ws, route.Method, route.Path, h)
	}
	s.addGet(ws, "/", s.rootPage)
	s.addGet(ws, "/api/history/stored", onlyParams(sessionParams(), s.withSession(s.stored)))
	s.addGet(ws, "/session_status", onlyParams(sessionParams(), s.withSession(s.sessionStatus)))
	s.addGet(ws, "/session_activity", onlyParams(sessionParams(), s.withLoadedSession(s.activity)))
	s.addPages(ws)
	s.addPromQL(ws, "", withChoice(s.sessionPromQL))
	s.addLogs(ws)
	s.addCompare(ws)
	s.addNotes(ws)
	s.addGet(ws, "/{"+paramPath+":*}", s.frontendFile)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		s.addRoute(ws, method, "/{"+paramPath+":*}", s.answerWrite)
	}
}

// addNotes adds the pin and the note on the chosen session.
func (s *Server) addNotes(ws *restful.WebService) {
	const api = "/api/history/note"
	s.addSessionPage(ws, "/note", nil, s.withSession(s.notes.Page))
	s.addGet(ws, api, onlyParams(sessionParams(), s.withSession(s.notes.Get)))
	s.addRoute(ws, http.MethodPost, "/note", s.withSession(s.notes.Write))
	s.addRoute(ws, http.MethodPost, api, s.withSession(s.notes.Write))
}

// addOwn adds the routes that are not about one chosen session.
func (s *Server) addOwn(ws *restful.WebService) {
	s.addGet(ws, "/homepage", s.homepage())
	s.addGet(ws, "/homepage/assets/{"+paramPath+"}", s.asset)
	s.addGet(ws, "/clusters", onlyParams(list.ClustersParams, s.lists.Clusters))
	for _, path := range []string{"/namespaces", namespacePrefix, namespacePrefix + "/clusters", clusterPrefix,
		clusterPrefix + "/sessions"} {
		s.addGet(ws, path, onlyParams(nil, s.withoutSession))
	}
	s.addAddresses(ws)
	s.addPage(ws, "/fleet", onlyParams(fleet.Params, s.lists.FleetPage))
	s.addGet(ws, "/api/history/fleet", onlyParams(list.FleetDataParams, s.lists.FleetData))
	s.addPage(ws, "/coverage", onlyParams(list.CoverageParams, s.lists.CoveragePage))
	s.addGet(ws, "/api/history/coverage", onlyParams(nil, s.lists.Coverage))
	s.addPromQL(ws, clusterPrefix, s.clusterPromQL)
	s.addGet(ws, clusterPrefix+"/api/history/search", onlyParams(logs.SearchParams, s.searchCluster))
	const enter = "/enter_cluster/{" + paramNamespace + "}"
	for _, rest := range []string{"/{" + paramCluster + "}", "/{" + paramCluster + "}/{" + paramSession + "}",
		"/{" + paramKind + "}/{" + paramCluster + "}/{" + paramSession + "}"} {
		s.addGet(ws, enter+rest, onlyParams([]string{"open", "dashboard"}, s.enter))
	}
	assistants := assistant.Handler(s.opts.Version,
		func(w http.ResponseWriter, r *http.Request) { s.router.Dispatch(w, r) }, s.opts.Log)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		s.addRoute(ws, method, "/mcp", assistants)
	}
	s.addPublic(ws, access.AboutPath, onlyParams(nil, s.about))
	s.addPublic(ws, "/healthz", s.healthy)
	s.addPublic(ws, "/livez", s.healthy)
	s.addPublic(ws, "/readyz", s.ready)
	metrics := promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{DisableCompression: true})
	s.addPublic(ws, "/metrics", func(w http.ResponseWriter, r *http.Request) error {
		metrics.ServeHTTP(w, r)
		return nil
	})
}

func recordRoute(req *restful.Request, resp *restful.Response, chain *restful.FilterChain) {
	if req.SelectedRoute() != nil {
		writer.RecorderOf(req.Request).Route = req.SelectedRoutePath()
	}
	chain.ProcessFilter(req, resp)
}

// authorize is a filter that refuses, before any handler runs, requests about a namespace that the caller may not see.
func (s *Server) authorize(req *restful.Request, resp *restful.Response, chain *restful.FilterChain) {
	if ns, ok := req.PathParameters()[paramNamespace]; ok {
		if err := s.opts.Access.Allowed(req.Request.Context(), ns); err != nil {
			s.answerError(resp.ResponseWriter, req.Request, err)
			return
		}
	}
	chain.ProcessFilter(req, resp)
}
