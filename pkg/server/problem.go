package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/access"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/budget"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/browser"
	"github.com/rayhistory/historyserver/pkg/server/web"
	"github.com/rayhistory/historyserver/pkg/sessioncache"
)

// problem is the answer to a request that failed: a page to a browser, JSON in the form of Ray's dashboard to others.
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
	return &problem{Status: http.StatusBadRequest, Title: "Bad request", Detail: sentence(err), Advice: "Correct the address and try again."}
}

// noRoute answers a request that no route takes.
func noRoute(r *http.Request, status int) *problem {
	p := &problem{Status: status, Title: http.StatusText(status), Advice: "The server answers the addresses of a Ray dashboard, /homepage and /clusters."}
	switch status {
	case http.StatusNotFound:
		p.Detail = fmt.Sprintf("Nothing is at %.200s.", r.URL.Path)
	case http.StatusMethodNotAllowed:
		p.Detail = fmt.Sprintf("%s is not possible at %.200s: stored sessions cannot be changed.", r.Method, r.URL.Path)
	default:
		p.Detail = fmt.Sprintf("The request for %.200s cannot be answered: %s.", r.URL.Path, strings.ToLower(http.StatusText(status)))
	}
	return p
}

// sentence makes an error's text one.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// problems are the answers for errors of other packages. The error's own text is their Detail.
var problems = []struct {
	err     error
	problem problem
}{
	{access.ErrForbidden, problem{
		Status: http.StatusForbidden, Title: "Not allowed",
		Advice: "Ask for the right to get rayclusters in that namespace, or sign in at /login as somebody who has it.",
	}},
	{access.ErrUnauthenticated, problem{Status: http.StatusUnauthorized, Title: "Not signed in", Advice: "Sign in at /login, or send a token."}},
	{access.ErrUnavailable, problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "Kubernetes does not answer",
		Advice: "Without its answer nothing is shown. Try again in a few seconds.",
	}},
	{browser.ErrHost, problem{Status: http.StatusForbidden, Title: "Unknown host name", Advice: "Use a name or address of the server."}},
	{browser.ErrOtherSite, problem{
		Status: http.StatusForbidden, Title: "Request from another site",
		Advice: "Open the history server itself and do it there. If this is the server itself behind a proxy that changes the Host header, start it with --allowed-hosts and the name that browsers use.",
	}},
	// Not 404: Ray's proxying dashboard answers that with its own cluster's data instead.
	{catalog.ErrNoSession, problem{
		Status: http.StatusGone, Title: "This session is not stored",
		Advice: "It may have been deleted, or the name may be mistyped. Choose another one on /homepage; /clusters lists all of them as JSON.",
	}},
	{budget.ErrBusy, problem{Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "The server is busy", Advice: "Ask again in a few seconds."}},
	{errWaited, problem{Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "Not ready yet", Advice: "Ask again in a few seconds."}},
	{sessioncache.ErrClosed, problem{Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "Not ready yet", Advice: "Ask again in a few seconds."}},
	{sessioncache.ErrPanic, problem{Status: http.StatusInternalServerError, Title: "Internal error", Advice: "Please report what the log says."}},
}

// problemOf finds the answer for an error.
func (s *Server) problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			p := known.problem
			p.Detail = sentence(err)
			return &p
		}
	}
	if errors.Is(err, layout.ErrForeign) {
		return &problem{
			Status: http.StatusBadRequest, Title: "Not a session's address",
			Detail: "This is not the address of a session: " + strings.TrimPrefix(err.Error(), layout.ErrForeign.Error()+": ") + ".",
			Advice: "A session's address is /namespaces/{namespace}/clusters/{cluster}/sessions/{session}/, where the session is latest (the newest), live (the one that runs) or a name such as session_2026-11-20_23-19-45_581717_22125. /homepage lists all.",
		}
	}
	// The store's own words may hold signatures and names: they are only in the log.
	detail := "The store returned an error; the server's log has the details."
	if errors.Is(err, blob.ErrPermission) {
		detail = "The store does not let the server read; the server's log names the right to grant."
	}
	return &problem{
		Status: http.StatusBadGateway, RetryAfter: 10, Title: "The stored sessions cannot be read", Detail: detail,
		Advice: "Sessions are stored in " + s.opts.Storage + ". Check that the history server can reach it, that its name and credentials are right, and that they allow listing and reading. Then try again.",
	}
}

// statusClientGone is nginx's status for a request whose client went away. It only appears in the log and the metrics.
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
		if p.RetryAfter > 0 && r.Method == http.MethodGet {
			w.Header().Set("Refresh", strconv.Itoa(p.RetryAfter)) // browsers ask again by themselves
		}
		s.page(w, p.Status, web.Problem{Base: base(r), Title: p.Title, Detail: p.Detail, Advice: p.Advice})
		return
	}
	// The envelope of Ray's State API (ray/dashboard/optional_utils.py, rest_response).
	writeJSON(w, p.Status, map[string]any{"result": false, "msg": p.Detail + " " + p.Advice, "data": p.Data})
}

// wantsPage says whether a person looks at the answer: scripts and Ray's tools do not ask for HTML.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// base is the relative address of the server's root, so that pages work behind proxies that add a prefix.
func base(r *http.Request) string { return browser.Root(r) }

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode an answer: %v", err)) // all callers give types of this package
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
