// Package cluster answers requests about the cluster as a whole: its version, ID, time zone, settings, health and the autoscaler's status.
package cluster

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// cache keeps what the logs say about the cluster.
type cache struct {
	build     shared.Value[build]
	clusterID shared.Value[string]
}

// build is the Ray version that the session ran; empty fields are not known.
type build struct {
	version, commit, python string
}

var (
	// buildLine is what gcs_server.out begins with (src/ray/gcs/gcs_server_main.cc).
	buildLine = regexp.MustCompile(`Ray cluster metadata ray_version=(\S+) ray_commit=(\S+)`)
	// clusterIDLine is a part of the line that the dashboard's modules log at their start (ray/dashboard/subprocesses/module.py).
	clusterIDLine = regexp.MustCompile(`cluster_id_hex='([0-9a-f]+)'`)
)

// readBuild finds the Ray version that the session ran: in the snapshots, or in the GCS's log.
func readBuild(r *request.Request) (build, error) {
	known := &moment.Kept[cache](&r.Moment).build
	if b, ok := known.Loaded(); ok && b.version != "" {
		return b, nil
	}
	return known.GetFor(r.Context(), moment.Version(r.Session), func(ctx context.Context) (build, error) {
		r := r.With(ctx)
		var b build
		value, _, err := r.Saved(r.Context(), "/api/version")
		if err != nil {
			return b, err
		}
		if o, ok := value.(*pyjson.Object); ok {
			b.version, b.commit = o.String("ray_version"), o.String("ray_commit")
		}
		data, _, err := r.SavedData(r.Context(), "/api/v0/cluster_metadata")
		if err != nil {
			return b, err
		}
		b.python = data.String("pythonVersion")
		if b.version != "" {
			return b, nil
		}
		b.version = data.String("rayVersion")
		m, err := findInLogs(r, buildLine, func(path string) bool { return path == "gcs_server.out" })
		if m != nil {
			b.version, b.commit = m[1], m[2]
		}
		return b, err
	})
}

// OlderThan says whether the session's Ray is known to be older than 2.minor.
func OlderThan(r *request.Request, minor int) (bool, error) {
	build, err := readBuild(r)
	if err != nil {
		return false, err
	}
	var major, is int
	_, err = fmt.Sscanf(build.version, "%d.%d", &major, &is)
	return err == nil && (major < 2 || major == 2 && is < minor), nil
}

// loggedClusterID finds the cluster's ID in the dashboard's logs.
func loggedClusterID(r *request.Request) (string, error) {
	known := &moment.Kept[cache](&r.Moment).clusterID
	if id, ok := known.Loaded(); ok && id != "" {
		return id, nil
	}
	return known.GetFor(r.Context(), moment.Version(r.Session), func(ctx context.Context) (string, error) {
		r := r.With(ctx)
		m, err := findInLogs(r, clusterIDLine, func(path string) bool {
			return strings.HasPrefix(path, "dashboard_") && strings.HasSuffix(path, "Head.log")
		})
		if m == nil {
			return "", err
		}
		return m[1], err
	})
}

// findInLogs searches for a line at the beginnings of logs, until it is found.
func findInLogs(r *request.Request, line *regexp.Regexp, in func(path string) bool) ([]string, error) {
	for _, node := range r.Session.Logs.Nodes() {
		for _, path := range r.Session.Logs.Paths(node) {
			if !in(path) {
				continue
			}
			head, err := moment.ReadHead(r.Context(), r.Session.Logs, moment.LogFile{Node: node, Path: path}, moment.HeadBytes)
			if err != nil {
				return nil, err
			}
			if m := line.FindStringSubmatch(string(head)); m != nil {
				return m, nil
			}
		}
	}
	return nil, nil
}
