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
	s.get(ws, path, h)
	s.add(ws, http.MethodPost, path, h)
}

// sessionPromQL answers from the metrics of the chosen session, up to the moment shown.
func (s *Server) sessionPromQL(w http.ResponseWriter, r *request) error {
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
	scope := promapi.Scope{
		Sessions: []promapi.Session{s.metricsOf(e)}, Now: e.End,
		For: e.Ref.Namespace + " " + access.CallerOf(r.Request),
	}
	switch {
	case c.at != 0:
		scope.Until = time.Unix(0, c.at)
		scope.Now = scope.Until
	case e.Running, e.End.IsZero():
		scope.Now = time.Now()
	}
	s.opts.PromQL.Answer(w, r.Request, r.params[paramPath], scope)
	return nil
}

// clusterPromQL answers from the metrics of all sessions of a cluster.
func (s *Server) clusterPromQL(w http.ResponseWriter, r *request) error {
	entries, err := s.storedOf(r)
	if err != nil {
		return err
	}
	scope := promapi.Scope{Now: time.Now(), For: access.CallerOf(r.Request)}
	for _, e := range entries {
		scope.For = e.Ref.Namespace + " " + access.CallerOf(r.Request) // the same of all
		scope.Sessions = append(scope.Sessions, s.metricsOf(e))
	}
	slices.SortFunc(scope.Sessions, func(a, b promapi.Session) int { return cmp.Compare(a.Name, b.Name) })
	s.opts.PromQL.Answer(w, r.Request, r.params[paramPath], scope)
	return nil
}

// metricsOf returns a session as queries see it.
func (s *Server) metricsOf(e catalog.Entry) promapi.Session {
	named := promapi.Session{Name: e.Ref.Name, Start: e.Start,
		Open: func() *metrics.Database { return s.opts.Metrics.Of(e.Ref, e.Running) }}
	if !e.Running {
		named.End = e.End
	}
	return named
}
