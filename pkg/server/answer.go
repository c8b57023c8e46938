package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/web/browser"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// answerRoute is a handler that answers a route of the dashboard from the chosen session. If that is a running cluster,
// the cluster's own dashboard answers. Answers about an ended session get an ETag, and 304 if the client has them.
func (s *Server) answerRoute(route dashboard.Route) handler {
	return withChoice(func(w http.ResponseWriter, r *http.Request, c choice) error {
		if answered, err := s.forwardToLive(w, r, c); answered || err != nil {
			return err
		}
		entry, loaded, release, err := s.load(r.Context(), c, s.waitFor(r))
		if err != nil {
			return err
		}
		defer release()
		if etag := s.etagOf(r, c, loaded, route.Path); etag != "" {
			s.rules.AllowRevalidation(w.Header())
			if clientHas(r, etag) {
				w.Header().Set("ETag", etag)
				w.WriteHeader(http.StatusNotModified)
				return nil
			}
			w = &writer.Tagged{ResponseWriter: w, ETag: etag}
		}
		releaseMemory, err := s.opts.Memory.Reserve(r.Context(), budget.Answer, answerBytes(route.Path))
		if err != nil {
			return err
		}
		defer releaseMemory()
		route.Serve(w, &dashboard.Request{Request: r, Moment: *s.momentOf(entry, loaded, c.at)})
		return nil
	})
}

// withEndOf returns an entry with whether and when the loaded session ended, if the catalog does not know that yet
// because it has only seen that the session exists.
func withEndOf(e catalog.Entry, loaded *session.Session) catalog.Entry {
	if !e.Described {
		e.Running, e.End = loaded.StateAt(time.Now())
	}
	return e
}

// momentOf returns a loaded session as it was at a moment, in Unix ns; moment.AtEnd is its end, or now while it runs.
func (s *Server) momentOf(e catalog.Entry, loaded *session.Session, at int64) *moment.Moment {
	m := s.opts.Dashboard.MomentAt(loaded, at)
	m.RayVersion = e.RayVersion
	if e.Running && at == 0 {
		// Answers that follow a log call this again and again, to know whether more of it may come.
		m.Running = func(ctx context.Context) bool {
			now, err := s.sessions.Find(ctx, selectorOf(e.Ref))
			return err == nil && (now.Running || !now.Described) // it may run if it is not known
		}
	}
	return m
}

// waitFor is how long a request waits for its session, and a page then for the session's findings.
func (s *Server) waitFor(r *http.Request) time.Duration {
	if browser.WantsPage(r) {
		return s.opts.PageWait
	}
	return s.opts.LoadWait
}

// load finds and loads a chosen session; it waits at most wait for both. The caller must call release unless there is
// an error. With an error, e is the session if it was found, else empty.
func (s *Server) load(ctx context.Context, c choice, wait time.Duration) (e catalog.Entry, loaded *session.Session,
	release func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, shared.ErrWaited)
	defer cancel()
	if e, err = s.sessions.Find(ctx, c.selector); err != nil {
		return e, nil, nil, err
	}
	loaded, release, err = s.opts.Sessions.Get(ctx, e.Ref)
	if errors.Is(err, shared.ErrWaited) {
		err = loadingProblem(e.Ref, s.opts.Sessions.Status(e.Ref))
	}
	if err != nil {
		return e, loaded, release, err
	}
	e = withEndOf(e, loaded)
	if err = notBeforeStart(c.at, e, loaded); err != nil {
		release()
	}
	return e, loaded, release, err
}

// notBeforeStart is the error about a moment (Unix ns, 0 for none) before the session's start, for which the answer
// would look like that of an empty cluster; nil if the start is not known. People give moments in whole seconds, so the
// second in which the session started is not before its start.
func notBeforeStart(at int64, e catalog.Entry, loaded *session.Session) error {
	start := e.Start
	if loaded.Start != 0 && (start.IsZero() || loaded.Start < start.UnixNano()) {
		start = time.Unix(0, loaded.Start)
	}
	if at == 0 || start.IsZero() || at >= start.Truncate(time.Second).UnixNano() {
		return nil
	}
	const form = "2006-01-02 15:04:05 UTC"
	p := &problem.Problem{
		Status: http.StatusBadRequest, Title: "The session had not started yet",
		Detail: fmt.Sprintf("Session %s started at %s, after the requested moment: %s.", e.Ref.Name,
			start.UTC().Format(form), time.Unix(0, at).UTC().Format(form)),
		Advice: fmt.Sprintf("Ask for a moment from %s on.", start.UTC().Truncate(time.Second).Format(time.RFC3339)),
	}
	if !e.End.IsZero() {
		p.Advice = fmt.Sprintf("Request a moment from %s to %s.",
			start.UTC().Truncate(time.Second).Format(time.RFC3339), e.End.UTC().Format(time.RFC3339))
	}
	return p
}

const (
	// usualAnswerBytes is the memory of an answer that is written as a stream: its own buffers, the compression's and
	// the connection's.
	usualAnswerBytes = 128 << 10
	// logAnswerBytes is the memory of an answer that copies a log. One that follows a log may hold it for hours.
	logAnswerBytes = 64 << 10
)

// answerBytes estimates the memory that an answer of a route takes.
func answerBytes(route string) int64 {
	if strings.Contains(route, "/logs") {
		return logAnswerBytes
	}
	return usualAnswerBytes
}

// etagOf identifies the answer to a request about an ended session: it changes with everything that the answer depends
// on. Findings show metrics, for which the time of the session's last stored object stands. It is "" for an answer that
// may still change: that of a session that has not ended, and logs and panels, because a worker's collector may store
// the last lines and metrics after the session's end.
func (s *Server) etagOf(r *http.Request, c choice, loaded *session.Session, route string) string {
	if !loaded.Ended() || strings.Contains(route, "/logs") || strings.HasPrefix(route, "/grafana/") ||
		(r.Method != http.MethodGet && r.Method != http.MethodHead) {
		return ""
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %q %q %x %d %d %t %q", s.opts.Version, s.opts.Settings, loaded.Fingerprint(),
		loaded.Contents(), loaded.LastStored().UnixNano(), c.at, dashboard.FromBrowser(r), r.URL.RequestURI())
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:12]) + `"`
}

// clientHas says whether the client has the answer that etag names.
func clientHas(r *http.Request, etag string) bool {
	return slices.ContainsFunc(strings.Split(r.Header.Get("If-None-Match"), ","), func(have string) bool {
		return strings.TrimPrefix(strings.TrimSpace(have), "W/") == strings.TrimPrefix(etag, "W/")
	})
}
