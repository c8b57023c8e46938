package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayversion"
)

// metricsSince is the first version of Ray whose exporters keep a gauge's value after a read. In earlier versions a
// read removes the values of all gauges until Ray reports again, about 10 s later, so two readers take them from each
// other (ray/_private/telemetry/open_telemetry_metric_recorder.py; seen in 2.55.1 and 2.56.1; 2.57.0 keeps them for 20
// s).
var metricsSince = rayversion.Version{2, 57}

// runningSession returns the session whose raylet runs on this node; "" if there is none. If several run, it is the one
// that session_latest names, or else the newest.
func (c *Collector) runningSession() (string, error) {
	running, err := c.runs.lookForRaylets(time.Now())
	if err != nil {
		return "", err
	}
	present, latest, err := c.tailer.Sessions()
	if err != nil || running[latest] != "" {
		return latest, err
	}
	for _, s := range slices.Backward(present) {
		if running[s.Name] != "" {
			return s.Name, nil
		}
	}
	return "", nil
}

// nodeAddress is the host in the metrics' label instance: the pod's address, or the first address of this host that
// other hosts may reach, or else 127.0.0.1.
func nodeAddress(podIP string) string {
	if podIP != "" {
		return podIP
	}
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

// metricsAllowed returns an error if reading a session's metrics could take values away from another reader, as in old
// versions of Ray, or if Ray's version is not known yet.
func (c *Collector) metricsAllowed(ctx context.Context, session string) error {
	version := c.sessions.stateOf(session).RayVersion
	if version == "" {
		var err error
		if version, err = c.headVersion(ctx); err != nil {
			return fmt.Errorf("metrics are not read before Ray's version is known (unless --metrics=on): %w", err)
		}
		c.sessions.recordVersion(session, version)
	}
	if rayversion.Since(version, metricsSince) {
		return nil
	}
	return fmt.Errorf("metrics are not read: Ray %s gives each value to only one reader, so a Prometheus that also "+
		"reads it would miss some. If there is no Prometheus, or if it reads /metrics/ray of this collector, set "+
		"--metrics=on", version)
}

// currentCluster is the file in which `ray start` writes the address of the cluster's head (ray/_private/utils.py).
const currentCluster = "ray_current_cluster"

// headVersion asks the head's dashboard for Ray's version, which it tells without a token. The head's own collector
// gets an error, because it learns the version with its snapshots.
func (c *Collector) headVersion(ctx context.Context) (string, error) {
	if c.opts.Head || c.opts.Dashboard == "" {
		return "", errors.New("the dashboard has not answered yet")
	}
	dashboard, err := url.Parse(c.opts.Dashboard)
	if err != nil {
		return "", err
	}
	address, err := regular.ReadFile(filepath.Join(c.opts.RayTmpDir, currentCluster), 256)
	if err != nil {
		return "", err
	}
	head, _, err := net.SplitHostPort(strings.TrimSpace(string(address)))
	if err != nil {
		return "", err
	}
	noToken := func() (string, error) { return "", nil }
	client, err := snapshot.NewClient(net.JoinHostPort(head, dashboard.Port()), noToken)
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, version, err := client.Version(ctx)
	if err == nil && version == "" {
		err = errors.New("the head's dashboard answers without a version")
	}
	return version, err
}

// grafanaFolder is where a head's dashboard writes the Grafana dashboards of its version, below the session's folder
// (ray/dashboard/modules/metrics/metrics_head.py). Ray 2.60 writes eight, 1.5 MB.
const grafanaFolder = "metrics/grafana/dashboards"

const (
	maxGrafanaFiles = 64
	maxGrafanaBytes = 8 << 20 // of one
	maxGrafanaName  = 128 + len(".json")
)

// grafanaFile has no bound of length: a count of 128 takes 115 KiB for as long as the collector runs.
var grafanaFile = regexp.MustCompile(`^[A-Za-z0-9_-]+\.json$`)

// storeGrafana stores the session's Grafana dashboards, each once, if its metrics are stored too.
func (c *Collector) storeGrafana(ctx context.Context, session string) error {
	if c.scraper == nil || !c.opts.Head || c.opts.Metrics == MetricsAuto && c.metricsAllowed(ctx, session) != nil {
		return nil
	}
	root, err := os.OpenRoot(c.opts.RayTmpDir)
	if err != nil {
		return fmt.Errorf("look for Grafana dashboards: %w", err)
	}
	defer func() { _ = root.Close() }()
	folder := filepath.Join(session, grafanaFolder)
	files, err := regular.Folder(root, folder, maxGrafanaFiles)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for Grafana dashboards: %w", err)
	}
	var failed error
	for _, file := range files {
		name := file.Name()
		key := layout.GrafanaDashboardKey(c.opts.Root, c.sessions.refOf(session), name)
		if len(name) > maxGrafanaName || !grafanaFile.MatchString(name) || c.grafana[key] {
			continue
		}
		data, err := regular.Read(root, filepath.Join(folder, name), maxGrafanaBytes)
		if err == nil && !json.Valid(data) {
			continue // it is being written
		}
		c.sessions.redact.JSON(data)
		if err == nil {
			err = c.sessions.storeMarker(ctx, session)
		}
		if err == nil {
			err = c.opts.Store.Create(ctx, key, bytes.NewReader(compressed(data)))
		}
		if err != nil && !errors.Is(err, os.ErrExist) { // an earlier collector may have stored it
			failed = errors.Join(failed, fmt.Errorf("store Grafana dashboard %q: %w", name, err))
			continue
		}
		c.grafana[key] = true
	}
	return failed
}

func compressed(data []byte) []byte {
	writer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constant
	}
	return writer.EncodeAll(data, nil)
}
