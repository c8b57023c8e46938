// Package collector runs beside the Ray processes of one node and stores their events, logs and metrics. On the head node it also stores
// the dashboard's answers. Its parts are the packages below; this package starts, connects and stops them.
package collector

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/node"
	"github.com/rayhistory/historyserver/pkg/collector/scrape"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
)

// Collector is made by New, started by Start and ended by Close.
type Collector struct {
	opts     Options
	sessions *sessions
	runs     *runs
	places   *places
	finder   *node.Finder
	spool    *spool.Spool
	tailer   *logs.Tailer
	shipper  *ship.Shipper
	taker    *snapshot.Taker // nil: no snapshots
	scraper  *scrape.Scraper // nil: no metrics
	grafana  map[string]bool // keys of the Grafana dashboards that are stored
	draining atomic.Bool
	folder   sync.Mutex // held while the spool's folder is made again

	answers, healthAnswers http.Handler

	cancel context.CancelFunc
	done   chan struct{}
}

// New opens the spool. Nothing is collected before Start. After an error nothing stays open but the servers; a NoRayError says that Ray must
// make its folder first.
func New(o Options) (*Collector, error) {
	o.Refused = cmp.Or(o.Refused, &sink.Refused{})
	c := &Collector{opts: o, done: make(chan struct{}), grafana: make(map[string]bool)}
	var err error
	if o.SpoolDir, err = spoolFolder(o); err != nil {
		return nil, err
	}
	c.opts.SpoolDir = o.SpoolDir
	if c.sessions, err = newSessions(o, filepath.Join(o.SpoolDir, "sessions.json")); err != nil {
		return nil, err
	}
	c.runs = newRuns(c.sessions.ranBefore())
	var client *snapshot.Client
	c.finder = &node.Finder{Dir: o.RayTmpDir, Head: o.Head, IP: o.PodIP}
	if o.Dashboard != "" {
		if client, err = snapshot.NewClient(o.Dashboard, o.Token); err != nil {
			return nil, err
		}
		c.finder.Get = client.Get
	}
	if c.spool, err = spool.Open(filepath.Join(o.SpoolDir, "events"), spool.Options{
		MaxBytes: o.SpoolMaxBytes, FsyncInterval: o.EventFsync, Check: c.sessions.checkSpooled, Remake: c.keepFolder, Log: o.Log, Registerer: o.Registerer,
	}); err != nil {
		return nil, err
	}
	if err = c.connect(client); err != nil {
		return nil, errors.Join(err, c.spool.Close())
	}
	return c, nil
}

// connect makes the parts that need the spool.
func (c *Collector) connect(client *snapshot.Client) (err error) {
	c.tailer = c.newTailer()
	if c.shipper, err = c.newShipper(); err != nil {
		return err
	}
	c.places = &places{dir: c.opts.RayTmpDir, finder: c.finder, latest: c.runs.latest, log: c.opts.Log}
	events, err := c.newSink(c.places)
	if err != nil {
		return err
	}
	c.scraper = c.newScraper()
	if c.opts.Head && client != nil {
		c.taker = c.newTaker(client, c.places)
	}
	c.answers, c.healthAnswers = c.routes(events), c.routes(nil)
	registerReady(c.opts.Registerer, func() bool { return c.notReady() == nil })
	return nil
}

// Start starts collecting.
func (c *Collector) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.opts.Servers.Answer(c.answers, c.healthAnswers)
	c.tailer.Start()
	c.shipper.Start()
	if c.taker != nil {
		c.taker.Start()
	}
	if c.scraper != nil {
		c.scraper.Start()
	}
	go func() {
		defer close(c.done)
		c.watch(ctx)
	}()
}
