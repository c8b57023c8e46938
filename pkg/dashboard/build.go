package dashboard

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// rayBuild is which Ray the session ran; empty where nothing told.
type rayBuild struct {
	version, commit, python string
}

var (
	// buildLine is what gcs_server.out begins with (src/ray/gcs/gcs_server_main.cc).
	buildLine = regexp.MustCompile(`Ray cluster metadata ray_version=(\S+) ray_commit=(\S+)`)
	// clusterIDLine is in what the dashboard's modules log of their start (ray/dashboard/subprocesses/module.py).
	clusterIDLine = regexp.MustCompile(`cluster_id_hex='([0-9a-f]+)'`)
)

const buildHeadBytes = 64 << 10 // of a log that tell of its process's start

// rayBuild finds which Ray the session ran: in the snapshots, or in the GCS's log.
func (d *Dashboard) rayBuild(r *Request) (rayBuild, error) {
	return d.derived.get(r.Session).build.get(func() (rayBuild, error) {
		var b rayBuild
		value, _, err := saved(r, "/api/version")
		if err != nil {
			return b, err
		}
		if o, ok := value.(*pyjson.Object); ok {
			b.version, b.commit = o.String("ray_version"), o.String("ray_commit")
		}
		data, _, err := savedData(r, "/api/v0/cluster_metadata")
		if err != nil {
			return b, err
		}
		b.python = data.String("pythonVersion")
		if b.version != "" {
			return b, nil
		}
		b.version = data.String("rayVersion")
		m, err := d.findInLogs(r, buildLine, func(path string) bool { return path == "gcs_server.out" })
		if m != nil {
			b.version, b.commit = m[1], m[2]
		}
		return b, err
	})
}

// olderThan says whether the session's Ray is known to be older than 2.minor.
func (d *Dashboard) olderThan(r *Request, minor int) (bool, error) {
	build, err := d.rayBuild(r)
	if err != nil {
		return false, err
	}
	var major, is int
	_, err = fmt.Sscanf(build.version, "%d.%d", &major, &is)
	return err == nil && (major < 2 || major == 2 && is < minor), nil
}

// loggedClusterID finds the cluster's ID in the dashboard's logs.
func (d *Dashboard) loggedClusterID(r *Request) (string, error) {
	return d.derived.get(r.Session).clusterID.get(func() (string, error) {
		m, err := d.findInLogs(r, clusterIDLine, func(path string) bool {
			return strings.HasPrefix(path, "dashboard_") && strings.HasSuffix(path, "Head.log")
		})
		if m == nil {
			return "", err
		}
		return m[1], err
	})
}

// findInLogs looks for a line at the head of logs, until it is found.
func (d *Dashboard) findInLogs(r *Request, line *regexp.Regexp, in func(path string) bool) ([]string, error) {
	for _, node := range r.Session.Logs.Nodes() {
		for _, path := range r.Session.Logs.Paths(node) {
			if !in(path) {
				continue
			}
			head, err := readHead(r.Context(), r.Session.Logs, nodeLog{node, path}, buildHeadBytes)
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
