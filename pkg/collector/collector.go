// Package collector runs beside the Ray processes of one node and stores their events, logs and metrics. On the head
// node it also stores the dashboard's answers. Its parts are the packages below; this package starts, connects and
// stops them.
package collector

import (
	"cmp"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/node"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/collector/scrape"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Collector is made by New, started by Start and ended by Close.
type Collector struct {
	opts     Options
	sessions *sessions
	runs     *runs
	places   *places
	finder   *node.Finder
	spool    *spool.Spool
	events   *sink.Sink
	tailer   *logs.Tailer
	shipper  *ship.Shipper
	taker    *snapshot.Taker // nil: no snapshots
	scraper  *scrape.Scraper // nil: no metrics
	grafana  map[string]bool // keys of the Grafana dashboards that are stored
	draining atomic.Bool
	folder   sync.Mutex // held while the spool's folder is made again

	watching, metadata background.Worker
}

// New makes a collector from its parts and opens the spool. Nothing is collected before Start. A NoRayError says that
// Ray must make its folder first. After an error nothing stays open, but o.Servers still belong to the caller.
func New(o Options) (*Collector, error) {
	o.Refused = cmp.Or(o.Refused, &sink.Refused{})
	var err error
	if o.SpoolDir, err = spoolFolder(o); err != nil {
		return nil, err
	}
	c := &Collector{opts: o, grafana: make(map[string]bool)}
	if c.sessions, err = newSessions(o, filepath.Join(o.SpoolDir, "sessions.json")); err != nil {
		return nil, err
	}
	c.runs = newRuns(c.sessions.seenRaylets())
	var client *snapshot.Client
	c.finder = &node.Finder{Dir: o.RayTmpDir, Head: o.Head, IP: o.PodIP}
	if o.Dashboard != "" {
		if client, err = snapshot.NewClient(o.Dashboard, o.Token); err != nil {
			return nil, err
		}
		c.finder.Get = client.Get
	}
	if c.spool, err = spool.Open(filepath.Join(o.SpoolDir, "events"), spool.Options{
		MaxBytes: o.SpoolMaxBytes, Check: c.sessions.checkSpooled, Remake: c.keepFolder,
		Log: o.Log, Registerer: o.Registerer,
	}); err != nil {
		return nil, err
	}
	c.removeUnfinished()
	if err = c.makeParts(client); err != nil {
		return nil, errors.Join(err, c.spool.Close())
	}
	return c, nil
}

// makeParts makes the parts that need the spool. client is for the dashboard, nil if there is none.
func (c *Collector) makeParts(client *snapshot.Client) (err error) {
	c.tailer = c.newTailer()
	if c.shipper, err = c.newShipper(); err != nil {
		return err
	}
	c.places = &places{dir: c.opts.RayTmpDir, finder: c.finder, latest: c.runs.newestSession, log: c.opts.Log}
	if c.events, err = c.newSink(); err != nil {
		return err
	}
	c.scraper = c.newScraper()
	if c.opts.Head && client != nil {
		c.taker = c.newTaker(client)
	}
	c.opts.Redact.Register(c.opts.Registerer)
	registerReady(c.opts.Registerer, c.notReady)
	return nil
}

// Start opens the servers for requests and starts all work in the background.
func (c *Collector) Start() {
	c.opts.Servers.Answer(c.routes(c.events), c.routes(nil)) // for metrics without events
	c.tailer.Start()
	c.shipper.Start()
	if c.taker != nil {
		c.taker.Start()
	}
	if c.scraper != nil {
		c.scraper.Start()
	}
	c.watching.Start(c.watchRaylets)
	c.metadata.Start(c.keepMetadata)
}

func (c *Collector) newTailer() *logs.Tailer {
	o := c.opts
	return logs.New(logs.Options{
		Dir:      o.RayTmpDir,
		StateDir: filepath.Join(o.SpoolDir, "logs"),
		Key: func(session string, id rayid.Node, path string) string {
			return layout.LogKey(o.Root, c.sessions.refOf(session), id, path)
		},
		ListEmpty:     c.spoolEmptyLogs,
		PushInterval:  o.Ship.PushInterval,
		Node:          c.finder.Node,
		DeleteShipped: o.DeleteShipped,
		Running:       node.Running,
		Redact:        o.Redact.For("logs"),
		Log:           o.Log,
		Registerer:    o.Registerer,
	})
}

func (c *Collector) newShipper() (*ship.Shipper, error) {
	o := c.opts
	s := o.Ship
	s.Store, s.Prepare, s.Dir = o.Store, c.sessions.prepareStream, o.SpoolDir
	s.Groups = []ship.Group{
		c.spooledGroup("events", noKind, o.EventCompression),
		c.spooledGroup("metrics", layout.Metrics, layout.Zstd),
		{Name: "logs", Sources: c.tailer.Sources, Waiting: c.tailer.Waiting, Compression: o.LogCompression, Logs: true},
		c.spooledGroup("empty_logs", layout.EmptyLogs, layout.Plain),
	}
	s.Log, s.Registerer = o.Log, o.Registerer
	return ship.New(s)
}

func (c *Collector) newSink() (*sink.Sink, error) {
	o := c.opts
	return sink.New(sink.Options{
		Spool: c.spool, Root: o.Root, Namespace: o.Namespace, Cluster: o.Cluster, Find: c.places.destinationOf,
		MaxBody: o.EventBodyBytes, Refused: o.Refused, Redact: o.Redact.For("events"),
		Log: o.Log, Registerer: o.Registerer,
	})
}

func (c *Collector) newTaker(client *snapshot.Client) *snapshot.Taker {
	o := c.opts
	s := o.Snapshot
	s.Client, s.Store, s.Dir = client, o.Store, filepath.Join(o.SpoolDir, "snapshots")
	s.Key = func(session, url string) string { return layout.SnapshotKey(o.Root, c.sessions.refOf(session), url) }
	s.Check, s.Prepare, s.Series = c.places.noteMissing, c.sessions.storeMarker, c.spoolSeries
	s.Version = c.sessions.recordVersion
	s.Nodes = c.sessions.recordNodes
	s.Zone = c.sessions.learnZone
	s.Redact, s.Log, s.Registerer = o.Redact.For("snapshots"), o.Log, o.Registerer
	return snapshot.New(s)
}

// newScraper makes the reader of Ray's metrics; nil if it is off.
func (c *Collector) newScraper() *scrape.Scraper {
	o := c.opts
	if o.Metrics == MetricsOff || o.Scrape.Interval <= 0 {
		return nil
	}
	s := o.Scrape
	s.Dir, s.Head, s.Host = o.RayTmpDir, o.Head, nodeAddress(o.PodIP)
	s.Labels = []samples.Label{{Name: "ray_io_cluster", Value: o.Cluster}, {Name: "namespace", Value: o.Namespace}}
	s.Running, s.Node, s.Append = c.runningSession, c.finder.Node, c.spoolMetrics
	s.Redact = o.Redact.For("metrics")
	s.MaxBytes = o.EventBodyBytes / 3 // like that, it follows the container's memory limit; 0: the default
	s.Log, s.Registerer = o.Log, o.Registerer
	if o.Metrics == MetricsAuto {
		s.Allowed = c.metricsAllowed
	}
	return scrape.New(s)
}

// Options of a collector.
type Options struct {
	Store blob.Creator
	// Root is the prefix of all stored keys.
	Root               string
	Namespace, Cluster string
	// OwnerKind and OwnerName are the RayJob or RayService that created the cluster; empty if the user created it
	// directly.
	OwnerKind, OwnerName string
	// Labels are those that users gave what they created; layout.MaxLabels at most.
	Labels map[string]string
	// Head says that the collector runs on the cluster's head node. Then it takes snapshots and stores the metadata of
	// the sessions.
	Head bool
	// RayTmpDir is Ray's temporary folder.
	RayTmpDir string
	// SpoolDir is the folder for data that is not stored yet, and for state that must survive a restart.
	SpoolDir      string
	SpoolMaxBytes int64
	// Servers must be open. The collector answers with them from Start on, and closes them.
	Servers *Servers
	// Refused remembers batches of events that are refused and not accepted later; nil: none was before.
	Refused *sink.Refused
	// PodIP is the pod's address.
	PodIP string
	// Dashboard is the address of the dashboard, "" for none. Token gives its token.
	Dashboard string
	Token     func() (string, error)
	// Metrics says whether Ray's metrics are read.
	Metrics MetricsMode
	// Ship, Snapshot and Scrape are what these parts leave to the user: intervals and limits. The collector sets the
	// rest. A Scrape.Interval of 0 means never.
	Ship     ship.Options
	Snapshot snapshot.Options
	Scrape   scrape.Options

	// EventBodyBytes bounds the body of a request with events; 0 is the default.
	EventBodyBytes                   int64
	EventCompression, LogCompression layout.Compression
	DeleteShipped                    bool
	// Redact overwrites what must not be stored; nil: nothing.
	Redact *redact.Redactor

	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
}

// MetricsMode says whether Ray's metrics are read.
type MetricsMode string

const (
	// MetricsAuto reads them if a second reader does not disturb the first.
	MetricsAuto MetricsMode = "auto"
	MetricsOn   MetricsMode = "on"
	MetricsOff  MetricsMode = "off"
)
