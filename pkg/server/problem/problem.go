// Package problem writes the answers to requests that failed: a page for browsers, JSON for programs.
package problem

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/internal/tempfile"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// Problem is the answer to a request that failed: a page to a browser, JSON in the form of Ray's dashboard to others.
type Problem struct {
	Status int
	Title  string
	Detail string // sentences that say what is wrong
	Advice string // sentences that say what to do next
	// Programs is the advice for programs, if it differs, because they do not have the links of pages.
	Programs string
	Ways     []web.Link // to pages that may help; each page links to the list besides
	Data     any        // for programs
	// RetryAfter is in how many seconds the client may try again; 0 does not invite it to.
	RetryAfter int
	// Loading, if set, is the page for browsers: it waits until the request can be answered. Whoever shows it sets its
	// frame.
	Loading *web.Loading

	cause error
}

func (p *Problem) Error() string { return p.Detail }

// Unwrap is the error that the request failed with; nil if the problem was made without one.
func (p *Problem) Unwrap() error { return p.cause }

// ForPrograms is the text for programs.
func (p *Problem) ForPrograms() string { return p.Detail + " " + cmp.Or(p.Programs, p.Advice) }

// NotStored is the answer to a request about a session that is not stored. detail says what is missing, ways are links
// to what is stored instead.
func NotStored(cause error, detail string, ways []web.Link) *Problem {
	// Not 404: Ray's proxying dashboard answers that with its own cluster's data instead.
	return &Problem{
		Status: http.StatusGone, Title: "This session is not stored", Detail: detail, Ways: ways, cause: cause,
		Advice: "It may have been deleted, or the name may be mistyped.",
		Programs: "It may have been deleted, or the name may be mistyped. Choose another one on /homepage; /clusters " +
			"lists all of them as JSON.",
	}
}

// BadRequest is the answer to a request whose address or parameters are wrong. err says what is wrong.
func BadRequest(err error) *Problem {
	if wrong, ok := errors.AsType[*param.Error](err); ok {
		return &Problem{Status: http.StatusBadRequest, Title: "A value cannot be used", Detail: wrong.Sentence(),
			Advice: "Correct it and try again.", cause: err}
	}
	if unknown, ok := errors.AsType[*param.UnknownError](err); ok {
		p := &Problem{Status: http.StatusBadRequest, Title: "Unknown parameter",
			Detail: fmt.Sprintf("There is no parameter %.40q here.", unknown.Name)}
		p.Advice = "This address takes no parameters."
		if len(unknown.Takes) > 0 {
			p.Advice = "Parameters of this address are: " + strings.Join(unknown.Takes, ", ") + "."
		}
		return p
	}
	return &Problem{Status: http.StatusBadRequest, Title: "Bad request", Detail: Sentence(err),
		Advice: "Correct it and try again."}
}

// NoRoute is the answer to a request for which there is no route. status is 404 if the path is unknown, and 405 if it
// is known for other methods.
func NoRoute(r *http.Request, status int) *Problem {
	p := &Problem{Status: status, Title: http.StatusText(status)}
	p.Advice = "Correct the address, or find what you look for in the list of clusters."
	p.Programs = "The server answers the addresses of a Ray dashboard, /homepage and /clusters. " +
		"A program that is newer than the server may ask for others."
	switch status {
	case http.StatusNotFound:
		p.Detail = fmt.Sprintf("Nothing is at %.200s.", r.URL.Path)
	case http.StatusMethodNotAllowed:
		p.Detail = fmt.Sprintf("%s is not possible at %.200s: stored sessions cannot be changed.", r.Method, r.URL.Path)
	default:
		p.Detail = fmt.Sprintf("The request for %.200s cannot be answered: %s.", r.URL.Path,
			strings.ToLower(http.StatusText(status)))
	}
	return p
}

