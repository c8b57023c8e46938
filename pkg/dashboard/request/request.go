// Package request holds everything that handlers need to know about one request for a stored session: the session at a moment, parameters parsed
// as Python does, and which secrets the client may see.
package request

import (
	"context"
	"net/http"
	"net/url"

	"github.com/rayhistory/historyserver/pkg/moment"
)

// Handler answers a request or says why it cannot: a *reply.Error is the client's fault, any other error the store's.
type Handler func(http.ResponseWriter, *Request) error

// Request is a dashboard request with its session.
type Request struct {
	*http.Request
	// Moment is what the answer is to show. The dashboard sets its Env.
	moment.Moment
	// MaxLimit is the maximum limit of a State API list; set by the dashboard.
	MaxLimit int
	// Params are the values of the {names} in the route's path, decoded.
	Params map[string]string

	query url.Values
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
