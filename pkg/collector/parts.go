package collector

import (
	"context"
	"path/filepath"

	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/node"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/collector/scrape"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

func (c *Collector) newTailer() *logs.Tailer {
	o := c.opts
	return logs.New(logs.Options{
		Dir: o.RayTmpDir, StateDir: filepath.Join(o.SpoolDir, "logs"),
		Key: func(session string, node rayid.Node, path string) string {
			return layout.LogKey(o.Root, c.sessions.ref(session), node, path)
		},
		EmptyKey: func(session string, node rayid.Node) string {
			return layout.EmptyLogsKey(o.Root, c.sessions.ref(session), node)
		},
		PushInterval: o.PushInterval, Node: c.finder.Node, DeleteShipped: o.DeleteShipped, Running: node.Running, Log: o.Log, Registerer: o.Registerer,
	})
}

func (c *Collector) newShipper() (*ship.Shipper, error) {
	o := c.opts
	return ship.New(ship.Options{
		Store: o.Store,
		Groups: []ship.Group{
			{Name: "events", Sources: c.spooledSources(false), Waiting: c.spool.Waiting, Compression: o.EventCompression},
			{Name: "metrics", Sources: c.spooledSources(true), Compression: layout.Zstd},
			{Name: "logs", Sources: c.tailer.Sources, Waiting: c.tailer.Waiting, Compression: o.LogCompression, Logs: true},
			{Name: "empty_logs", Sources: c.tailer.EmptyLogs},
		},
		Prepare: c.sessions.prepareStream, Dir: o.SpoolDir,
		PushInterval: o.PushInterval, MaxChunk: o.MaxChunkBytes, Concurrency: o.UploadConcurrency, BytesPerSecond: o.UploadBytesPerSecond,
		Log: o.Log, Registerer: o.Registerer,
	})
}

func (c *Collector) newSink(places *places) (*sink.Sink, error) {
	o := c.opts
	return sink.New(sink.Options{
		Spool: c.spool, Root: o.Root, Namespace: o.Namespace, Cluster: o.Cluster, Find: places.of, MaxBody: o.EventBodyBytes, Refused: o.Refused,
		Log: o.Log, Registerer: o.Registerer,
	})
}

func (c *Collector) newTaker(client *snapshot.Client, places *places) *snapshot.Taker {
	o := c.opts
	return snapshot.New(snapshot.Options{
		Client: client, Store: o.Store,
		Key:    func(session, url string) string { return layout.SnapshotKey(o.Root, c.sessions.ref(session), url) },
		Series: c.spoolSeries,
		Prepare: func(ctx context.Context, session string) error {
			if err := places.check(session); err != nil {
				return err
			}
			return c.sessions.mark(ctx, session)
		},
		Dir:        filepath.Join(o.SpoolDir, "snapshots"),
		Version:    func(session, version string) { c.sessions.learn(session, version, 0) },
		Nodes:      func(session string, count int) { c.sessions.learn(session, "", count) },
		Additional: o.AdditionalEndpoints, AdditionalEvery: o.SnapshotInterval, Interval: o.SnapshotInterval, MaxBytes: o.SnapshotMaxBytes,
		Log: o.Log, Registerer: o.Registerer,
	})
}

// newScraper makes the reader of Ray's metrics; nil if it is off.
func (c *Collector) newScraper() *scrape.Scraper {
	o := c.opts
	if o.Metrics == MetricsOff || o.MetricsInterval <= 0 {
		return nil
	}
	s := scrape.Options{
		Dir: o.RayTmpDir, Head: o.Head, Host: nodeAddress(o.PodIP),
		Labels:  []samples.Label{{Name: "ray_io_cluster", Value: o.Cluster}, {Name: "namespace", Value: o.Namespace}},
		Running: c.runningSession, Node: c.finder.Node, Append: c.spoolMetrics,
		Interval: o.MetricsInterval, MaxSeries: o.MetricsMaxSeries, MaxBytes: o.EventBodyBytes / 3, Log: o.Log, Registerer: o.Registerer,
	}
	if o.Metrics == MetricsAuto {
		s.Allowed = c.metricsAllowed
	}
	return scrape.New(s)
}
