package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/garbage"
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
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/explain"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/maintenance/upkeep"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server"
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
		return commands.UsageError(fmt.Errorf("--listen=%q: want a free port such as :8080, or an address and port such "+
			"as 127.0.0.1:8080: %w", o.listen, err))
	}
	defer func() { _ = listener.Close() }()
	signal.Ignore(syscall.SIGPIPE)        // it would end the process if nobody reads its log any more
	queries := 2 * int64(o.metricsMemory) // running queries may take as much again as the cached metrics
	garbage.Limit(o.sessions.MaxBytes + int64(o.answerMemory) + queries + logs.SearchMemory)
	return o.serve(ctx, listener, log, prometheus.NewRegistry())
}

// metricsRegistry is where parts of the server register their metrics, and where /metrics reads them.
type metricsRegistry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// serve makes the parts of the server, and runs them until ctx ends and all requests are answered. Parts are closed in
// the reverse order of their start.
func (o *serveOptions) serve(ctx context.Context, listener net.Listener, log logrus.FieldLogger,
	registry metricsRegistry) error {
	if err := commands.CheckFolder(o.storage); err != nil {
		log.Warnf("%v; until then nothing is shown", err) // the first collector may be about to create the folder
	}
	opened, err := backend.Open(ctx, o.storage, log)
	if err != nil {
		return commands.UsageError(err)
	}
	store := metered.New(opened, registry)
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	listing := o.catalog
	listing.Store, listing.Root, listing.Facts = store, o.storage.Root, true
	listing.Log, listing.Registerer = log, registry
	memory := budget.New(budget.Options{Bytes: int64(o.answerMemory), Registerer: registry})
	databases := metrics.NewDatabases(store, o.storage.Root, int64(o.metricsMemory)/2, registry)
	promQL := o.openPromQL(log)
	stored := &promapi.Stored{API: promQL, Databases: databases}
	loading := o.loaderOptions(store, memory, stored, log, registry)
	if loading.Writer != nil {
		o.dashboard.Findings.Kept = loading.Writer.KeptFindings
		listing.Packs, listing.Ending = &packs.Packs{Store: store, Root: o.storage.Root},
			outcomes.Ending(loading.Writer.KeptFindings)
	}
	sessions := catalog.New(listing)
	loading.Growing = sessions.Growing
	loader := sessionload.New(loading)
	defer loader.Close()
	cache := loader.Cache(o.sessions)
	defer cache.Close()
	book := notes.NewBook(notes.BookOptions{Store: store, Root: o.storage.Root, Log: log})
	keep, err := o.retentionPolicy(book)
	if err != nil {
		return commands.UsageError(err)
	}
	live, allowed, err := o.kubernetes.open(log)
	if err != nil {
		return commands.UsageError(err)
	}
	if listener, err = o.kubernetes.withTLS(ctx, listener, log); err != nil {
		return commands.UsageError(err)
	}
	prices, err := fleet.ReadPrices(o.prices)
	if err != nil {
		return commands.UsageError(fmt.Errorf("--prices: %w", err))
	}
	shown := panels.New(store, o.storage.Root, databases)
	o.dashboard.Log, o.dashboard.Memory, o.dashboard.Panels, o.dashboard.Findings.Metrics = log, memory, shown, stored
	o.dashboard.Wait = o.loadTimeout
	answers := dashboard.New(o.dashboard)
	shown.Findings = answers.Findings
	handler, err := server.New(server.Options{
		Catalog: sessions, Live: live, Access: allowed,
		KubernetesCluster: o.kubernetes.access.KubernetesCluster, Browser: o.browser, Sessions: cache,
		Memory: memory, DashboardDir: o.dashboardDir,
		Routes: answers.Routes(), Findings: answers.Findings, Settings: answers.Settings(),
		Fleet: &fleet.Fleet{Packs: listing.Packs, Unpacked: sessions.Unpacked, Memory: memory,
			MaxSessions: fleet.ServerMaxSessions, Prices: prices},
		Metrics: databases, PromQL: promQL, Notes: book, WriteNotes: o.notes, Retention: keep,
		Dashboard: answers, ListLogs: func(ctx context.Context, ref layout.Session) (*moment.Moment, error) {
			s, err := session.List(ctx, store, o.storage.Root, ref)
			return answers.MomentAt(s, 0), err
		},
		Stored: func(ctx context.Context, ref layout.Session) (inventory.Summary, error) {
			return inventory.Summarize(ctx, store, o.storage.Root, ref, o.storage.BucketKey)
		},
		CollectorVersion: o.kubernetes.collectorVersion(), Storage: o.storage.Describe(), Version: version,
		LoadWait: o.loadTimeout, Log: log, Registerer: registry, Gatherer: registry,
	})
	if err != nil {
		return commands.UsageError(err)
	}
	book.Start()
	defer book.Close()
	sender, err := o.newSender(store, sessionReader{
		sessions: sessions, cache: cache, dashboard: answers, indexes: loading.Writer, log: log,
	}, registry)
	if err != nil {
		return commands.UsageError(err)
	}
	sessions.Start()
	defer sessions.Close()
	live.Start()
	defer live.Close()
	allowed.Start()
	defer allowed.Close()
	tidying := o.upkeep
	tidying.Store, tidying.Root, tidying.Log = store, o.storage.Root, log
	tidying.Sessions = func() iter.Seq[catalog.Entry] { return sessions.Cached().All() }
	tidying.Retention, tidying.ReadOutcomes, tidying.Quiet = keep, sessions.ReadOutcomes, lifetime.Idle
	defer upkeep.Start(tidying).Close()
	explainer := o.newExplainer(store, sessions, loader, cache, loading.Writer, log, registry)
	explainer.Start()
	defer explainer.Close()
	sender.Start()
	defer sender.Close()
	return o.run(ctx, listener, handler, log, answers.Close, explainer.Close, sender.Close)
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

// loaderOptions returns the options of the session loader. They have a writer of indexes unless indexes are off.
func (o *serveOptions) loaderOptions(
	store blob.Store, memory *budget.Budget, stored *promapi.Stored, log logrus.FieldLogger,
	registry prometheus.Registerer,
) sessionload.Options {
	options := sessionload.Options{
		Store: store, Root: o.storage.Root, Memory: memory, Log: log, Registerer: registry,
	}
	if o.indexMode != "off" {
		o.index.Store, o.index.Root, o.index.Metrics, o.index.Log = store, o.storage.Root, stored, log
		options.Writer = o.index.Open()
	}
	return options
}

// newExplainer makes what finds out in the background how and why ended sessions ended. It does nothing if indexes are
// off (indexes is nil), because the findings are kept with them.
func (o *serveOptions) newExplainer(
	store blob.Store, sessions *catalog.Catalog, loader *sessionload.Loader,
	cache *sessioncache.Cache[*session.Session],
	indexes *index.Writer, log logrus.FieldLogger, registry prometheus.Registerer,
) *explain.Explainer {
	options := o.explain
	options.Store, options.Root, options.Learned = store, o.storage.Root, sessions.Reread
	options.Log, options.Registerer = log, registry
	options.Sessions = func() iter.Seq[catalog.Entry] {
		return sessions.Cached().Unexplained(findings.KeptVersion, time.Now())
	}
	options.Explain = func(ctx context.Context, ref layout.Session) error { return loader.Explain(ctx, cache, ref) }
	if indexes == nil {
		options.Requests = 0
	} else {
		options.Kept, options.Keep = indexes.KeptFindings, indexes.PutFindings
	}
	return explain.New(options)
}

// run serves requests until ctx ends, and then waits for those that are being answered, at most the shutdown timeout.
// Writing an answer has no time limit, because a client may follow a log.
//
// When it begins to wait, it calls each of closers. They end answers that would never end, and parts that answers do
// not need, so that another replica takes over their work at once.
func (o *serveOptions) run(ctx context.Context, listener net.Listener, handler *server.Server, log logrus.FieldLogger,
	closers ...func()) error {
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
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
