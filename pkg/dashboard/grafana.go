package dashboard

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// disabled as the Grafana host hides all metrics in Ray's frontend.
const disabled = "DISABLED"

const (
	noGrafana    = "No Grafana is configured for stored sessions: set RAY_GRAFANA_HOST on the history server."
	noPrometheus = "No Prometheus is configured for stored sessions: set RAY_PROMETHEUS_HOST on the history server."
)

// Panels shows a session's stored metrics where no Grafana is configured.
type Panels interface {
	// Page answers with the page of a dashboard by Ray's name for it, such as "serve_deployment", or of one panel of
	// it.
	Page(w http.ResponseWriter, r *Request, dashboard string, onePanel bool) error
}

// Services are the services that show a session's metrics.
type Services struct {
	// GrafanaHost and PrometheusHost are URLs of services that show the stored session's time: RAY_GRAFANA_HOST and
	// RAY_PROMETHEUS_HOST of Ray's dashboard. If they are empty, the health checks give Ray's answer for a service that
	// it cannot reach.
	GrafanaHost    string
	PrometheusHost string
	// GrafanaIframeHost is Grafana's URL as a browser reaches it, RAY_GRAFANA_IFRAME_HOST; empty means GrafanaHost.
	GrafanaIframeHost string
	// GrafanaClusterFilter, GrafanaOrgID and PrometheusName are RAY_GRAFANA_CLUSTER_FILTER, RAY_GRAFANA_ORG_ID (default
	// 1) and RAY_PROMETHEUS_NAME (default Prometheus).
	GrafanaClusterFilter string
	GrafanaOrgID         string
	PrometheusName       string
	// Panels are shown if there is no GrafanaHost; nil: nothing is shown.
	Panels Panels
}

// dashboardUIDs are those that Ray gives its Grafana dashboards (ray/dashboard/modules/metrics/dashboards), by its
// names for them.
var dashboardUIDs = pyjson.Obj(
	"default", "rayDefaultDashboard", "serve", "rayServeDashboard", "serve_deployment", "rayServeDeploymentDashboard",
	"serve_llm", "rayServeLlmDashboard", "serve_llm_sglang", "rayServeLlmSglangDashboard", "data", "rayDataDashboard",
	"data_llm", "rayDataLlmDashboard", "train", "rayTrainDashboard",
)

// grafanaHealth is /api/grafana_health (ray/dashboard/modules/metrics/metrics_head.py). It does not ask Grafana: the
// browser may reach it where this server does not.
func (s *Services) grafanaHealth(w http.ResponseWriter, r *Request) error {
	switch {
	case s.GrafanaHost == "" && s.Panels == nil:
		return writeEnvelope(w, http.StatusInternalServerError, "Grafana healthcheck failed",
			pyjson.Obj("exception", noGrafana))
	case s.GrafanaHost == disabled:
		return writeOK(w, "Grafana disabled", "grafanaHost", disabled)
	}
	return writeOK(w, "Grafana running", "grafanaHost", s.grafanaHost(), "grafanaOrgId", s.GrafanaOrgID,
		"sessionName", r.Session.Ref.Name, "dashboardUids", googleStyle(dashboardUIDs), "dashboardDatasource",
		s.PrometheusName,
		"grafanaClusterFilter", orNone(s.GrafanaClusterFilter))
}

// prometheusHealth is /api/prometheus_health.
func (s *Services) prometheusHealth(w http.ResponseWriter, _ *Request) error {
	if s.PrometheusHost == "" && s.Panels == nil {
		return writeEnvelope(w, http.StatusInternalServerError, "prometheus healthcheck failed.",
			pyjson.Obj("reason", noPrometheus))
	}
	return writeOK(w, "prometheus running")
}

// prometheusTargets is /api/prometheus/sd: where the cluster's processes offered metrics. That changes while a session
// runs, so nothing counts that was saved after the requested moment.
var prometheusTargets = answerSaved((*moment.Moment).SavedThen, "/api/prometheus/sd", alwaysValue([]any{}))

// grafanaPath is the address of Grafana that the frontend gets, relative to the dashboard. The frontend asks for panels
// of the last minutes; grafanaView redirects it to the panels of the session's own time.
const grafanaPath = "grafana"

// grafanaHost is the address of Grafana that the frontend gets. The frontend recognises Grafana Cloud, which can't be
// shown in frames, by the host's name.
func (s *Services) grafanaHost() string {
	if u, err := url.Parse(s.GrafanaIframeHost); err == nil && strings.HasSuffix("."+u.Hostname(), ".grafana.net") {
		return s.GrafanaIframeHost
	}
	return grafanaPath
}

// grafanaView is one of Grafana's views: "d", a dashboard, or "d-solo", a panel. The frontend opens both below
// grafanaPath. It redirects the browser to the configured Grafana; without one it shows the session's own metrics. If
// there is neither, or Grafana is disabled, the answer is 404.
func (s *Services) grafanaView(view string) handler {
	return func(w http.ResponseWriter, r *Request) error {
		if s.GrafanaHost == "" && s.Panels != nil {
			return s.Panels.Page(w, r, dashboardOf(r), view == "d-solo")
		}
		if s.GrafanaHost == "" || s.GrafanaHost == disabled {
			return writeText(w, http.StatusNotFound, noGrafana)
		}
		host, err := url.Parse(s.GrafanaIframeHost) // GrafanaHost unless browsers need another address
		if err != nil {
			return fmt.Errorf("redirect to Grafana: %w", err)
		}
		target := host.JoinPath(view, path.Clean("/"+r.PathValue("dashboard"))) // no dots lead out of the view
		target.RawQuery = sessionQuery(r).Encode()
		redirect(w, r, target.String())
		return nil
	}
}

// dashboardOf returns Ray's name for the dashboard whose UID the request's path contains; "" if it is not one of Ray's.
func dashboardOf(r *Request) string {
	requested, _, _ := strings.Cut(r.PathValue("dashboard"), "/")
	for name, uid := range dashboardUIDs.All() {
		if uid == requested {
			return name
		}
	}
	return ""
}

// sessionQuery returns the request's query for a Grafana that shows the session: with the session's name, and without
// what would refresh the panels. Times relative to now become the session's own beginning and end, or the moment.
func sessionQuery(r *Request) url.Values {
	query := r.Query()
	query.Set("var-SessionName", r.Session.Ref.Name)
	query.Del("refresh")
	from, to := r.Session.Start, r.Session.End
	if r.At > 0 {
		to = r.At
	}
	if isRelative(query.Get("from")) && isRelative(query.Get("to")) && from > 0 && to >= from {
		query.Set("from", milliseconds(from))
		query.Set("to", milliseconds(to))
	}
	return query
}

// isRelative reports whether Grafana counts a time from now, as in "now-5m", or would choose one itself.
func isRelative(t string) bool { return t == "" || strings.HasPrefix(t, "now") }

// milliseconds writes Unix nanoseconds as Grafana wants them.
func milliseconds(ns int64) string { return strconv.FormatInt(ns/int64(time.Millisecond), 10) }

// redirect sends a browser to another address. Ray's proxying dashboard sends a Content-Type with every request, unlike
// browsers, and would follow a redirect itself; it gets a page that redirects the browser at once.
func redirect(w http.ResponseWriter, r *Request, target string) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Header.Get("Content-Type") == "" {
		w.Header().Set("Location", target)
		w.WriteHeader(http.StatusFound)
		return
	}
	writeBytes(w, http.StatusOK, "text/html; charset=utf-8",
		fmt.Appendf(nil, `<!doctype html><meta http-equiv="refresh" content="0; url=%s">`, html.EscapeString(target)))
}
