package dashboard

import (
	"net/http"
	"net/url"
	"time"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// savedRoutes are the requests whose answers only snapshots have, or that have a sensible answer without one.
func (d *Dashboard) savedRoutes() map[string]handler {
	return map[string]handler{
		"/api/version":       savedOr("/api/version", d.version),
		"/api/ray/version":   savedOr("/api/ray/version", d.version),
		"/timezone":          savedOr("/timezone", constant(pyjson.Obj("offset", "+00:00", "value", "Europe/London"))),
		"/api/prometheus/sd": savedOr("/api/prometheus/sd", constant([]any{})),
		"/cluster_id": savedOr("/cluster_id", func(r *Request) (any, error) {
			id, err := d.loggedClusterID(r)
			return success("Fetched cluster id", pyjson.Obj("clusterId", id)), err
		}),
		"/usage_stats_enabled": savedOr("/usage_stats_enabled", constant(
			success("Fetched usage stats enabled", pyjson.Obj("usageStatsEnabled", false, "usageStatsPromptEnabled", true)))),
		"/api/v0/cluster_metadata": savedOr("/api/v0/cluster_metadata", func(r *Request) (any, error) {
			build, err := d.rayBuild(r)
			return success("", pyjson.Obj("rayVersion", build.version, "pythonVersion", build.python, "rayInitCluster", false)), err
		}),
		"/api/v0/runtime_env_redaction": d.since(59, "/api/v0/runtime_env_redaction", success("", pyjson.Obj("redactionEnabled", true))),
		"/api/profiling_enabled":        d.since(56, "/api/profiling_enabled", profilingOff()),
		"/api/authentication_mode":      authenticationMode,
		"/api/serve/applications/":      serveApplications,
		"/api/data/datasets/{job_id}":   datasets,
		"/api/train/v2/runs/v1":         savedOrText("/api/train/v2/runs/v1", http.StatusInternalServerError, noTrainState),
		"/api/train/v2/runs":            savedOrText("/api/train/v2/runs", http.StatusInternalServerError, noTrainState),
		"/api/v0/platform_events":       platformEvents,
	}
}

func constant(v any) func(*Request) (any, error) {
	return func(*Request) (any, error) { return v, nil }
}

// savedOr answers with the last snapshot of a URL, or with what otherwise gives.
func savedOr(url string, otherwise func(*Request) (any, error)) handler {
	return func(w http.ResponseWriter, r *Request) error {
		value, _, err := saved(r, url)
		if err == nil && value == nil {
			value, err = otherwise(r)
		}
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, value)
		return nil
	}
}

// savedOrText answers with the last snapshot of a URL, or as Ray does where it has nothing to tell.
func savedOrText(url string, status int, text string) handler {
	return func(w http.ResponseWriter, r *Request) error {
		value, _, err := saved(r, url)
		if err != nil {
			return err
		}
		if value == nil {
			writeText(w, status, text)
			return nil
		}
		writeJSON(w, http.StatusOK, value)
		return nil
	}
}

// noSuchRoute is what Ray answers to a path it does not have.
const noSuchRoute = "404: Not Found"

// since is savedOr for a request that Ray has since 2.minor.
func (d *Dashboard) since(minor int, url string, otherwise any) handler {
	return func(w http.ResponseWriter, r *Request) error {
		old, err := d.olderThan(r, minor)
		if err != nil {
			return err
		}
		if old {
			writeText(w, http.StatusNotFound, noSuchRoute)
			return nil
		}
		return savedOr(url, constant(otherwise))(w, r)
	}
}

// platformEvents is /api/v0/platform_events. Ray's frontend hides their page where that is not found, as Ray answers unless it was told
// to watch its platform; a session without any has nothing to show there either.
func platformEvents(w http.ResponseWriter, r *Request) error {
	for _, url := range r.Session.Snapshots.URLs("/api/v0/platform_events") {
		value, _, err := saved(r, url)
		if err != nil {
			return err
		}
		if o, _ := value.(*pyjson.Object); len(o.Object("data").List("events")) > 0 {
			writeJSON(w, http.StatusOK, o)
			return nil
		}
	}
	writeText(w, http.StatusNotFound, noSuchRoute)
	return nil
}

// noTrainState is Ray's sentence (ray/dashboard/modules/train/train_head.py).
const noTrainState = "Train state data is not available. Please make sure Ray Train is running and that the Train state actor is enabled " +
	`by setting the RAY_TRAIN_ENABLE_STATE_TRACKING environment variable to "1".`

func success(msg string, data *pyjson.Object) *pyjson.Object {
	return pyjson.Obj("result", true, "msg", msg, "data", data)
}

// apiVersion is the version of Ray's job API (CURRENT_VERSION in ray/dashboard/modules/version.py).
const apiVersion = "4"

// version is /api/version without a snapshot of it.
func (d *Dashboard) version(r *Request) (any, error) {
	build, err := d.rayBuild(r)
	return pyjson.Obj("version", apiVersion, "ray_version", build.version, "ray_commit", build.commit, "session_name", r.Session.Ref.Name), err
}

// profilingOff is what Ray 2.60 answers with nothing configured: there is nothing to profile in a stored session.
func profilingOff() any {
	return success("", pyjson.Obj("profilingEnabled", false, "profilingDefaults", pyjson.Obj(
		"native", false, "subprocesses", false, "idle", false, "leaks", false, "tracePythonAllocators", false, "cpuDuration", 5,
		"memoryDuration", 10, "maxDuration", 60, "cpuFormat", "flamegraph", "memoryFormat", "flamegraph", "pyspyNativeSupported", true)))
}

// authenticationMode is /api/authentication_mode: a stored session asks for no Ray token, whatever its cluster did.
func authenticationMode(w http.ResponseWriter, _ *Request) error {
	writeJSON(w, http.StatusOK, pyjson.Obj("authentication_mode", "disabled"))
	return nil
}

// datasets is /api/data/datasets/{job_id}; a job without a snapshot ran no dataset.
func datasets(w http.ResponseWriter, r *Request) error {
	return savedOr("/api/data/datasets/"+url.PathEscape(r.Params["job_id"]), constant(pyjson.Obj("datasets", []any{})))(w, r)
}

// clusterZone is the time zone the session's dashboard ran in, UTC where no snapshot told.
func clusterZone(r *Request) (*time.Location, error) {
	value, _, err := saved(r, "/timezone")
	if err != nil {
		return nil, err
	}
	o, _ := value.(*pyjson.Object)
	t, err := time.Parse("-07:00", o.String("offset"))
	if err != nil {
		return time.UTC, nil
	}
	return t.Location(), nil
}
