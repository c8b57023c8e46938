package dashboard

import (
	"fmt"
	"net/http"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// route is a request that is answered from the session, and its handler.
type route struct {
	path   string
	handle handler
}

// routes are the paths of Ray's dashboard that are answered, for GET and HEAD, with their handlers. For large
// answers memory is reserved first, see withMemory.
func (d *Dashboard) routes() []route {
	m := &d.opts.Services
	return []route{
		{"/nodes", withMemory(allNodes, nodesAndWorkers, "/nodes")},
		{"/nodes/{node_id}", withMemory(oneNode, nodesAndWorkers, "/nodes")},
		{"/logical/actors", withMemory(allActors, actorCount, "/logical/actors")},
		{"/logical/actors/{actor_id}", withMemory(oneActor, actorCount, "/logical/actors")},
		{"/events", withEventMemory(clusterEvents, "/events")},
		{"/api/v0/platform_events", withMemory(platformEvents, platformRowCount, "/api/v0/platform_events")},

		{"/api/jobs/", withMemory(answerJobs, jobCount, "/api/jobs")},
		{"/api/jobs/{job_or_submission_id}", withMemory(answerJobs, jobCount, "/api/jobs")},
		{"/api/jobs/{job_or_submission_id}/logs", jobLog},
		{"/api/jobs/{job_or_submission_id}/logs/tail", jobLogTail},
		{"/api/component_activities", componentActivities},

		// The State API: lists with filters, and summaries.
		{"/api/v0/actors", withMemory(rowsOf(actorRows).listHandler, actorCount, "/logical/actors", "/api/v0/actors")},
		{"/api/v0/actors/summarize", withMemory(rowsOf(actorRows).summaryHandler(countActors), actorCount,
			"/logical/actors", "/api/v0/actors")},
		{"/api/v0/cluster_events", withEventMemory(rowsOf(eventRows).listHandler)},
		{"/api/v0/jobs", withMemory(rowsOf(jobRows).listHandler, jobCount, "/api/jobs", "/api/v0/jobs")},
		{"/api/v0/nodes", withMemory(rowsOf(nodeRows).listHandler, nodeCount, "/nodes", "/api/v0/nodes")},
		{"/api/v0/objects", withMemory(rowsOf(objectRows).listHandler, noRows, "/api/v0/objects")},
		{"/api/v0/objects/summarize", withMemory(rowsOf(objectRows).summaryHandler(countObjects), noRows,
			"/api/v0/objects")},
		{"/api/v0/placement_groups", withMemory(rowsOf(groupRows).listHandler, groupsAndBundles,
			"/api/v0/placement_groups")},
		{"/api/v0/runtime_envs", withMemory(rowsOf(runtimeEnvRows).listHandler, nodeCount, "/api/v0/runtime_envs")},
		{"/api/v0/tasks", listTasks},
		{"/api/v0/tasks/summarize", summarizeTasks},
		{"/api/v0/tasks/timeline", taskTimeline},
		{"/api/v0/workers", withMemory(rowsOf(workerRows).listHandler, workersAndLogs, "/api/v0/workers")},

		{"/api/v0/logs", listLogs},
		{"/api/v0/logs/{media_type}", oneLog},

		{"/api/serve/applications/", serveApplications},
		{"/api/data/datasets/{job_id}", withCopyMemory(d.datasets, datasetsURL)},
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
		{"/api/prometheus_health", m.prometheusHealth},
		{"/api/grafana_health", m.grafanaHealth},
		{"/grafana/d/{dashboard:*}", m.grafanaView("d")},
		{"/grafana/d-solo/{dashboard:*}", m.grafanaView("d-solo")},
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

// Routes lists everything a dashboard answers: Ray's paths, our own, and those that are refused.
func (d *Dashboard) Routes() []Route {
	var all []Route
	for _, known := range d.routes() {
		all = append(all, Route{Method: http.MethodGet, Path: known.path, Serve: d.answerErrors(known.handle)})
	}
	all = append(all, Route{
		Method: http.MethodGet, Path: "/api/history/findings", Own: true, Params: findings.Params,
		Serve: d.answerErrors(d.answerFindings),
	}, Route{
		Method: http.MethodGet, Path: "/api/history/timeline", Own: true, Params: barsParams,
		Serve: d.answerErrors(answerBars),
	})
	for _, known := range refusals {
		all = append(all, Route{Method: known.method, Path: known.path, Serve: known.refuse})
	}
	return all
}

// refuse answers 405 and says why a stored session cannot do what was requested.
func (r refusal) refuse(w http.ResponseWriter, _ *Request) {
	w.Header().Set("Allow", "GET, HEAD")
	writeText(w, http.StatusMethodNotAllowed, "This is a stored session of a Ray cluster, not a running one: "+r.reason+
		".")
}

// Answers about all actors, nodes and so on of a session are built in memory, from snapshots and tables, before
// anything is sent. Their memory is reserved first. Small answers are not counted.

const (
	// rowBytes is about the memory of one row while it is built; textTimes is how many times its text a parsed snapshot
	// takes.
	rowBytes  = 2 << 10
	textTimes = 3
	// littleBytes is the size up to which an answer is small.
	littleBytes = 1 << 20
)

// withMemory is the handler h, which runs once memory for its answer is reserved. rows says how many rows the answer
// may have; saved are the paths of the snapshots that it reads.
func withMemory(h handler, rows func(*session.Session) int, saved ...string) handler {
	return func(w http.ResponseWriter, r *Request) error {
		bytes := int64(rows(r.Session)) * rowBytes
		for _, path := range saved {
			bytes += r.Session.Snapshots.LargestOf(path) * textTimes
		}
		if bytes > littleBytes {
			release, err := r.Memory.Reserve(r.Context(), budget.Work, bytes)
			if err != nil {
				return fmt.Errorf("answer from %s: %w", r.Session.Ref, err)
			}
			defer release()
		}
		return h(w, r)
	}
}

// withEventMemory is withMemory for answers that copy each cluster event: an event may be much longer than a row.
func withEventMemory(h handler, saved ...string) handler {
	return func(w http.ResponseWriter, r *Request) error {
		events, err := r.ClusterEvents(r.Context())
		if err != nil {
			return err
		}
		var bytes int64
		for _, event := range events {
			bytes += max(rowBytes, pyjson.CopyBytes(event))
		}
		return withMemory(h, func(*session.Session) int { return int(bytes / rowBytes) }, saved...)(w, r)
	}
}

// withCopyMemory is withMemory for an answer that is saved at a URL. What it was at a moment before it was saved is a
// copy.
func withCopyMemory(h handler, url func(*Request) string) handler {
	return func(w http.ResponseWriter, r *Request) error {
		then, _, err := r.SavedThen(r.Context(), url(r))
		if r.At == moment.AtEnd || then != nil || err != nil {
			return h(w, r)
		}
		saved, _, err := r.Saved(r.Context(), url(r))
		if err != nil {
			return err
		}
		rows := int(pyjson.CopyBytes(saved) / rowBytes)
		return withMemory(h, func(*session.Session) int { return rows })(w, r)
	}
}

func noRows(*session.Session) int            { return 0 }
func nodeCount(s *session.Session) int       { return len(s.Nodes) }
func nodesAndWorkers(s *session.Session) int { return len(s.Nodes) + len(s.Workers) }

// actorCount returns as how many rows the actors count: rows have the causes of their deaths, which are JSON.
func actorCount(s *session.Session) int {
	bytes := 0
	for i := range s.Actors {
		for _, t := range s.Actors[i].Transitions {
			bytes += parsedBytes(t.DeathCause)
		}
	}
	return len(s.Actors) + bytes/rowBytes
}

// jobCount returns as how many rows the jobs count: rows have their runtime environments, which are JSON.
func jobCount(s *session.Session) int {
	bytes := 0
	for i := range s.Jobs {
		bytes += parsedBytes(s.Jobs[i].RuntimeEnv)
	}
	for i := range s.Submissions {
		bytes += parsedBytes(s.Submissions[i].RuntimeEnv)
	}
	return len(s.Jobs) + len(s.Submissions) + bytes/rowBytes
}

// parsedBytes estimates the memory that a JSON text takes at most when it is parsed: for [{},{},… that is some thirty
// times as much as the text.
func parsedBytes[T string | []byte](text T) int {
	const member = 160
	parts := 0
	for i := range len(text) {
		if c := text[i]; c == '{' || c == '[' || c == ',' {
			parts++
		}
	}
	return 2*len(text) + member*parts
}

// platformRowCount returns as how many rows the events of the platform count: the answer has each message twice, and a
// message may be much longer than a row.
func platformRowCount(s *session.Session) int {
	var bytes int64
	for i := range s.PlatformEvents {
		bytes += rowBytes + 2*entities.MemoryBytes(&s.PlatformEvents[i])
	}
	return int(bytes / rowBytes)
}

// logsOfWorker is how many logs each worker leaves: its own, and those of what it prints.
const logsOfWorker = 3

// workersAndLogs counts the workers that events or only the names of logs tell of.
func workersAndLogs(s *session.Session) int {
	logs := 0
	for _, node := range s.Logs.Nodes() {
		logs += len(s.Logs.Paths(node))
	}
	return len(s.Workers) + logs/logsOfWorker
}

// groupsAndBundles counts the placement groups and their bundles: an answer has both.
func groupsAndBundles(s *session.Session) int {
	n := len(s.PlacementGroups)
	for i := range s.PlacementGroups {
		n += len(s.PlacementGroups[i].Bundles)
	}
	return n
}
