package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Options configure a Dashboard.
type Options struct {
	Log logrus.FieldLogger
	Services
	// MaxLimit is the maximum limit of a State API list, RAY_MAX_LIMIT_FROM_API_SERVER; 0 means 10,000.
	MaxLimit int
	// Metrics are the sessions' stored metrics; nil: there are none.
	Metrics moment.Metrics
	// KeptFindings opens a session's kept findings, see findings.Reader; nil: none are kept.
	KeptFindings func(ctx context.Context, ref layout.Session, n int64) (io.ReadCloser, error)
	// Memory bounds the memory of answers that are built in memory; nil means no bounds.
	Memory *budget.Budget
}

// Dashboard answers a Ray dashboard's requests from stored sessions.
type Dashboard struct {
	opts Options
	env  *moment.Env
}

// New makes a Dashboard.
func New(opts Options) *Dashboard {
	opts.MaxLimit = cmp.Or(opts.MaxLimit, request.DefaultMaxLimit)
	opts.Services = opts.Services.WithDefaults()
	return &Dashboard{opts: opts, env: moment.NewEnv(opts.Log, opts.Memory)}
}

// Settings identifies the options that answers depend on, besides the session and the request.
func (d *Dashboard) Settings() string {
	o := d.opts
	return fmt.Sprintf("%q", []string{
		o.GrafanaHost, o.PrometheusHost, o.GrafanaIframeHost, o.GrafanaClusterFilter, o.GrafanaOrgID, o.PrometheusName, strconv.Itoa(o.MaxLimit),
		strconv.FormatBool(o.Panels != nil),
	})
}

// Request is a request with the session and the moment that it asks about.
type Request = request.Request

// Route is a request that a dashboard answers. Path is a template: {name} is one segment, {name:*} the rest of the path.
type Route struct {
	Method string
	Path   string
	Own    bool // a Ray dashboard does not have it
	// Params are the parameters that a route of our own takes besides the moment.
	Params []string
	Serve  func(http.ResponseWriter, *Request)
}

// ParseAt reads a moment as users give it: RFC 3339, or Unix milliseconds. The empty string is 0, the session's end.
func ParseAt(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if ms <= 0 || ms > math.MaxInt64/int64(time.Millisecond) {
			return 0, &param.Error{Name: "at", Value: s, Want: "Unix milliseconds above 0"}
		}
		return ms * int64(time.Millisecond), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, &param.Error{Name: "at", Value: s, Want: "a time in RFC 3339 (2026-11-20T23:20:00Z) or in Unix milliseconds"}
	}
	if y := t.Year(); y < 1971 || y > 2200 {
		return 0, &param.Error{Name: "at", Value: s, Want: "a time between the years 1971 and 2200"}
	}
	return t.UnixNano(), nil
}

// retryAfter is the Retry-After of answers when the store could not be read, in seconds.
const retryAfter = "5"

// answer runs a handler and turns its error into an answer.
func (d *Dashboard) answer(h request.Handler) func(http.ResponseWriter, *request.Request) {
	return func(w http.ResponseWriter, r *request.Request) {
		r.Env, r.MaxLimit = d.env, d.opts.MaxLimit
		if request.FromBrowser(r.Request) {
			w = &reply.Finite{ResponseWriter: w}
		}
		err := h(w, r)
		if err == nil || r.Context().Err() != nil {
			return
		}
		var refused *reply.Error
		if errors.As(err, &refused) {
			reply.Envelope(w, refused.Status, refused.Text, pyjson.Obj("result", nil)) // the State API's
			return
		}
		if errors.Is(err, budget.ErrTooLarge) {
			reply.Envelope(w, http.StatusServiceUnavailable, sentence(err)+" Ask for less, by a filter or a limit, or raise --max-answer-memory.", nil)
			return
		}
		w.Header().Set("Retry-After", retryAfter)
		if errors.Is(err, budget.ErrBusy) {
			reply.Envelope(w, http.StatusServiceUnavailable, sentence(err)+" Try again in some seconds.", nil)
			return
		}
		r.Log.WithError(err).WithField("url", r.URL.String()).Error("read stored session")
		reply.Envelope(w, http.StatusServiceUnavailable, "The stored session could not be read from the object store: the history server's log has the error. Try again.", nil)
	}
}

// sentence writes an error's text as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
