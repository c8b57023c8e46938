package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/promapi"
)

// addPromQL adds Prometheus's HTTP API below a prefix, for GET and POST as Grafana uses both.
func (s *Server) addPromQL(ws *restful.WebService, prefix string, h handler) {
	if s.opts.PromQL == nil {
		return
	}
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
	e, err := s.sessions.Find(r.Context(), c.selector)
	if err != nil {
		return err
	}
	until := e.End
	switch {
	case c.at != 0:
		until = time.Unix(0, c.at)
	case e.Running, until.IsZero():
		until = time.Now()
	}
	s.opts.PromQL.Answer(w, r.Request, r.params[paramPath], promapi.Scope{Sessions: []promapi.Session{s.metricsOf(e)}, Until: until})
	return nil
}

// clusterPromQL answers from the metrics of all sessions of a cluster.
func (s *Server) clusterPromQL(w http.ResponseWriter, r *request) error {
	of := s.sessions.List(r.Context())
	if of.Err != nil {
		return of.Err
	}
	scope := promapi.Scope{Until: time.Now()}
	for e := range of.Matching(catalog.Filter{Namespace: r.params[paramNamespace], Cluster: r.params[paramCluster]}, scope.Until) {
		if e.Ref.Name != catalog.Live {
			scope.Sessions = append(scope.Sessions, s.metricsOf(e))
		}
	}
	if len(scope.Sessions) == 0 {
		return catalog.ErrNoSession
	}
	slices.SortFunc(scope.Sessions, func(a, b promapi.Session) int { return cmp.Compare(a.Name, b.Name) })
	s.opts.PromQL.Answer(w, r.Request, r.params[paramPath], scope)
	return nil
}

func (s *Server) metricsOf(e catalog.Entry) promapi.Session {
	of := promapi.Session{Name: e.Ref.Name, Start: e.Start, Open: func() *metrics.Database { return s.opts.Metrics.Of(e.Ref, e.Running) }}
	if !e.Running {
		of.End = e.End
	}
	return of
}
