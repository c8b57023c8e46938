package dashboard

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/actors"
	"github.com/rayhistory/historyserver/pkg/dashboard/cluster"
	"github.com/rayhistory/historyserver/pkg/dashboard/events"
	"github.com/rayhistory/historyserver/pkg/dashboard/jobs"
	"github.com/rayhistory/historyserver/pkg/dashboard/libraries"
	"github.com/rayhistory/historyserver/pkg/dashboard/logs"
	"github.com/rayhistory/historyserver/pkg/dashboard/metrics"
	"github.com/rayhistory/historyserver/pkg/dashboard/nodes"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/dashboard/tasks"
	"github.com/rayhistory/historyserver/pkg/dashboard/workers"
	"github.com/rayhistory/historyserver/pkg/findings"
)

// route is a request that is answered from the session, and its handler.
type route struct {
	path   string
	handle request.Handler
}

// routes are all requests that are answered, each with the package that answers it. HEAD is answered like GET.
func (d *Dashboard) routes() []route {
	m := &d.opts.Services
	return []route{
		{"/nodes", nodes.All},
		{"/nodes/{node_id}", nodes.One},
		{"/logical/actors", actors.All},
		{"/logical/actors/{actor_id}", actors.One},
		{"/events", events.All},
		{"/api/v0/platform_events", events.Platform},

		{"/api/jobs/", jobs.All},
		{"/api/jobs/{job_or_submission_id}", jobs.One},
		{"/api/jobs/{job_or_submission_id}/logs", logs.Job},
		{"/api/jobs/{job_or_submission_id}/logs/tail", logs.JobTail},
		{"/api/component_activities", jobs.Activities},

		// The State API: lists with filters, and summaries.
		{"/api/v0/actors", state.List(actors.Columns, actors.Rows)},
		{"/api/v0/actors/summarize", actors.Summarize},
		{"/api/v0/cluster_events", state.List(events.Columns, events.Rows)},
		{"/api/v0/jobs", state.List(jobs.Columns, jobs.Rows)},
		{"/api/v0/nodes", state.List(nodes.Columns, nodes.Rows)},
		{"/api/v0/objects", state.List(state.ObjectColumns, state.ObjectRows)},
		{"/api/v0/objects/summarize", state.SummarizeObjects},
		{"/api/v0/placement_groups", state.List(state.PlacementGroupColumns, state.PlacementGroupRows)},
		{"/api/v0/runtime_envs", state.List(state.RuntimeEnvColumns, state.RuntimeEnvRows)},
		{"/api/v0/tasks", tasks.List},
		{"/api/v0/tasks/summarize", tasks.Summarize},
		{"/api/v0/tasks/timeline", tasks.Timeline},
		{"/api/v0/workers", state.List(workers.Columns, workers.Rows)},

		{"/api/v0/logs", logs.List},
		{"/api/v0/logs/{media_type}", logs.File},

		{"/api/serve/applications/", libraries.ServeApplications},
		{"/api/data/datasets/{job_id}", libraries.Data{Metrics: d.opts.Metrics}.Datasets},
		{"/api/train/v2/runs", libraries.TrainRuns("/api/train/v2/runs")},
		{"/api/train/v2/runs/v1", libraries.TrainRuns("/api/train/v2/runs/v1")},

		{"/api/cluster_status", cluster.Status},
		{"/api/v0/cluster_metadata", cluster.Metadata},
		{"/api/version", cluster.Version},
		{"/api/ray/version", cluster.RayVersion},
		{"/timezone", cluster.Timezone},
		{"/cluster_id", cluster.ID},
		{"/usage_stats_enabled", cluster.UsageStats},
		{"/api/v0/runtime_env_redaction", cluster.RuntimeEnvRedaction},
		{"/api/profiling_enabled", cluster.ProfilingEnabled},
		{"/api/authentication_mode", cluster.AuthenticationMode},
		{"/api/healthz", cluster.Healthy},
		{"/api/gcs_healthz", cluster.Healthy},
		{"/api/local_raylet_healthz", cluster.Healthy},

		{"/api/prometheus/sd", metrics.PrometheusTargets},
		{"/api/prometheus_health", m.PrometheusHealth},
		{"/api/grafana_health", m.GrafanaHealth},
		{"/grafana/d/{dashboard:*}", m.GrafanaView("d")},
		{"/grafana/d-solo/{dashboard:*}", m.GrafanaView("d-solo")},
	}
}

// refusal is a request that is refused because it would change a cluster or look into its processes.
type refusal struct{ method, path, reason string }

const (
	jobsAreStored  = "its jobs can be read, not changed"
	serveIsStored  = "its Serve applications can be read, not changed"
	processesEnded = "its processes are gone and cannot be profiled"
)

var refusals = []refusal{
	{http.MethodPost, "/api/jobs/", jobsAreStored},
	{http.MethodPost, "/api/jobs/{job_or_submission_id}/stop", jobsAreStored},
	{http.MethodDelete, "/api/jobs/{job_or_submission_id}", jobsAreStored},
	{http.MethodPut, "/api/packages/{protocol}/{package_name}", "packages cannot be uploaded"},
	{http.MethodPut, "/api/serve/applications/", serveIsStored},
	{http.MethodDelete, "/api/serve/applications/", serveIsStored},
	{http.MethodPost, "/api/v1/applications/{application_name}/deployments/{deployment_name}/scale", serveIsStored},
	{http.MethodPost, "/report_events", "it takes no events"},
	{http.MethodGet, "/task/traceback", processesEnded},
	{http.MethodGet, "/task/cpu_profile", processesEnded},
	{http.MethodGet, "/worker/traceback", processesEnded},
	{http.MethodGet, "/worker/cpu_profile", processesEnded},
	{http.MethodGet, "/worker/gpu_profile", processesEnded},
	{http.MethodGet, "/worker/jax_profile", processesEnded},
	{http.MethodGet, "/memory_profile", processesEnded},
}

// Routes lists everything a dashboard answers.
func (d *Dashboard) Routes() []Route {
	var all []Route
	for _, known := range d.routes() {
		all = append(all, Route{Method: http.MethodGet, Path: known.path, Serve: d.answer(d.weighed(known.path, known.handle))})
	}
	const path = "/api/history/findings"
	all = append(all, Route{
		Method: http.MethodGet, Path: path, Own: true, Params: findings.Params, Serve: d.answer(d.weighed(path, d.answerFindings)),
	})
	for _, known := range refusals {
		all = append(all, Route{Method: known.method, Path: known.path, Serve: known.refuse})
	}
	return all
}

func (r refusal) refuse(w http.ResponseWriter, _ *request.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	reply.Text(w, http.StatusMethodNotAllowed, "This is a stored session of a Ray cluster, not a running one: "+r.reason+".")
}
