package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/kube"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

// passOn passes a request on to the dashboard of the running cluster it is about, if it is about one, and reports whether it has answered.
func (s *Server) passOn(req *restful.Request, resp *restful.Response, c choice) bool {
	if c.at != 0 {
		return false
	}
	cluster, ok, err := s.sessions.running(req.Request.Context(), c.want)
	if err != nil {
		s.fail(resp, req.Request, err)
		return true
	}
	if ok {
		s.forward(req, resp, c, cluster)
	}
	return ok
}

func (s *Server) forward(req *restful.Request, resp *restful.Response, c choice, cluster kube.Cluster) {
	r := req.Request
	if s.opts.Access.Enabled() {
		// The dashboard is its cluster's owner's: no page of theirs may act here for the people who look at it. Data is not concerned.
		resp.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	}
	s.opts.Live.Forward(resp.ResponseWriter, r, cluster.Namespace, cluster.Name, below(r, c), func(err error) {
		s.fail(resp, r, liveProblem(cluster, err))
	})
}

// below is the escaped path of a request behind what chooses its session.
func below(r *http.Request, c choice) string {
	path := r.URL.EscapedPath()
	if !c.byPath {
		return path
	}
	// /namespaces/{ns}/clusters/{name}/sessions/{session}
	const segments = 7
	parts := strings.SplitN(path, "/", segments+1)
	if len(parts) <= segments {
		return "/"
	}
	return "/" + parts[segments]
}

// liveProblem says why a running cluster's dashboard gave no answer.
func liveProblem(c kube.Cluster, err error) *problem {
	p := &problem{
		Status: http.StatusBadGateway, RetryAfter: 5, Title: "The running cluster does not answer", Detail: sentence(err),
		Advice: fmt.Sprintf("Try again, or look at what is stored of it: /namespaces/%s/clusters/%s/sessions/latest/.", c.Namespace, c.Name),
	}
	var write *kube.WriteError
	switch {
	case errors.As(err, &write):
		p.Status, p.RetryAfter, p.Title = http.StatusMethodNotAllowed, 0, "Running clusters are only looked at"
		p.Advice = "Send it to the cluster's own dashboard, or start the history server with --live-writes."
	case errors.Is(err, kube.ErrPath):
		return badRequest(err)
	}
	return p
}

// other answers requests that no route takes and that are no reads: they may be for a running cluster.
func (s *Server) other(req *restful.Request, resp *restful.Response) {
	c, err := choose(req)
	if err == nil && s.passOn(req, resp, c) {
		return
	}
	s.routingError(restful.ServiceError{Code: http.StatusMethodNotAllowed, Header: http.Header{"Allow": {"GET, HEAD"}}}, req, resp)
}

// enterLive chooses a running cluster's own dashboard.
func (s *Server) enterLive(resp *restful.Response, r *http.Request, cluster kube.Cluster, version string) {
	e := liveEntry(cluster)
	s.setCookies(resp, r, e, version)
	if r.URL.Query().Get("open") == "dashboard" {
		s.page(resp, http.StatusOK, web.Loading{
			Base: base(r), Session: catalog.Live, Cluster: cluster.Name, Namespace: cluster.Namespace, Target: base(r), State: "ready",
		})
		return
	}
	writeJSON(resp, http.StatusOK, map[string]any{"result": "success", "name": cluster.Name, "namespace": cluster.Namespace, "session": catalog.Live})
}
