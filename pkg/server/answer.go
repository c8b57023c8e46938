package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// answer serves a route of the dashboard from the chosen session.
func (s *Server) answer(route dashboard.Route) handler {
	return func(w http.ResponseWriter, r *request) error {
		c, err := choose(r)
		if err != nil {
			return err
		}
		if answered, err := s.passOn(w, r, c); answered || err != nil {
			return err
		}
		entry, loaded, release, err := s.load(r.Context(), c, s.opts.LoadWait)
		if err != nil {
			return err
		}
		defer release()
		if etag := s.etag(r.Request, c, loaded, route.Path); matches(r.Request, etag) {
			w.Header().Set("ETag", etag)
			w.WriteHeader(http.StatusNotModified)
			return nil
		} else if etag != "" {
			w = &writer.Tagged{ResponseWriter: w, ETag: etag}
		}
		releaseMemory, err := s.opts.Memory.Reserve(r.Context(), budget.Answer, answerBytes(route.Path))
		if err != nil {
			return err
		}
		defer releaseMemory()
		asked := &dashboard.Request{Request: r.Request, Params: r.params, Moment: moment.Moment{
			Session: loaded, At: c.at, Began: entry.Start, Ended: entry.End, RayVersion: entry.RayVersion,
		}}
		if entry.Running && c.at == 0 {
			asked.Running = s.stillRuns(entry.Ref)
		}
		route.Serve(w, asked)
		return nil
	}
}

// load finds and loads a chosen session, for which it waits so long at most.
func (s *Server) load(ctx context.Context, c choice, wait time.Duration) (e catalog.Entry, loaded *session.Session,
	release func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, problem.ErrWaited)
	defer cancel()
	if e, err = s.sessions.Find(ctx, c.selector); err != nil {
		return e, nil, nil, err
	}
	loaded, release, err = s.opts.Sessions.Get(ctx, e.Ref)
	if errors.Is(err, problem.ErrWaited) {
		err = loadingProblem(s.opts.Sessions.Status(e.Ref))
	}
	if err == nil {
		if err = notBeforeStart(c.at, e, loaded); err != nil {
			release()
		}
	}
	return e, loaded, release, err
}

// notBeforeStart refuses a moment before the session's start: the answer would look like that of an empty cluster. It
// refuses nothing if the start is not known. People give moments in whole seconds.
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

// stillRuns returns a function that says whether more of a session is being stored at the time of the call.
func (s *Server) stillRuns(ref layout.Session) func(context.Context) bool {
	selector := catalog.Selector{Namespace: ref.Namespace, Name: ref.Cluster, Session: ref.Name}
	return func(ctx context.Context) bool {
		e, err := s.sessions.Find(ctx, selector)
		return err == nil && e.Running
	}
}

const (
	// usualAnswerBytes is the memory of an answer that is written as a stream: its own buffers, the compression's and
	// the connection's.
	usualAnswerBytes = 128 << 10
	// logAnswerBytes is the memory of an answer that copies a log. One that follows a log may hold it for hours.
	logAnswerBytes = 64 << 10
)

// answerBytes estimates the memory of an answer of a route.
func answerBytes(route string) int64 {
	if strings.Contains(route, "/logs") {
		return logAnswerBytes
	}
	return usualAnswerBytes
}
