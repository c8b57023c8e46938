package server

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/web/browser"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// forwardToLive forwards a request to the dashboard of a running cluster, if the choice is one and not a moment of its
// past. answered is false, and nothing is written, if the request is about a stored session.
func (s *Server) forwardToLive(w http.ResponseWriter, r *http.Request, c choice) (answered bool, err error) {
	if c.at != 0 {
		return false, nil
	}
	cluster, ok, err := s.sessions.Running(r.Context(), c.selector)
	if err != nil || !ok {
		return false, err
	}
	if err := s.rules.CheckSubresource(r); err != nil { // another site's page sent it
		return false, err
	}
	browser.Sandbox(w.Header())
	r.Body = writer.RecorderOf(r).Body // Forward has a limit of its own
	s.opts.Live.Forward(w, r, cluster.Namespace, cluster.Name, pathBelow(r, c), func(err error) {
		s.answerError(w, r, liveProblem(c.selector, err))
	})
	return true, nil
}

// forwardUnrouted forwards a request that no route answers, if it is about a running cluster. A request that chooses no
// session is about none, so that is no error.
func (s *Server) forwardUnrouted(w http.ResponseWriter, r *http.Request) (answered bool, err error) {
	c, err := readChoice(r)
	if err != nil {
		return false, nil
	}
	return s.forwardToLive(w, r, c)
}

// answerWrite answers a request that would change something: it is forwarded if it is about a running cluster, and
// refused if not, because stored sessions cannot be changed.
func (s *Server) answerWrite(w http.ResponseWriter, r *http.Request) error {
	if answered, err := s.forwardUnrouted(w, r); answered || err != nil {
		return err
	}
	w.Header().Set("Allow", "GET, HEAD")
	return problem.NoRoute(r, http.StatusMethodNotAllowed)
}

// pathBelow is the escaped path of a request without the prefix that chooses its session.
func pathBelow(r *http.Request, c choice) string {
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
func liveProblem(sel catalog.Selector, err error) *problem.Problem {
	p := &problem.Problem{
		Status: http.StatusBadGateway, RetryAfter: 5, Title: "The running cluster does not answer",
		Detail: problem.Sentence(err),
		Advice: fmt.Sprintf("Try again, or open its stored data: /namespaces/%s/clusters/%s/sessions/latest/.",
			sel.Namespace, sel.Name),
	}
	var write *kube.WriteError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		p.Status, p.RetryAfter, p.Title = http.StatusRequestEntityTooLarge, 0, "Request too large"
		p.Detail = fmt.Sprintf("The request has more than %d bytes.", large.Limit)
		p.Advice = "Start the history server with a higher --live-writes-max-body, or send the request to the " +
			"cluster's own dashboard."
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.Status, p.RetryAfter, p.Title = http.StatusRequestTimeout, 0, "The request took too long"
		p.Advice = "Start the history server with a higher --live-writes-timeout, or send the request to the " +
			"cluster's own dashboard."
	case errors.As(err, &write):
		p.Status, p.RetryAfter, p.Title = http.StatusMethodNotAllowed, 0, "Running clusters are read-only here"
		p.Advice = "Send the request to the cluster's own dashboard, or start the history server with --live-writes."
	case errors.Is(err, kube.ErrPath):
		return problem.BadRequest(err)
	}
	return p
}
