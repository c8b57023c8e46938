package cluster

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Answers about the whole cluster come from snapshots; without a snapshot each has a sensible default.
var (
	Version    = request.SavedOr("/api/version", unsavedVersion)
	RayVersion = request.SavedOr("/api/ray/version", unsavedVersion)
	Timezone   = request.SavedOr("/timezone", request.Constant(pyjson.Obj("offset", "+00:00", "value", "Europe/London")))
	ID         = request.SavedOr("/cluster_id", func(r *request.Request) (any, error) {
		id, err := loggedClusterID(r)
		return reply.Success("Fetched cluster id", pyjson.Obj("clusterId", id)), err
	})
	UsageStats = request.SavedOr("/usage_stats_enabled", request.Constant(
		reply.Success("Fetched usage stats enabled", pyjson.Obj("usageStatsEnabled", false, "usageStatsPromptEnabled", true))))
	Metadata = request.SavedOr("/api/v0/cluster_metadata", func(r *request.Request) (any, error) {
		build, err := readBuild(r)
		return reply.Success("", pyjson.Obj("rayVersion", build.version, "pythonVersion", build.python, "rayInitCluster", false)), err
	})
	RuntimeEnvRedaction = since(59, "/api/v0/runtime_env_redaction", reply.Success("", pyjson.Obj("redactionEnabled", true)))
	ProfilingEnabled    = since(56, "/api/profiling_enabled", profilingOff())
)

// since is request.SavedOr for a route that Ray has from 2.minor on.
func since(minor int, url string, otherwise any) request.Handler {
	return func(w http.ResponseWriter, r *request.Request) error {
		old, err := OlderThan(r, minor)
		if err != nil {
			return err
		}
		if old {
			return reply.Text(w, http.StatusNotFound, request.NoSuchRoute)
		}
		return request.SavedOr(url, request.Constant(otherwise))(w, r)
	}
}

// apiVersion is the version of Ray's job API (CURRENT_VERSION in ray/dashboard/modules/version.py).
const apiVersion = "4"

// unsavedVersion is /api/version without a snapshot of it.
func unsavedVersion(r *request.Request) (any, error) {
	build, err := readBuild(r)
	return pyjson.Obj("version", apiVersion, "ray_version", build.version, "ray_commit", build.commit, "session_name", r.Session.Ref.Name), err
}

// profilingOff is what Ray 2.60 answers with nothing configured: there is nothing to profile in a stored session.
func profilingOff() any {
	return reply.Success("", pyjson.Obj("profilingEnabled", false, "profilingDefaults", pyjson.Obj(
		"native", false, "subprocesses", false, "idle", false, "leaks", false, "tracePythonAllocators", false, "cpuDuration", 5,
		"memoryDuration", 10, "maxDuration", 60, "cpuFormat", "flamegraph", "memoryFormat", "flamegraph", "pyspyNativeSupported", true)))
}

// AuthenticationMode is /api/authentication_mode: a stored session asks for no Ray token, even if its cluster did.
func AuthenticationMode(w http.ResponseWriter, _ *request.Request) error {
	return reply.JSON(w, http.StatusOK, pyjson.Obj("authentication_mode", "disabled"))
}

// Healthy answers a health check: a stored session is always healthy.
func Healthy(w http.ResponseWriter, _ *request.Request) error {
	return reply.Bytes(w, http.StatusOK, "application/text; charset=utf-8", []byte("success"))
}
