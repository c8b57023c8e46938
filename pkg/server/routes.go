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

// Routes lists all routes.
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

// request is a request whose route was found.
type request struct {
	*http.Request
	params map[string]string // the variable parts of the path
}

// headAsGet answers HEAD by the route for GET, as aiohttp does, which Ray's dashboard is built with: net/http leaves
// the body out. Routes of their own would make the table, in which every request is looked up, twice as long.
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

// handler answers a request. An error is answered by fail, and returned only if nothing was written.
type handler func(http.ResponseWriter, *request) error

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
		s.fail(resp.ResponseWriter, req.Request, problem.NoRoute(req.Request, e.Code))
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

func (s *Server) add(ws *restful.WebService, method, path string, h handler) {
	ws.Route(ws.Method(method).Path(path).To(func(req *restful.Request, resp *restful.Response) {
		if err := h(resp.ResponseWriter, &request{req.Request, req.PathParameters()}); err != nil {
			s.fail(resp.ResponseWriter, req.Request, err)
		}
	}))
}

// get adds a route for GET, and so for HEAD.
func (s *Server) get(ws *restful.WebService, path string, h handler) {
	s.add(ws, http.MethodGet, path, h)
}

// addPublic adds a route for GET that needs no caller: Kubernetes, Prometheus and programs whose users have not signed
// in ask for it. Its answer must not be about a namespace.
func (s *Server) addPublic(ws *restful.WebService, path string, h handler) {
	s.public = append(s.public, path)
	s.get(ws, path, h)
}

// page adds a page at path, which has one segment. The page's links are relative to an address without a slash at the
// end, so an address with one is redirected.
func (s *Server) page(ws *restful.WebService, path string, h handler) {
	s.get(ws, path, func(w http.ResponseWriter, r *request) error {
		if strings.HasSuffix(r.URL.Path, "/") {
			browser.Redirect(w, http.StatusFound, withQuery(".."+path, r.Request))
			return nil
		}
		return h(w, r)
	})
}

// pageOf adds a page about the chosen session. Its links, forms and scripts are relative to its address, so the moment
// that ?at= names becomes a part of the path.
func (s *Server) pageOf(ws *restful.WebService, path string, names []string, h handler, several ...string) {
	s.page(ws, path, takes(ofSession(names...), func(w http.ResponseWriter, r *request) error {
		if r.URL.Query().Get("at") == "" {
			return h(w, r)
		}
		c, err := choose(r)
		if err != nil {
			return err
		}
		browser.Redirect(w, http.StatusFound, momentAddress(r.Request, c, path))
		return nil
	}, several...))
}

// takes is a handler that refuses parameters of the query with other names: a filter that is mistyped must not look
// like one that passes everything. What Ray, Grafana and Prometheus answer too ignores such parameters, as these do.
// Those of some names may be given several times.
func takes(names []string, h handler, several ...string) handler {
	return func(w http.ResponseWriter, r *request) error {
		if err := param.Check(r.URL.RawQuery, names, several...); err != nil {
			return problem.BadRequest(err)
		}
		return h(w, r)
	}
}

// ofSession are the parameters of a route about one session, which is shown as it was at a moment.
func ofSession(names ...string) []string { return append(slices.Clip(names), "at") }

// plain is a handler that needs no parameters of the path.
func plain(h func(http.ResponseWriter, *http.Request) error) handler {
	return func(w http.ResponseWriter, r *request) error { return h(w, r.Request) }
}

// chosen is a handler that gets the chosen session, which need not be loaded.
func (s *Server) chosen(h func(http.ResponseWriter, *http.Request, catalog.Entry) error) handler {
	return func(w http.ResponseWriter, r *request) error {
		c, err := choose(r)
		if err != nil {
			return err
		}
		ctx, cancel := s.findContext(r.Context())
		defer cancel()
		e, err := s.sessions.Find(ctx, c.selector)
		if err != nil {
			return err
		}
		return h(w, r.Request.WithContext(ctx), e)
	}
}

