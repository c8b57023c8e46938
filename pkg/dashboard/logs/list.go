package logs

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/pathglob"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// rayFolders exist below the logs folder of every node from its start. Object stores have no empty folders, so they are listed here.
var rayFolders = []string{"events", "nsight", "old", "profiles", "rocprof_sys"}

// List is /api/v0/logs: the log files of one node that a glob matches, by category.
func List(w http.ResponseWriter, r *request.Request) error {
	q := r.Query()
	glob := "*"
	if q.Has("glob") {
		glob = q.Get("glob")
	}
	if _, err := request.IntOr(r, "timeout", 0); err != nil {
		return err
	}
	id, ip := q.Get("node_id"), q.Get("node_ip")
	if id == "" && ip == "" {
		return reply.BadRequest("Both node id and node ip are not provided. Please provide at least one of them.")
	}
	if id == "" {
		var err error
		if id, err = nodeByIP(r, ip); err != nil {
			return err
		}
		if id == "" {
			return reply.NotFound("Cannot find matching node_id for a given node ip " + ip)
		}
	}
	node, err := logNode(r, id)
	if err != nil {
		return err
	}
	files, err := globLogs(r.Context(), r.Session.Logs.Paths(node), glob)
	switch {
	case errors.Is(err, pathglob.ErrForm):
		return reply.BadRequest("Invalid glob filter: %s. It must be a relative path and cannot contain '..'.", glob)
	case errors.Is(err, pathglob.ErrLong):
		return reply.BadRequest("Invalid glob filter: it may have %d characters and %d wildcards.", pathglob.MaxLength, pathglob.MaxWildcards)
	case err != nil:
		return err
	}
	return reply.OK(w, "", "result", categorise(files))
}

// globLogs returns the files and folders that a glob matches as Python's Path.glob does: ** is any number of folders, folders end in "/".
func globLogs(ctx context.Context, paths []string, glob string) ([]string, error) {
	match, err := pathglob.Parse(glob)
	if err != nil {
		return nil, err
	}
	var found []string
	folders := map[string]bool{}
	for _, f := range rayFolders {
		folders[f] = true
	}
	for i, p := range paths {
		if i%globEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !match.FoldersOnly && match.Matches(p) {
			found = append(found, p)
		}
		for dir := path.Dir(p); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for f := range folders {
		if match.Matches(f) {
			found = append(found, f+"/")
		}
	}
	slices.Sort(found)
	return found, nil
}

// globEvery is how many paths are matched between two checks whether a client still waits.
const globEvery = 256

// categorise groups log files by the component that wrote them (_categorize_log_files in ray/dashboard/modules/log/log_manager.py).
func categorise(files []string) *pyjson.Object {
	grouped := &pyjson.Object{}
	for _, f := range files {
		category := logCategory(f)
		grouped.Set(category, append(grouped.List(category), f))
	}
	return grouped
}

func logCategory(f string) string {
	has := func(s string) bool { return strings.Contains(f, s) }
	ends := func(s string) bool { return strings.HasSuffix(f, s) }
	switch {
	case has("worker") && ends(".out"):
		return "worker_out"
	case has("worker") && ends(".err"):
		return "worker_err"
	case has("core-worker") && ends(".log"):
		return "core_worker"
	case has("core-driver") && ends(".log"):
		return "driver"
	case has("raylet."):
		return "raylet"
	case has("gcs_server."):
		return "gcs_server"
	case has("log_monitor"):
		return "internal"
	case has("monitor"):
		return "autoscaler"
	case has("agent."):
		return "agent"
	case has("dashboard."):
		return "dashboard"
	}
	return "internal"
}
