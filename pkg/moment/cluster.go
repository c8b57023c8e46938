package moment

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayversion"
)

// buildCache caches what the logs say about the cluster.
type buildCache struct {
	build     shared.Value[Build]
	clusterID shared.Value[string]
}

// Build is the Ray version that the session ran; empty fields are not known.
type Build struct{ Version, Commit, Python string }

var (
	// buildLine is what gcs_server.out begins with (src/ray/gcs/gcs_server_main.cc), such as "… Ray cluster metadata
	// ray_version=2.55.1 ray_commit=4ad0a8a".
	buildLine = lazyregexp.New(`Ray cluster metadata ray_version=(\S+) ray_commit=(\S+)`)
	// clusterIDLine is a part of the line that the dashboard's modules log at their start
	// (ray/dashboard/subprocesses/module.py).
	clusterIDLine = lazyregexp.New(`cluster_id_hex='([0-9a-f]+)'`)
)

// Build returns the versions of Ray and Python that the session ran, from snapshots or, of Ray, from the GCS's log.
// What is not found is "". Versions that were found stay; others are looked for again when the session has changed.
func (m *Moment) Build(ctx context.Context) (Build, error) {
	build := &Cached[buildCache](m).build
	found, _ := build.Loaded()
	if found.Version != "" && found.Python != "" {
		return found, nil
	}
	return build.GetFor(ctx, StateOf(m.Session), func(ctx context.Context) (Build, error) {
		b := found
		if b.Version == "" {
			value, _, err := m.Saved(ctx, "/api/version")
			if err != nil {
				return b, err
			}
			if o, ok := value.(*pyjson.Object); ok {
				b.Version, b.Commit = o.String("ray_version"), o.String("ray_commit")
			}
		}
		data, _, err := m.SavedData(ctx, "/api/v0/cluster_metadata")
		if err != nil {
			return b, err
		}
		b.Python = data.String("pythonVersion")
		if b.Version != "" {
			return b, nil
		}
		b.Version = data.String("rayVersion")
		line, err := m.findInLogs(ctx, buildLine(), func(path string) bool { return path == "gcs_server.out" })
		if line != nil {
			b.Version, b.Commit = line[1], line[2]
		}
		return b, err
	})
}

// OlderThan reports whether the session's Ray is known to be older than version 2.minor.
func (m *Moment) OlderThan(ctx context.Context, minor int) (bool, error) {
	build, err := m.Build(ctx)
	if err != nil {
		return false, err
	}
	return rayversion.Before(build.Version, rayversion.Version{2, minor}), nil
}

// ClusterID returns the cluster's ID from the dashboard's logs; "" if it is not there.
func (m *Moment) ClusterID(ctx context.Context) (string, error) {
	clusterID := &Cached[buildCache](m).clusterID
	if id, ok := clusterID.Loaded(); ok && id != "" {
		return id, nil
	}
	return clusterID.GetFor(ctx, StateOf(m.Session), func(ctx context.Context) (string, error) {
		found, err := m.findInLogs(ctx, clusterIDLine(), func(path string) bool {
			return strings.HasPrefix(path, "dashboard_") && strings.HasSuffix(path, "Head.log")
		})
		if found == nil {
			return "", err
		}
		return found[1], err
	})
}

// Times returns how to read times that people type: in the cluster's zone, and before the end of what the moment shows.
func (m *Moment) Times(ctx context.Context) param.Times {
	_, end := m.Life(ctx)
	times := param.Times{Zone: time.UTC, End: end}
	if zone, err := m.Zone(ctx); err == nil {
		times.Zone = zone
	}
	return times
}

// findInLogs searches the beginnings of the logs whose paths accepts returns true for, in the order of nodes and paths,
// for an expression. It returns the match in the first log that has one, with the match's groups; nil if none
// has.
func (m *Moment) findInLogs(ctx context.Context, expression *regexp.Regexp, accepts func(path string) bool) ([]string,
	error) {
	for _, node := range m.Session.Logs.Nodes() {
		for _, path := range m.Session.Logs.Paths(node) {
			if !accepts(path) {
				continue
			}
			head, err := ReadHead(ctx, m.Session.Logs, LogFile{Node: node, Path: path}, HeadBytes)
			if err != nil {
				return nil, err
			}
			if found := expression.FindStringSubmatch(string(head)); found != nil {
				return found, nil
			}
		}
	}
	return nil, nil
}
