// Package collector runs beside the Ray processes of one node and sends what they leave behind to the backend: the events they post,
// their logs, and beside a head what the dashboard answers. Its parts live in packages below; this one starts, connects and ends them.
package collector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/node"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/spool"
)

// Options of a collector.
type Options struct {
	Store blob.Creator
	// Root is the folder of the bucket that everything is stored under.
	Root               string
	Namespace, Cluster string
	// OwnerKind and OwnerName are what the user created where that is not the cluster itself: a RayJob or RayService.
	OwnerKind, OwnerName string
	// Head: the collector is beside the cluster's head, and takes the snapshots and tells the facts of its sessions.
	Head bool
	// RayTmpDir is Ray's temporary folder.
	RayTmpDir string
	// SpoolDir is the folder for events that are not stored yet, and for what must survive a restart.
	SpoolDir      string
	SpoolMaxBytes int64
	// EventFsync is how long an accepted event may be in memory only; 0: never.
	EventFsync time.Duration
	// EventsPort is where events, health and metrics are served; 0 is any free port.
	EventsPort int
	// PodIP is the pod's address.
	PodIP string
	// Dashboard is the address of the dashboard; "" for none. Token gives the token for it.
	Dashboard string
	Token     func() (string, error)
	// AdditionalEndpoints are further dashboard URLs to save, each SnapshotInterval.
	AdditionalEndpoints []string
	SnapshotInterval    time.Duration
	SnapshotMaxBytes    int64

	PushInterval                     time.Duration
	UploadConcurrency                int
	UploadBytesPerSecond             int64
	EventCompression, LogCompression layout.Compression
	DeleteShipped                    bool

	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
}

// Collector is made by New, started by Start and ended by Close.
type Collector struct {
	opts     Options
	sessions *sessions
	finder   *node.Finder
	spool    *spool.Spool
	tailer   *logs.Tailer
	shipper  *ship.Shipper
	taker    *snapshot.Taker // nil: no snapshots
	server   *http.Server
	listener net.Listener
	served   chan error
	draining atomic.Bool

	cancel context.CancelFunc
	done   chan struct{}
}