// addDashboard adds what a Ray dashboard answers. All of it is about one session.
func (s *Server) addDashboard(ws *restful.WebService) {
	for _, route := range s.opts.Routes {
		h := s.answer(route)
		if route.Own {
			h = takes(ofSession(route.Params...), h)
		}
		s.add(ws, route.Method, route.Path, h)
	}
	s.get(ws, "/", s.dashboard)
	s.get(ws, "/api/history/stored", takes(ofSession(), s.chosen(s.stored)))
	s.get(ws, "/session_status", takes(ofSession(), s.chosen(s.sessionStatus)))
	s.get(ws, "/session_activity", takes(ofSession(), s.loaded(s.activity)))
	s.addPages(ws)
	s.addPromQL(ws, "", s.sessionPromQL)
	s.addLogs(ws)
	s.addCompare(ws)
	s.addNotes(ws)
	s.get(ws, "/{"+paramPath+":*}", s.file)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		s.add(ws, method, "/{"+paramPath+":*}", s.write)
	}
}

// addNotes adds the pin and the note on the chosen session.
func (s *Server) addNotes(ws *restful.WebService) {
	const api = "/api/history/note"
	s.pageOf(ws, "/note", nil, s.chosen(s.notes.Page))
	s.get(ws, api, takes(ofSession(), s.chosen(s.notes.Get)))
	s.add(ws, http.MethodPost, "/note", s.chosen(s.notes.Write))
	s.add(ws, http.MethodPost, api, s.chosen(s.notes.Write))
}

// addOwn adds what only the history server has.
func (s *Server) addOwn(ws *restful.WebService) {
	s.get(ws, "/homepage", s.homepage())
	s.get(ws, "/homepage/assets/{"+paramPath+"}", s.asset)
	s.get(ws, "/clusters", takes(list.ClustersParams, plain(s.lists.Clusters)))
	for _, path := range []string{"/namespaces", namespacePrefix, namespacePrefix + "/clusters", clusterPrefix,
		clusterPrefix + "/sessions"} {
		s.get(ws, path, takes(nil, s.withoutSession))
	}
	s.addAddresses(ws)
	s.page(ws, "/fleet", takes(fleet.Params, plain(s.lists.FleetPage)))
	s.get(ws, "/api/history/fleet", takes(list.FleetDataParams, plain(s.lists.FleetData)))
	s.page(ws, "/coverage", takes(list.CoverageParams, plain(s.lists.CoveragePage)))
	s.get(ws, "/api/history/coverage", takes(nil, plain(s.lists.Coverage)))
	s.addPromQL(ws, clusterPrefix, s.clusterPromQL)
	s.get(ws, clusterPrefix+"/api/history/search", takes(logs.SearchParams, s.searchCluster))
	const enter = "/enter_cluster/{" + paramNamespace + "}"
	for _, rest := range []string{"/{" + paramCluster + "}", "/{" + paramCluster + "}/{" + paramSession + "}",
		"/{" + paramKind + "}/{" + paramCluster + "}/{" + paramSession + "}"} {
		s.get(ws, enter+rest, takes([]string{"open", "dashboard"}, s.enter))
	}
	assistants := assistant.Handler(s.opts.Version,
		func(w http.ResponseWriter, r *http.Request) { s.router.Dispatch(w, r) }, s.opts.Log)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		s.add(ws, method, "/mcp", plain(assistants))
	}
	s.addPublic(ws, access.AboutPath, takes(nil, plain(s.about)))
	s.addPublic(ws, "/healthz", s.healthy)
	s.addPublic(ws, "/livez", s.healthy)
	s.addPublic(ws, "/readyz", s.ready)
	metrics := promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{DisableCompression: true})
	s.addPublic(ws, "/metrics", func(w http.ResponseWriter, r *request) error {
		metrics.ServeHTTP(w, r.Request)
		return nil
	})
}

// recordRoute is a filter that records which route took the request.
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
			s.fail(resp.ResponseWriter, req.Request, err)
			return
		}
	}
	chain.ProcessFilter(req, resp)
}
