package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/server/browser"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

// statusClientGone is nginx's status for a request whose client went away. It only appears in the log and the metrics.
const statusClientGone = 499

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		w.WriteHeader(statusClientGone)
		return
	}
	p := problem.Of(err, s.opts.Storage)
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
		web.Write(w, p.Status, web.Problem{Base: base(r), Title: p.Title, Detail: p.Detail, Advice: p.Advice})
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
