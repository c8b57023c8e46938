package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/access"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/web"
	"github.com/rayhistory/historyserver/pkg/sessioncache"
)

// problem is an answer that is not what was asked for: a page to a browser, JSON in the form of Ray's dashboard to others.
type problem struct {
	Status int
	Title  string
	Detail string // sentences that say what is wrong
	Advice string // sentences that say what to do next
	Data   any    // for programs
	// RetryAfter is when to ask again, in seconds; 0 says nothing about it.
	RetryAfter int
}

func (p *problem) Error() string { return p.Detail }

func badRequest(err error) *problem {
	return &problem{Status: http.StatusBadRequest, Title: "The request cannot be understood", Detail: sentence(err), Advice: "Correct the address and try again."}
}

// sentence makes an error's text one.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// progress is what programs are told about a load.
type progress struct {
	State        sessioncache.State `json:"state"`
	BytesDone    int64              `json:"bytes_done"`
	BytesTotal   int64              `json:"bytes_total"`
	ObjectsDone  int64              `json:"objects_done"`
	ObjectsTotal int64              `json:"objects_total"`
	Seconds      float64            `json:"seconds"`
	Error        string             `json:"error,omitempty"`
}

func progressOf(st sessioncache.Status) progress {
	p := progress{
		State: st.State, BytesDone: st.Progress.BytesDone, BytesTotal: st.Progress.BytesTotal,
		ObjectsDone: st.Progress.ObjectsDone, ObjectsTotal: st.Progress.ObjectsTotal, Seconds: st.Elapsed.Seconds(),
	}
	if st.Err != nil {
		p.Error = st.Err.Error()
	}
	return p
}

// loading says that a session needs longer than a request may wait.
func loading(st sessioncache.Status) *problem {
	return &problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 5,
		Title:  "The session is being loaded",
		Detail: fmt.Sprintf("The session is being loaded: %d of %d bytes of events are read.", st.Progress.BytesDone, st.Progress.BytesTotal),
		Advice: "Ask again in a few seconds; the load goes on.",
		Data:   progressOf(st),
	}
}

// problemOf finds the answer for an error.
func (s *Server) problemOf(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, access.ErrForbidden):
		return &problem{
			Status: http.StatusForbidden, Title: "Not allowed", Detail: sentence(err),
			Advice: "Ask for the right to get rayclusters in that namespace, or sign in as somebody who has it at /login.",
		}
	case errors.Is(err, access.ErrUnauthenticated):
		return &problem{Status: http.StatusUnauthorized, Title: "Not signed in", Detail: sentence(err), Advice: "Sign in at /login, or send a token."}
	case errors.Is(err, access.ErrUnavailable):
		return &problem{
			Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "Kubernetes does not answer", Detail: sentence(err),
			Advice: "Nothing is shown that it has not allowed. Try again in a few seconds.",
		}
	case errors.Is(err, catalog.ErrNoSession):
		// Not 404: Ray's proxying dashboard answers that with its own cluster's data instead.
		return &problem{
			Status: http.StatusGone, Title: "This session is not stored",
			Detail: sentence(err) + " It may have been deleted, or its name is mistyped.",
			Advice: "Choose another one on /homepage; /clusters lists all of them as JSON.",
		}
	case errors.Is(err, layout.ErrForeign):
		return badRequest(err)
	case errors.Is(err, errWaited), errors.Is(err, sessioncache.ErrClosed):
		return &problem{
			Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "Not ready yet",
			Detail: sentence(err), Advice: "Ask again in a few seconds.",
		}
	case errors.Is(err, sessioncache.ErrPanic):
		return &problem{
			Status: http.StatusInternalServerError, Title: "Internal error",
			Detail: sentence(err), Advice: "Please report what the log says.",
		}
	}
	return &problem{
		Status: http.StatusBadGateway, RetryAfter: 10, Title: "The stored sessions cannot be read",
		Detail: sentence(err), Advice: storageAdvice(s.opts.Storage),
	}
}

func storageAdvice(storage string) string {
	return "Sessions are stored in " + storage + ". Check that it can be reached from the history server, that its name and credentials are right, and that they allow listing and reading; then try again."
}

// statusClientGone is nginx's status of a request whose client went away: for the log and the metrics, nobody reads it.
const statusClientGone = 499

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		w.WriteHeader(statusClientGone)
		return
	}
	p := s.problemOf(err)
	if p.Status >= http.StatusInternalServerError && p.Status != http.StatusServiceUnavailable {
		s.opts.Log.WithError(err).WithField("path", r.URL.Path).Warn("cannot answer a request")
	}
	w.Header().Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if wantsPage(r) {
		s.page(w, p.Status, web.Problem{Base: base(r), Title: p.Title, Detail: p.Detail, Advice: p.Advice})
		return
	}
	// The envelope of Ray's State API (ray/dashboard/optional_utils.py, rest_response).
	writeJSON(w, p.Status, map[string]any{"result": false, "msg": p.Detail + " " + p.Advice, "data": p.Data})
}

// wantsPage says whether a person looks at the answer: scripts and Ray's tools do not ask for HTML.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// base is the relative way from the request's path to the server's root, so that pages work behind proxies that add a prefix.
func base(r *http.Request) string {
	up := strings.Repeat("../", max(0, strings.Count(r.URL.EscapedPath(), "/")-1))
	if up == "" {
		return "./"
	}
	return up
}

// routingError answers what no route takes.
func (s *Server) routingError(e restful.ServiceError, req *restful.Request, resp *restful.Response) {
	for name, values := range e.Header {
		resp.Header()[name] = values
	}
	p := &problem{Status: e.Code, Title: http.StatusText(e.Code), Advice: "The addresses that are answered are those of a Ray dashboard, and /homepage and /clusters."}
	switch e.Code {
	case http.StatusNotFound:
		p.Detail = fmt.Sprintf("Nothing is at %.200s.", req.Request.URL.Path)
	case http.StatusMethodNotAllowed:
		p.Detail = fmt.Sprintf("%s is not possible at %.200s: sessions are stored and cannot be changed.", req.Request.Method, req.Request.URL.Path)
	default:
		p.Detail = fmt.Sprintf("The request for %.200s cannot be answered: %s.", req.Request.URL.Path, strings.ToLower(http.StatusText(e.Code)))
	}
	s.fail(resp, req.Request, p)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode an answer: %v", err)) // only types of this package get here
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
