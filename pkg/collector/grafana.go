package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/layout"
)

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
		key := layout.GrafanaDashboardKey(c.opts.Root, c.sessions.ref(session), name)
		if len(name) > maxGrafanaName || !grafanaFile.MatchString(name) || c.grafana[key] {
			continue
		}
		data, err := regular.Read(root, filepath.Join(folder, name), maxGrafanaBytes)
		if err == nil && !json.Valid(data) {
			continue // it is being written
		}
		if err == nil {
			err = c.sessions.mark(ctx, session)
		}
		if err == nil {
			err = c.opts.Store.Create(ctx, key, bytes.NewReader(compressed(data)))
		}
		if err != nil && !errors.Is(err, os.ErrExist) {
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
