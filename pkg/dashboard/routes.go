package dashboard

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/logs"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
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
		{"/nodes", weighed(allNodes, nodesAndWorkers, "/nodes")},
		{"/nodes/{node_id}", weighed(oneNode, nodesAndWorkers, "/nodes")},
		{"/logical/actors", weighed(allActors, actorCount, "/logical/actors")},
		{"/logical/actors/{actor_id}", weighed(oneActor, actorCount, "/logical/actors")},
		{"/events", weighed(allEvents, noRows, "/events")},
		{"/api/v0/platform_events", weighed(platformEvents, platformWeight, "/api/v0/platform_events")},

		{"/api/jobs/", weighed(allJobs, jobCount, "/api/jobs")},
		{"/api/jobs/{job_or_submission_id}", weighed(oneJob, jobCount, "/api/jobs")},
		{"/api/jobs/{job_or_submission_id}/logs", logs.Job},
		{"/api/jobs/{job_or_submission_id}/logs/tail", logs.JobTail},
		{"/api/component_activities", activities},

		// The State API: lists with filters, and summaries.
		{"/api/v0/actors", weighed(stateList(actorRows), actorCount, "/logical/actors", "/api/v0/actors")},
		{"/api/v0/actors/summarize", weighed(stateSummary(actorRows, countActors), actorCount, "/logical/actors", "/api/v0/actors")},
		{"/api/v0/cluster_events", stateList(eventRows)},
		{"/api/v0/jobs", weighed(stateList(jobRows), jobCount, "/api/jobs", "/api/v0/jobs")},
		{"/api/v0/nodes", weighed(stateList(nodeRows), nodeCount, "/nodes", "/api/v0/nodes")},
		{"/api/v0/objects", weighed(stateList(objectRows), noRows, "/api/v0/objects")},
		{"/api/v0/objects/summarize", weighed(stateSummary(objectRows, countObjects), noRows, "/api/v0/objects")},
		{"/api/v0/placement_groups", weighed(stateList(groupRows), groupsAndBundles, "/api/v0/placement_groups")},
		{"/api/v0/runtime_envs", weighed(stateList(runtimeEnvRows), nodeCount, "/api/v0/runtime_envs")},
		{"/api/v0/tasks", listTasks},
		{"/api/v0/tasks/summarize", summarizeTasks},
		{"/api/v0/tasks/timeline", taskTimeline},
		{"/api/v0/workers", weighed(stateList(workerRows), workersAndLogs, "/api/v0/workers")},

		{"/api/v0/logs", logs.List},
		{"/api/v0/logs/{media_type}", logs.File},

		{"/api/serve/applications/", serveApplications},
		{"/api/data/datasets/{job_id}", dataLibrary{Metrics: d.opts.Metrics}.Datasets},
		{"/api/train/v2/runs", trainRuns("/api/train/v2/runs")},
		{"/api/train/v2/runs/v1", trainRuns("/api/train/v2/runs/v1")},

		{"/api/cluster_status", clusterStatus},
		{"/api/v0/cluster_metadata", clusterMetadata},
		{"/api/version", version},
		{"/api/ray/version", rayVersion},
		{"/timezone", timezone},
		{"/cluster_id", clusterID},
		{"/usage_stats_enabled", usageStats},
		{"/api/v0/runtime_env_redaction", runtimeEnvRedaction},
		{"/api/profiling_enabled", profilingEnabled},
		{"/api/authentication_mode", authenticationMode},
		{"/api/healthz", healthy},
		{"/api/gcs_healthz", healthy},
		{"/api/local_raylet_healthz", healthy},

		{"/api/prometheus/sd", prometheusTargets},
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
		all = append(all, Route{Method: http.MethodGet, Path: known.path, Serve: d.answer(known.handle)})
	}
	all = append(all, Route{
		Method: http.MethodGet, Path: "/api/history/findings", Own: true, Params: findings.Params, Serve: d.answer(d.answerFindings),
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
