package dashboard

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/session"
)

// Options configure a Dashboard.
type Options struct {
	Log logrus.FieldLogger
	// GrafanaHost and PrometheusHost are URLs of services that show the stored session's time: RAY_GRAFANA_HOST and
	// RAY_PROMETHEUS_HOST of Ray's dashboard. Where they are empty, their health is Ray's answer for a service it cannot reach.
	GrafanaHost    string
	PrometheusHost string
	// GrafanaIframeHost is Grafana's URL as a browser reaches it, RAY_GRAFANA_IFRAME_HOST; empty means GrafanaHost.
	GrafanaIframeHost string
	// GrafanaClusterFilter, GrafanaOrgID and PrometheusName are RAY_GRAFANA_CLUSTER_FILTER, RAY_GRAFANA_ORG_ID (default 1) and
	// RAY_PROMETHEUS_NAME (default Prometheus).
	GrafanaClusterFilter string
	GrafanaOrgID         string
	PrometheusName       string
	// MaxLimit is the most rows a State API list may be asked for, RAY_MAX_LIMIT_FROM_API_SERVER; 0 means 10,000.
	MaxLimit int
}

// Dashboard answers a Ray dashboard's requests from stored sessions.
type Dashboard struct {
	opts    Options
	derived *derivations
}

// New makes a Dashboard.
func New(opts Options) *Dashboard {
	if opts.MaxLimit == 0 {
		opts.MaxLimit = defaultMaxLimit
	}
	if opts.GrafanaOrgID == "" {
		opts.GrafanaOrgID = "1"
	}
	if opts.PrometheusName == "" {
		opts.PrometheusName = "Prometheus"
	}
	if opts.GrafanaIframeHost == "" {
		opts.GrafanaIframeHost = opts.GrafanaHost
	}
	return &Dashboard{opts: opts, derived: newDerivations()}
}

// Request is a dashboard request with the session it asks.
type Request struct {
	*http.Request
	Session *session.Session
	// At is the moment the answer is to show, Unix nanoseconds; 0 means the session's end (see ParseAt).
	At int64
	// Running says whether the session still runs, so that more of it is being stored; nil means that it does not.
	Running func(context.Context) bool
	// Params are the values of the {names} in the route's path, decoded.
	Params map[string]string

	query url.Values
}

// Query gives the request's decoded query parameters.
func (r *Request) Query() url.Values {
	if r.query == nil {
		r.query = r.URL.Query()
	}
	return r.query
}

// Route is one request a dashboard answers. Path is a template: {name} is one segment, {name:*} the rest of the path.
type Route struct {
	Method string
	Path   string
	Serve  func(http.ResponseWriter, *Request)
}
