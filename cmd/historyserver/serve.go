package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/cgroup"
	"github.com/rayhistory/historyserver/internal/garbage"
	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/blob/metered"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/outcomes"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/explain"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/maintenance/upkeep"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/logs"
	"github.com/rayhistory/historyserver/pkg/server/panels"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/session/sessionload"
)

// listenAndServe limits the process' memory by the settings, and serves at the configured address until ctx ends.
func (o *serveOptions) listenAndServe(ctx context.Context, log logrus.FieldLogger) error {
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return settings.UsageError(fmt.Errorf("--listen=%q: want a free port such as :8080, or an address and port such "+
			"as 127.0.0.1:8080: %w", o.listen, err))
	}
	defer func() { _ = listener.Close() }()
	signal.Ignore(syscall.SIGPIPE) // it would end the process if nobody reads its log any more
	memory, tooMuch := o.memory(os.DirFS("/"))
	if tooMuch != nil {
		log.Warn(tooMuch)
	}
	garbage.Limit(memory)
	return o.serve(ctx, listener, log, prometheus.NewRegistry())
}

// memory returns how much memory the settings allow, in bytes, and an error if the container has less. root is the file
// system's root.
func (o *serveOptions) memory(root fs.FS) (bytes int64, tooMuch error) {
	queries := 2 * int64(o.metricsMemory) // running queries may take as much again as the cached metrics
	bytes = o.sessions.MaxBytes + int64(o.answerMemory) + queries + logs.SearchMemory
	if limit := cgroup.MemoryLimit(root); limit > 0 && bytes > limit {
		tooMuch = fmt.Errorf("the settings allow the server %s of memory, and its container has %s: raise the container's "+
			"limit, or lower --session-cache-max-memory, --max-answer-memory or --max-metrics-memory",
			human.Bytes(bytes), human.Bytes(limit))
	}
	return bytes, tooMuch
}

// metricsRegistry is where parts of the server register their metrics, and where /metrics reads them.
type metricsRegistry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// parts are what the server is made of. All of them use one store.
type parts struct {
	log       logrus.FieldLogger
	registry  metricsRegistry
	store     blob.Store
	memory    *budget.Budget     // for answers
	databases *metrics.Databases // of sessions' metrics
	promQL    *promapi.API
	// indexes writes sessions' indexes and findings, packs has facts of ended sessions. Both are nil if indexes are
	// off.
	indexes   *index.Writer
	packs     *packs.Packs
	sessions  *catalog.Catalog
	loader    *sessionload.Loader
	cache     *sessioncache.Cache[*session.Session]
	book      *notes.Book
	retention *retention.Policy // nil: sessions are never removed
	dashboard *dashboard.Dashboard
}

// serve makes the parts of the server, and runs them until ctx ends and all requests are answered. Parts are closed in
// the reverse order of their start; those that run closes before have nothing left to close then.
func (o *serveOptions) serve(ctx context.Context, listener net.Listener, log logrus.FieldLogger,
	registry metricsRegistry) error {
	p := &parts{log: log, registry: registry}
	if err := o.openStore(ctx, p); err != nil {
		return settings.UsageError(err)
	}
	o.openSessions(p)
	defer p.loader.Close()
	defer p.cache.Close()
	var err error
	if p.retention, err = o.retentionPolicy(p.book); err != nil {
		return settings.UsageError(err)
	}
	live, allowed, err := o.kubernetes.open(log)
	if err != nil {
		return settings.UsageError(err)
	}
	if listener, err = o.kubernetes.withTLS(ctx, listener, log); err != nil {
		return settings.UsageError(err)
	}
	handler, err := o.newServer(p, live, allowed)
	if err != nil {
		return settings.UsageError(err)
	}
	sender, err := o.newSender(p.store, sessionReader{
		sessions: p.sessions, cache: p.cache, dashboard: p.dashboard, indexes: p.indexes, log: log,
	}, registry)
	if err != nil {
		return settings.UsageError(err)
	}
	p.book.Start()
	defer p.book.Close()
	p.sessions.Start()
	defer p.sessions.Close()
	live.Start()
	defer live.Close()
	allowed.Start()
	defer allowed.Close()
	defer o.startUpkeep(p).Close()
	explainer := o.newExplainer(p)
	explainer.Start()
	defer explainer.Close()
	sender.Start()
	defer sender.Close()
	return o.run(ctx, listener, handler, log, p.dashboard.Close, explainer.Close, sender.Close)
}

