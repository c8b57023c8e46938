// Package request holds everything that handlers need to know about one request for a stored session: the session and the moment, the
// snapshots, values that earlier requests computed for the session, parameters parsed as Python does, and which secrets the client may see.
package request

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/budget"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Handler answers a request or says why it cannot: a *reply.Error is the client's fault, any other error the store's.
type Handler func(http.ResponseWriter, *Request) error

// Env is what all requests share.
type Env struct {
	Log logrus.FieldLogger
	// Memory bounds the memory of answers that are built in memory; nil means no bounds.
	Memory *budget.Budget
	// MaxLimit is the maximum limit of a State API list.
	MaxLimit int
	derived  *derivations
}

// NewEnv makes an Env with nothing derived yet.
func NewEnv(log logrus.FieldLogger, memory *budget.Budget, maxLimit int) *Env {
	return &Env{Log: log, Memory: memory, MaxLimit: maxLimit, derived: newDerivations()}
}

// Request is a dashboard request with its session.
type Request struct {
	*http.Request
	*Env    // set by the dashboard
	Session *session.Session
	// At is the moment the answer is to show, Unix nanoseconds; 0 means the session's end (see dashboard.ParseAt).
	At int64
	// Began and Ended are the session's begin and end in the list of sessions; zero: not known.
	Began, Ended time.Time
	// RayVersion is the session's in the list of sessions, "" if it is not known.
	RayVersion string
	// Running says whether the session still runs, so that more of it is being stored; nil means that it does not.
	Running func(context.Context) bool
	// Params are the values of the {names} in the route's path, decoded.
	Params map[string]string

	query url.Values
}

// With returns the request with another context, for results that other requests share.
func (r *Request) With(ctx context.Context) *Request {
	c := *r
	c.Request = r.Request.WithContext(ctx)
	return &c
}

// Stop returns why the request's work should end: no client waits for it any more.
func (r *Request) Stop() error { return context.Cause(r.Context()) }

// Query returns the request's decoded query parameters.
func (r *Request) Query() url.Values {
	if r.query == nil {
		r.query = r.URL.Query()
	}
	return r.query
}

// Life returns when the session began and when it ended, up to the requested moment. Its events may begin before and end after the times in the
// list of sessions.
func (r *Request) Life() (begin, end time.Time) {
	begin, end = r.Began, r.Ended
	if first := time.Unix(0, r.Session.Start); r.Session.Start != 0 && (begin.IsZero() || first.Before(begin)) {
		begin = first
	}
	if last := time.Unix(0, r.Session.End); r.Session.End != 0 && last.After(end) {
		end = last
	}
	switch {
	case r.At != 0:
		end = time.Unix(0, r.At)
	case end.IsZero() || r.Running != nil && r.Running(r.Context()):
		end = time.Now()
	}
	if begin.IsZero() || begin.After(end) {
		begin = end.Add(-time.Hour)
	}
	return begin, end
}
