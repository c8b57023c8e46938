package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

// addPromQL adds Prometheus's HTTP API below a prefix, for GET and POST as Grafana uses both.
func (s *Server) addPromQL(ws *restful.WebService, prefix string, h handler) {
	path := prefix + "/api/v1/{" + paramPath + ":*}"
	s.addGet(ws, path, h)
	s.addRoute(ws, http.MethodPost, path, h)
}

// sessionPromQL answers from the metrics of the chosen session, up to the moment shown.
func (s *Server) sessionPromQL(w http.ResponseWriter, r *http.Request, c choice) error {
	ctx, cancel := s.findContext(r.Context())
	defer cancel()
	e, err := s.sessions.Find(ctx, c.selector)
	if err != nil {
		return err
	}
	scope := promapi.Scope{
		Sessions: []promapi.Session{s.queryableSession(e)}, Now: e.End,
		For: e.Ref.Namespace + " " + access.CallerOf(r),
	}
	switch {
	case c.at != 0:
		scope.Until = time.Unix(0, c.at)
		scope.Now = scope.Until
	case e.Running, e.End.IsZero():
		scope.Now = time.Now()
	}
	s.opts.PromQL.Answer(w, r, r.PathValue(paramPath), scope)
	return nil
}

// clusterPromQL answers from the metrics of all sessions of a cluster.
func (s *Server) clusterPromQL(w http.ResponseWriter, r *http.Request) error {
	entries, err := s.storedSessions(r)
	if err != nil {
		return err
	}
	// All entries are of one namespace, that of the request's path.
	scope := promapi.Scope{Now: time.Now(), For: r.PathValue(paramNamespace) + " " + access.CallerOf(r)}
	for _, e := range entries {
		scope.Sessions = append(scope.Sessions, s.queryableSession(e))
	}
	// Names begin with the time at which the session began, so the newest comes last.
	slices.SortFunc(scope.Sessions, func(a, b promapi.Session) int { return cmp.Compare(a.Name, b.Name) })
	s.opts.PromQL.Answer(w, r, r.PathValue(paramPath), scope)
	return nil
}

// queryableSession returns a stored session for queries of its metrics, which are opened when a query needs them.
func (s *Server) queryableSession(e catalog.Entry) promapi.Session {
	named := promapi.Session{Name: e.Ref.Name, Start: e.Start,
		Open: func() *metrics.Database { return s.opts.Metrics.Of(e.Ref, e.Running) }}
	if !e.Running {
		named.End = e.End
	}
	return named
}