// openStore opens the store, and makes what has no other needs than that: metrics of the process, the memory for
// answers, and the notes.
func (o *serveOptions) openStore(ctx context.Context, p *parts) error {
	if err := commands.CheckFolder(o.storage); err != nil {
		p.log.Warnf("%v; until then nothing is shown", err) // the first collector may be about to create the folder
	}
	opened, err := backend.Open(ctx, o.storage, p.log)
	if err != nil {
		return err
	}
	p.store = metered.New(opened, p.registry)
	p.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.memory = budget.New(budget.Options{Bytes: int64(o.answerMemory), Registerer: p.registry})
	p.book = notes.NewBook(notes.BookOptions{Store: p.store, Root: o.storage.Root, Log: p.log})
	return nil
}

// openSessions makes what reads sessions: the queries of their metrics, the indexes, the list of all, the loader and
// the cache of loaded ones, and the dashboard.
func (o *serveOptions) openSessions(p *parts) {
	cachedBytes := int64(o.metricsMemory) / 2 // queries have the other half, see openPromQL
	p.databases = metrics.NewDatabases(p.store, o.storage.Root, cachedBytes, p.registry)
	p.promQL = o.openPromQL(p.log)
	stored := &promapi.Stored{API: p.promQL, Databases: p.databases}
	listing := o.catalog
	listing.Store, listing.Root, listing.Log, listing.Registerer = p.store, o.storage.Root, p.log, p.registry
	listing.Facts = true // for searches and the fleet's totals
	if o.indexMode != "off" {
		o.index.Store, o.index.Root, o.index.Metrics, o.index.Log = p.store, o.storage.Root, stored, p.log
		p.indexes = o.index.Open()
		p.packs = &packs.Packs{Store: p.store, Root: o.storage.Root}
		o.dashboard.Findings.Kept = p.indexes.KeptFindings
		listing.Packs, listing.Ending = p.packs, outcomes.Ending(p.indexes.KeptFindings)
	}
	p.sessions = catalog.New(listing)
	p.loader = sessionload.New(sessionload.Options{
		Store: p.store, Root: o.storage.Root, Memory: p.memory, Writer: p.indexes, Growing: p.sessions.Growing,
		Log: p.log, Registerer: p.registry,
	})
	p.cache = p.loader.Cache(o.sessions)
	charts := panels.New(p.store, o.storage.Root, p.databases)
	o.dashboard.Log, o.dashboard.Memory, o.dashboard.Wait = p.log, p.memory, o.loadTimeout
	o.dashboard.Panels, o.dashboard.Findings.Metrics = charts, stored
	p.dashboard = dashboard.New(o.dashboard)
	charts.Findings = p.dashboard.Findings
}

// newServer makes the server of all requests. live are the clusters that run now, allowed decides what a caller may
// see.
func (o *serveOptions) newServer(p *parts, live *kube.Clusters, allowed *access.Access) (*server.Server, error) {
	prices, err := fleet.ReadPrices(o.prices)
	if err != nil {
		return nil, fmt.Errorf("--prices: %w", err)
	}
	return server.New(server.Options{
		Catalog: p.sessions, Live: live, Access: allowed,
		KubernetesCluster: o.kubernetes.access.KubernetesCluster, Browser: o.browser, Sessions: p.cache,
		Memory: p.memory, DashboardDir: o.dashboardDir,
		Routes: p.dashboard.Routes(), Findings: p.dashboard.Findings, Settings: p.dashboard.Settings(),
		Fleet: &fleet.Fleet{Packs: p.packs, Unpacked: p.sessions.Unpacked, Memory: p.memory,
			MaxSessions: fleet.ServerMaxSessions, Prices: prices},
		Metrics: p.databases, PromQL: p.promQL, Notes: p.book, WriteNotes: o.notes, Retention: p.retention,
		Dashboard: p.dashboard, ListLogs: func(ctx context.Context, ref layout.Session) (*moment.Moment, error) {
			s, err := session.List(ctx, p.store, o.storage.Root, ref)
			if err != nil {
				return nil, err
			}
			return p.dashboard.MomentAt(s, moment.AtEnd), nil
		},
		Stored: func(ctx context.Context, ref layout.Session) (inventory.Summary, error) {
			return inventory.Summarize(ctx, p.store, o.storage.Root, ref, o.storage.BucketKey)
		},
		CollectorVersion: o.kubernetes.collectorVersion(), Storage: o.storage.Describe(), Version: version,
		LoadWait: o.loadTimeout, Log: p.log, Registerer: p.registry, Gatherer: p.registry,
	})
}