// Sentence makes a sentence of an error's text: with a capital letter and a full stop. A first word that is a name or a
// value, such as top=0, stays as it is.
func Sentence(err error) string {
	text := err.Error()
	first, _, _ := strings.Cut(text, " ")
	if strings.ContainsAny(first, "=_-/.") {
		return text + "."
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

var signIn = []web.Link{{Title: "Sign in", Address: "login"}}

// problems are the answers for errors of other packages. The error's own text is their Detail.
var problems = []struct {
	err     error
	problem Problem
}{
	{access.ErrForbidden, Problem{
		Status: http.StatusForbidden, Title: "You may not see this",
		Advice: "Ask your administrator for access to that namespace, or sign in at /login as another user.",
		Ways:   signIn,
	}},
	{access.ErrUnauthenticated, Problem{Status: http.StatusUnauthorized, Title: "Not signed in",
		Advice: "Sign in at /login, or send a token.", Ways: signIn}},
	{access.ErrUnavailable, Problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "Kubernetes does not answer",
		Advice: "Nothing can be shown without its answer. Try again in a few seconds.",
	}},
	{access.ErrNoRules, Problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "The access rules cannot be read",
		Advice: "Nothing is shown until the file can be read. Correct the file; no restart is needed.",
	}},
	{browser.ErrHost, Problem{Status: http.StatusForbidden, Title: "Unknown host name",
		Advice: "Use a name or address of the server."}},
	{browser.ErrOtherSite, Problem{
		Status: http.StatusForbidden, Title: "Request from another site",
		Advice: "Open the history server itself and do it there. If this is the server itself behind a proxy that " +
			"changes the Host header, start it with --allowed-hosts and the name that browsers use.",
	}},
	{budget.ErrBusy, Problem{Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "The server is busy",
		Advice: "Try again in a few seconds."}},
	{budget.ErrTooLarge, Problem{Status: http.StatusServiceUnavailable, Title: "The session is too large for this",
		Advice: "Ask for less, or have the server's administrator raise --max-answer-memory."}},
	{shared.ErrWaited, Problem{Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "Not ready yet",
		Advice: "Try again in a few seconds."}},
	{sessioncache.ErrClosed, Problem{Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "Not ready yet",
		Advice: "Try again in a few seconds."}},
	{sessioncache.ErrTurn, Problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 60, Title: "Too slow while others wait",
		Advice: "Try again when fewer sessions are being opened, or raise --session-cache-max-loads.",
	}},
	{turns.ErrEnded, Problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 30, Title: "Too slow while others wait",
		Advice: "Ask for less, or try again later.",
	}},
	{notes.ErrContended, Problem{Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "Others change the note",
		Advice: "Go back and try again in a few seconds.", Programs: "Try again in a few seconds."}},
	{turns.ErrBusy, Problem{Status: http.StatusServiceUnavailable, RetryAfter: 5, Title: "The server is busy",
		Advice: "Try again in a few seconds."}},
	{tempfile.ErrUnusable, Problem{Status: http.StatusServiceUnavailable, RetryAfter: 30,
		Title: "No room for temporary files", Advice: "Try again later, or ask the server's administrator."}},
	{sessioncache.ErrPanic, Problem{Status: http.StatusInternalServerError, Title: "Internal error",
		Advice: "Please report the messages of the server's log."}},
}

// Of returns the answer for an error of a handler; one that is not known here counts as an error of the store. storage
// says in a few words where sessions are stored.
func Of(err error, storage string) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if _, ok := errors.AsType[*param.Error](err); ok {
		return BadRequest(err)
	}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			p := known.problem
			p.Detail = Sentence(err)
			return &p
		}
	}
	if errors.Is(err, catalog.ErrNoSession) {
		return NotStored(err, Sentence(err), nil)
	}
	if errors.Is(err, layout.ErrForeign) {
		wrong := strings.TrimPrefix(err.Error(), layout.ErrForeign.Error()+": ")
		return &Problem{
			Status: http.StatusBadRequest, Title: "Not a session's address",
			Detail: "This is not the address of a session: the " + strings.Replace(wrong, ": want", " should be", 1) +
				".",
			Advice: "A session is latest (the newest), live (the running one) or a name such as " +
				"session_2026-11-20_23-19-45_581717_22125. The list of clusters has all of them.",
			Programs: "A session's address is /namespaces/{namespace}/clusters/{cluster}/sessions/{session}/, where " +
				"the session is latest (the newest), live (the running one) or a name such as " +
				"session_2026-11-20_23-19-45_581717_22125. /homepage lists all.",
		}
	}
	// The text of the store's error may have signatures and names in it, so it is only in the log.
	detail := "The store returned an error; the server's log has the details."
	var refused *blob.AccessError
	switch {
	case errors.As(err, &refused):
		return &Problem{
			Status: http.StatusBadGateway, RetryAfter: 10, Title: "The stored sessions cannot be read",
			Detail: "The store does not let the server read them.",
			Advice: "Sessions are stored in " + storage + ". For its administrator: " + refused.Advice +
				". The server's log has the store's own words.",
		}
	case errors.Is(err, blob.ErrPermission):
		detail = "The server has no credentials for the store; its log says what to set."
	}
	return &Problem{
		Status: http.StatusBadGateway, RetryAfter: 10, Title: "The stored sessions cannot be read", Detail: detail,
		Advice: "Sessions are stored in " + storage +
			". Check that the history server can reach it, that its name and credentials are right, and that they " +
			"allow listing and reading. Then try again.",
	}
}
