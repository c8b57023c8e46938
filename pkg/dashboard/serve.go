package dashboard

import (
	"errors"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// handler answers a request or says why it cannot: an *apiError is the client's, anything else the store's.
type handler func(http.ResponseWriter, *Request) error

// retryAfter is what clients are told to wait, in seconds, when the store could not be read.
const retryAfter = "5"

// answer makes a handler's errors answers.
func (d *Dashboard) answer(h handler) func(http.ResponseWriter, *Request) {
	return func(w http.ResponseWriter, r *Request) {
		err := h(w, r)
		if err == nil || r.Context().Err() != nil {
			return
		}
		var refused *apiError
		if errors.As(err, &refused) {
			writeReply(w, refused.status, refused.text, nil)
			return
		}
		d.opts.Log.WithError(err).WithField("url", r.URL.String()).Error("read stored session")
		w.Header().Set("Retry-After", retryAfter)
		writeReply(w, http.StatusServiceUnavailable, "The stored session could not be read from the object store: "+err.Error()+". Try again.", nil)
	}
}

// Routes lists everything a dashboard answers.
func (d *Dashboard) Routes() []Route {
	var routes []Route
	get := func(path string, h handler) {
		serve := d.answer(h)
		routes = append(routes, Route{http.MethodGet, path, serve}, Route{http.MethodHead, path, serve})
	}
	get("/nodes", d.nodes)
	get("/nodes/{node_id}", d.node)
	get("/logical/actors", d.logicalActors)
	get("/logical/actors/{actor_id}", d.logicalActor)
	get("/api/cluster_status", d.clusterStatus)
	get("/api/jobs/", d.jobs)
	get("/api/jobs/{job_or_submission_id}", d.job)
	get("/api/jobs/{job_or_submission_id}/logs", d.jobLogs)
	routes = append(routes, Route{http.MethodGet, "/api/jobs/{job_or_submission_id}/logs/tail", d.answer(d.jobLogTail)})
	get("/api/component_activities", d.componentActivities)
	get("/events", d.events)

	get("/api/v0/actors", d.list(actorColumns, d.actorRows))
	get("/api/v0/actors/summarize", d.summarizeActors)
	get("/api/v0/nodes", d.list(nodeColumns, d.nodeRows))
	get("/api/v0/jobs", d.list(jobColumns, d.jobRows))
	get("/api/v0/workers", d.list(workerColumns, d.workerRows))
	get("/api/v0/placement_groups", d.list(placementGroupColumns, d.placementGroupRows))
	get("/api/v0/objects", d.list(objectColumns, d.objectRows))
	get("/api/v0/objects/summarize", d.summarizeObjects)
	get("/api/v0/runtime_envs", d.list(runtimeEnvColumns, d.runtimeEnvRows))
	get("/api/v0/cluster_events", d.list(clusterEventColumns, d.clusterEventRows))
	get("/api/v0/logs", d.logList)
	get("/api/v0/logs/{media_type}", d.logFile)

	for path, h := range d.savedRoutes() {
		get(path, h)
	}
	get("/api/grafana_health", d.grafanaHealth)
	get("/api/prometheus_health", d.prometheusHealth)
	d.grafanaRoutes(get)
	for _, path := range []string{"/api/gcs_healthz", "/api/healthz", "/api/local_raylet_healthz"} {
		get(path, healthy)
	}
	routes = append(routes, refusedRoutes()...)
	return append(routes, d.taskRoutes()...)
}

// healthy answers a health check: a stored session is always well.
func healthy(w http.ResponseWriter, _ *Request) error {
	write(w, http.StatusOK, "application/text; charset=utf-8", []byte("success"))
	return nil
}

// refusedRoutes are the requests that would change a cluster or look into its processes.
func refusedRoutes() []Route {
	var routes []Route
	refuse := func(method, path, what string) {
		routes = append(routes, Route{method, path, func(w http.ResponseWriter, _ *Request) {
			w.Header().Set("Allow", "GET, HEAD")
			writeText(w, http.StatusMethodNotAllowed, "This is a stored session of a Ray cluster, not a running one: "+what+".")
		}})
	}
	const jobs, serve = "its jobs can be read, not changed", "its Serve applications can be read, not changed"
	refuse(http.MethodPost, "/api/jobs/", jobs)
	refuse(http.MethodPost, "/api/jobs/{job_or_submission_id}/stop", jobs)
	refuse(http.MethodDelete, "/api/jobs/{job_or_submission_id}", jobs)
	refuse(http.MethodPut, "/api/packages/{protocol}/{package_name}", "packages cannot be uploaded")
	refuse(http.MethodPut, "/api/serve/applications/", serve)
	refuse(http.MethodDelete, "/api/serve/applications/", serve)
	refuse(http.MethodPost, "/api/v1/applications/{application_name}/deployments/{deployment_name}/scale", serve)
	refuse(http.MethodPost, "/report_events", "it takes no events")
	for _, path := range []string{
		"/task/traceback", "/task/cpu_profile", "/worker/traceback", "/worker/cpu_profile", "/worker/gpu_profile", "/worker/jax_profile",
		"/memory_profile",
	} {
		refuse(http.MethodGet, path, "its processes are gone and cannot be profiled")
	}
	return routes
}

// reply sends data as the value of one key in Ray's envelope.
func reply(w http.ResponseWriter, msg string, keysAndValues ...any) error {
	writeReply(w, http.StatusOK, msg, pyjson.Obj(keysAndValues...))
	return nil
}
