// Package metrics tells Ray's frontend where Grafana and Prometheus are (ray/dashboard/modules/metrics).
package metrics

import (
	"cmp"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
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
	// Page answers with the page of a dashboard by Ray's name for it, such as "serve_deployment", or of one panel of it.
	Page(w http.ResponseWriter, r *request.Request, dashboard string, onePanel bool) error
}

// Services are the services that show a session's metrics.
type Services struct {
	// GrafanaHost and PrometheusHost are URLs of services that show the stored session's time: RAY_GRAFANA_HOST and RAY_PROMETHEUS_HOST of Ray's
	// dashboard. If they are empty, the health checks give Ray's answer for a service that it cannot reach.
	GrafanaHost    string
	PrometheusHost string
	// GrafanaIframeHost is Grafana's URL as a browser reaches it, RAY_GRAFANA_IFRAME_HOST; empty means GrafanaHost.
	GrafanaIframeHost string
	// GrafanaClusterFilter, GrafanaOrgID and PrometheusName are RAY_GRAFANA_CLUSTER_FILTER, RAY_GRAFANA_ORG_ID (default 1) and
	// RAY_PROMETHEUS_NAME (default Prometheus).
	GrafanaClusterFilter string
	GrafanaOrgID         string
	PrometheusName       string
	// Panels are shown if there is no GrafanaHost; nil: nothing is shown.
	Panels Panels
}

// WithDefaults replaces empty settings by their defaults.
func (s Services) WithDefaults() Services {
	s.GrafanaOrgID = cmp.Or(s.GrafanaOrgID, "1")
	s.PrometheusName = cmp.Or(s.PrometheusName, "Prometheus")
	s.GrafanaIframeHost = cmp.Or(s.GrafanaIframeHost, s.GrafanaHost)
	return s
}

// dashboardUIDs are those that Ray gives its Grafana dashboards (ray/dashboard/modules/metrics/dashboards), by its names for them.
var dashboardUIDs = pyjson.Obj(
	"default", "rayDefaultDashboard", "serve", "rayServeDashboard", "serve_deployment", "rayServeDeploymentDashboard",
	"serve_llm", "rayServeLlmDashboard", "serve_llm_sglang", "rayServeLlmSglangDashboard", "data", "rayDataDashboard",
	"data_llm", "rayDataLlmDashboard", "train", "rayTrainDashboard",
)

// GrafanaHealth is /api/grafana_health (ray/dashboard/modules/metrics/metrics_head.py). It does not ask Grafana: the browser may reach it
// where this server does not.
func (s *Services) GrafanaHealth(w http.ResponseWriter, r *request.Request) error {
	switch {
	case s.GrafanaHost == "" && s.Panels == nil:
		return reply.Envelope(w, http.StatusInternalServerError, "Grafana healthcheck failed", pyjson.Obj("exception", noGrafana))
	case s.GrafanaHost == disabled:
		return reply.OK(w, "Grafana disabled", "grafanaHost", disabled)
	}
	return reply.OK(w, "Grafana running", "grafanaHost", s.grafanaHost(), "grafanaOrgId", s.GrafanaOrgID,
		"sessionName", r.Session.Ref.Name, "dashboardUids", reply.GoogleStyle(dashboardUIDs), "dashboardDatasource", s.PrometheusName,
		"grafanaClusterFilter", reply.Nullable(s.GrafanaClusterFilter))
}

// PrometheusHealth is /api/prometheus_health.
func (s *Services) PrometheusHealth(w http.ResponseWriter, _ *request.Request) error {
	if s.PrometheusHost == "" && s.Panels == nil {
		return reply.Envelope(w, http.StatusInternalServerError, "prometheus healthcheck failed.", pyjson.Obj("reason", noPrometheus))
	}
	return reply.OK(w, "prometheus running")
}

// PrometheusTargets is /api/prometheus/sd: where the cluster's processes offered metrics.
var PrometheusTargets = request.SavedThenOr("/api/prometheus/sd", request.Constant([]any{}))
