package dashboard

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// disabled as the Grafana host hides all metrics in Ray's frontend.
const disabled = "DISABLED"

// dashboardUIDs are those that Ray gives its Grafana dashboards (ray/dashboard/modules/metrics/dashboards).
var dashboardUIDs = pyjson.Obj(
	"default", "rayDefaultDashboard", "serve", "rayServeDashboard", "serve_deployment", "rayServeDeploymentDashboard",
	"serve_llm", "rayServeLlmDashboard", "serve_llm_sglang", "rayServeLlmSglangDashboard", "data", "rayDataDashboard",
	"data_llm", "rayDataLlmDashboard", "train", "rayTrainDashboard",
)

// grafanaHealth is /api/grafana_health (ray/dashboard/modules/metrics/metrics_head.py). Whether the configured Grafana answers is for the
// browser to see: it may reach it where this server does not.
func (d *Dashboard) grafanaHealth(w http.ResponseWriter, r *Request) error {
	switch d.opts.GrafanaHost {
	case "":
		writeReply(w, http.StatusInternalServerError, "Grafana healthcheck failed",
			pyjson.Obj("exception", "No Grafana is configured for stored sessions: set RAY_GRAFANA_HOST on the history server."))
		return nil
	case disabled:
		return reply(w, "Grafana disabled", "grafanaHost", disabled)
	}
	return reply(w, "Grafana running", "grafanaHost", d.grafanaHost(), "grafanaOrgId", d.opts.GrafanaOrgID,
		"sessionName", r.Session.Ref.Name, "dashboardUids", googleStyle(dashboardUIDs), "dashboardDatasource", d.opts.PrometheusName,
		"grafanaClusterFilter", nullable(d.opts.GrafanaClusterFilter))
}

// prometheusHealth is /api/prometheus_health.
func (d *Dashboard) prometheusHealth(w http.ResponseWriter, _ *Request) error {
	if d.opts.PrometheusHost == "" {
		writeReply(w, http.StatusInternalServerError, "prometheus healthcheck failed.",
			pyjson.Obj("reason", "No Prometheus is configured for stored sessions: set RAY_PROMETHEUS_HOST on the history server."))
		return nil
	}
	return reply(w, "prometheus running")
}