// New opens the spool and the port; nothing is collected before Start. On an error nothing stays open.
func New(o Options) (*Collector, error) {
	c := &Collector{opts: o, served: make(chan error, 1), done: make(chan struct{})}
	for _, dir := range []string{"", "events", "logs", "snapshots"} {
		if err := os.MkdirAll(filepath.Join(o.SpoolDir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("make the spool's folder (--spool-dir): %w", err)
		}
	}
	var err error
	if c.sessions, err = newSessions(o, filepath.Join(o.SpoolDir, "sessions.json")); err != nil {
		return nil, err
	}
	var client *snapshot.Client
	c.finder = &node.Finder{Dir: o.RayTmpDir, Head: o.Head, IP: o.PodIP}
	if o.Dashboard != "" {
		if client, err = snapshot.NewClient(o.Dashboard, o.Token); err != nil {
			return nil, err
		}
		c.finder.Get = client.Get
	}
	if c.spool, err = spool.Open(filepath.Join(o.SpoolDir, "events"), spool.Options{
		MaxBytes: o.SpoolMaxBytes, FsyncInterval: o.EventFsync, Log: o.Log, Registerer: o.Registerer,
	}); err != nil {
		return nil, err
	}
	if err = c.connect(client); err == nil {
		c.listener, err = net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(o.EventsPort)))
		if err != nil {
			err = fmt.Errorf("listen for events (--events-port): %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.spool.Close())
	}
	return c, nil
}

// connect makes the parts that need the spool.
func (c *Collector) connect(client *snapshot.Client) (err error) {
	o := c.opts
	c.tailer = logs.New(logs.Options{
		Dir: o.RayTmpDir, StateDir: filepath.Join(o.SpoolDir, "logs"),
		Key: func(session string, node rayid.Node, path string) string {
			return layout.LogKey(o.Root, c.sessions.ref(session), node, path)
		},
		Node: c.finder.Node, DeleteShipped: o.DeleteShipped, Log: o.Log, Registerer: o.Registerer,
	})
	c.shipper, err = ship.New(ship.Options{
		Store: o.Store,
		Groups: []ship.Group{
			{Name: "events", Sources: c.eventSources, Waiting: c.spool.Waiting, Compression: o.EventCompression, Naming: ship.EventNames},
			{Name: "logs", Sources: c.tailer.Sources, Waiting: c.tailer.Waiting, Compression: o.LogCompression, Naming: ship.LogNames},
		},
		Prepare: c.sessions.markWhole, Dir: o.SpoolDir,
		PushInterval: o.PushInterval, Concurrency: o.UploadConcurrency, BytesPerSecond: o.UploadBytesPerSecond,
		Log: o.Log, Registerer: o.Registerer,
	})
	if err != nil {
		return err
	}
	events, err := sink.New(sink.Options{
		Spool: c.spool, Root: o.Root, Namespace: o.Namespace, Cluster: o.Cluster, NodeID: c.finder.Last, Log: o.Log, Registerer: o.Registerer,
	})
	if err != nil {
		return err
	}
	c.server = &http.Server{Handler: c.routes(events), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	if o.Head && client != nil {
		c.taker = snapshot.New(snapshot.Options{
			Client: client, Store: o.Store,
			Key:     func(session, url string) string { return layout.SnapshotKey(o.Root, c.sessions.ref(session), url) },
			Series:  c.spoolSeries,
			Prepare: c.sessions.mark, Dir: filepath.Join(o.SpoolDir, "snapshots"),
			Version:    func(session, version string) { c.sessions.tell(session, version, 0) },
			Nodes:      func(session string, count int) { c.sessions.tell(session, "", count) },
			Additional: o.AdditionalEndpoints, AdditionalEvery: o.SnapshotInterval, Interval: o.SnapshotInterval, MaxBytes: o.SnapshotMaxBytes,
			Log: o.Log, Registerer: o.Registerer,
		})
	}
	return nil
}

func (c *Collector) eventSources() []ship.Source {
	streams := c.spool.Streams()
	sources := make([]ship.Source, len(streams))
	for i, s := range streams {
		sources[i] = s
	}
	return sources
}

// spooled says whether anything of a session waits in the spool.
func (c *Collector) spooled(session string) bool {
	prefix := layout.Prefix(c.opts.Root, c.sessions.ref(session))
	return slices.ContainsFunc(c.spool.Streams(), func(s *spool.Stream) bool { return strings.HasPrefix(s.Whole(), prefix) })
}

func (c *Collector) spoolSeries(ctx context.Context, session string, hour time.Time, lines []byte) error {
	return c.spool.Append(ctx, []spool.Piece{{Whole: layout.SeriesKey(c.opts.Root, c.sessions.ref(session), hour), Data: lines}})
}

// Addr is where events are taken.
func (c *Collector) Addr() net.Addr { return c.listener.Addr() }

// Start begins to collect.
func (c *Collector) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() { c.served <- c.server.Serve(c.listener) }()
	c.tailer.Start()
	c.shipper.Start()
	if c.taker != nil {
		c.taker.Start()
	}
	go func() {
		defer close(c.done)
		c.watch(ctx)
	}()
}

// watchInterval is how often the facts of sessions are looked after.
const watchInterval = 15 * time.Second

// watch passes on what is new, and looks after the sessions' facts.
func (c *Collector) watch(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.spool.Notify():
			c.shipper.Wake()
		case <-c.tailer.Notify():
			c.shipper.Wake()
		case <-ticker.C:
			if err := c.tellSessions(ctx); err != nil && ctx.Err() == nil {
				c.opts.Log.WithError(err).Debug("the facts of a session are not stored yet; it is tried again")
			}
		}
	}
}

// tellSessions stores the start of the running session, and the end of those that are over and completely stored.
func (c *Collector) tellSessions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	present, running, err := c.tailer.Sessions()
	if err != nil {
		return err
	}
	var failed error
	for _, s := range present {
		switch {
		case s.Name == running:
			failed = errors.Join(failed, c.sessions.start(ctx, s.Name, false))
		case s.Stored && !c.sessions.ended(s.Name) && !s.LastWrite.IsZero() && !c.spooled(s.Name):
			failed = errors.Join(failed, c.sessions.end(ctx, s.Name, s.LastWrite))
		}
	}
	return failed
}