// startUpkeep starts what removes and compacts sessions in the background.
func (o *serveOptions) startUpkeep(p *parts) *upkeep.Upkeep {
	options := o.upkeep
	options.Store, options.Root, options.Log = p.store, o.storage.Root, p.log
	options.Sessions = func() iter.Seq[catalog.Entry] { return p.sessions.Cached().All() }
	options.Retention, options.ReadOutcomes = p.retention, p.sessions.ReadOutcomes
	options.Quiet = lifetime.Idle // a session without newer objects counts as ended, as in the list
	return upkeep.Start(options)
}

// retentionPolicy returns the policy of --retention and --retention-rules; nil if neither is set.
func (o *serveOptions) retentionPolicy(book *notes.Book) (*retention.Policy, error) {
	if o.retention == 0 && o.retentionRules == "" {
		return nil, nil
	}
	policy := &retention.Policy{Age: o.retention, Note: book.Of}
	if o.retentionRules == "" {
		return policy, nil
	}
	var err error
	if policy.Rules, err = retention.ReadRules(o.retentionRules); err != nil {
		return nil, fmt.Errorf("--retention-rules: %w", err)
	}
	return policy, nil
}

const (
	// concurrentQueries is the number of PromQL queries that run at once. A page of panels sends about forty.
	concurrentQueries = 4
	// sampleBytes is the memory of one sample in a query.
	sampleBytes = 16
)

// openPromQL makes what answers PromQL. The samples of all queries that run at once take at most a quarter of the
// memory for metrics.
func (o *serveOptions) openPromQL(log logrus.FieldLogger) *promapi.API {
	options := o.promQL
	options.MaxSamples = int(o.metricsMemory) / 4 / concurrentQueries / sampleBytes
	options.Concurrent, options.Wait, options.Version, options.Log = concurrentQueries, o.loadTimeout, version, log
	return promapi.New(options)
}

// newExplainer makes what finds out in the background how and why ended sessions ended. It does nothing if indexes are
// off, because the findings are kept with them.
func (o *serveOptions) newExplainer(p *parts) *explain.Explainer {
	options := o.explain
	options.Store, options.Root = p.store, o.storage.Root
	options.Learned = p.sessions.Reread // the list gets the outcome of a session that was explained
	options.Log, options.Registerer = p.log, p.registry
	options.Sessions = func() iter.Seq[catalog.Entry] {
		return p.sessions.Cached().Unexplained(findings.KeptVersion, time.Now())
	}
	options.Explain = func(ctx context.Context, ref layout.Session) error { return p.loader.Explain(ctx, p.cache, ref) }
	if p.indexes == nil {
		options.Requests = 0 // it does nothing
	} else {
		options.Kept, options.Keep = p.indexes.KeptFindings, p.indexes.PutFindings
	}
	return explain.New(options)
}

// newHTTPServer returns what serves a handler. Idle connections stay open longer than those of load balancers, which
// must close them first: a request on one that the server is closing gets their 502. Google's keep them for ten minutes
// (cloud.google.com/load-balancing/docs/https#timeouts_and_retries), Amazon's for one.
func newHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       11 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

// run serves requests until ctx ends, and then waits for those that are being answered, at most the shutdown timeout.
// Writing an answer has no time limit, because a client may follow a log.
//
// When it begins to wait, it calls each of closers. They end answers that would never end, and parts that answers do
// not need, so that another replica takes over their work at once.
func (o *serveOptions) run(ctx context.Context, listener net.Listener, handler *server.Server, log logrus.FieldLogger,
	closers ...func()) error {
	srv := newHTTPServer(handler)
	for _, closer := range closers {
		srv.RegisterOnShutdown(closer)
	}
	log.WithFields(logrus.Fields{"version": version, "address": listener.Addr().String(),
		"storage": o.storage.Describe()}).Info("serving")
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	handler.Drain()
	if o.kubernetes.shutdownDelay > 0 {
		log.WithField("delay", o.kubernetes.shutdownDelay).Info("shutting down after a delay")
		time.Sleep(o.kubernetes.shutdownDelay)
	}
	log.Info("shutting down")
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.shutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(deadline); errors.Is(err, context.DeadlineExceeded) {
		log.Warn("some requests did not end in time and are cut off")
		return srv.Close()
	} else if err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	return nil
}
