package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/logging"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/server"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// serveOptions are the settings of the server.
type serveOptions struct {
	storage         backend.Config
	listen          string
	dashboardDir    string
	catalogInterval time.Duration
	cacheMemory     settings.Bytes
	cacheLoads      int
	indexMode       string
	index           indexOptions
	upkeep          upkeepOptions
	cacheRefresh    time.Duration
	loadTimeout     time.Duration
	shutdownTimeout time.Duration
	dashboard       dashboard.Options
	kubernetes      kubernetesOptions
	log             logging.Options
}

func (o *serveOptions) addFlags(fs *pflag.FlagSet) {
	o.storage.AddFlags(fs)
	fs.StringVar(&o.listen, "listen", ":8080", "address to serve on")
	fs.StringVar(&o.dashboardDir, "dashboard-dir", "./dashboard", "folder with builds of the Ray Dashboard's frontend, one in each folder v{Ray version}")
	fs.DurationVar(&o.catalogInterval, "catalog-interval", 30*time.Second, "time between two listings of the stored sessions")
	o.cacheMemory = 2 << 30
	fs.Var(&o.cacheMemory, "session-cache-max-memory", "memory that sessions may take, loaded or being loaded, as 512MiB")
	fs.IntVar(&o.cacheLoads, "session-cache-max-loads", 2, "sessions that are loaded at a time")
	fs.DurationVar(&o.cacheRefresh, "session-cache-refresh-interval", 3*time.Second, "shortest time between two looks for what a running session has added")
	fs.StringVar(&o.indexMode, "index", "auto", "auto: sessions' indexes are used, and written in the background once a session was loaded; off: neither")
	o.index.addFlags(fs)
	o.upkeep.addFlags(fs)
	fs.DurationVar(&o.loadTimeout, "session-load-timeout", 20*time.Second, "how long a request waits for its session before it is told to come back; at most 25s, for Ray's proxying dashboard waits 30s")
	fs.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 10*time.Second, "how long requests may take to end after SIGTERM")
	fs.StringVar(&o.dashboard.GrafanaHost, "grafana-host", "", "URL of Grafana as this server reaches it, for the dashboard's metrics; empty: none")
	fs.StringVar(&o.dashboard.GrafanaIframeHost, "grafana-iframe-host", "", "URL of Grafana as browsers reach it; empty: --grafana-host")
	fs.StringVar(&o.dashboard.PrometheusHost, "prometheus-host", "", "URL of Prometheus; empty: none")
	fs.StringVar(&o.dashboard.PrometheusName, "prometheus-name", "Prometheus", "name of the Prometheus data source in Grafana")
	fs.StringVar(&o.dashboard.GrafanaOrgID, "grafana-org-id", "1", "Grafana organization")
	fs.StringVar(&o.dashboard.GrafanaClusterFilter, "grafana-cluster-filter", "", "value of the cluster filter of Grafana's panels; empty: none")
	fs.IntVar(&o.dashboard.MaxLimit, "max-limit", 10000, "most rows that one State API request may ask for")
	o.kubernetes.addFlags(fs)
	o.log.AddFlags(fs)
	settings.Bind(fs, map[string][]string{
		"grafana-host":           {"RAY_GRAFANA_HOST"},
		"grafana-iframe-host":    {"RAY_GRAFANA_IFRAME_HOST"},
		"grafana-org-id":         {"RAY_GRAFANA_ORG_ID"},
		"grafana-cluster-filter": {"RAY_GRAFANA_CLUSTER_FILTER"},
		"prometheus-host":        {"RAY_PROMETHEUS_HOST"},
		"prometheus-name":        {"RAY_PROMETHEUS_NAME"},
		"max-limit":              {"RAY_MAX_LIMIT_FROM_API_SERVER"},
	})
}

// complete reads what the command line left open from the environment and the settings file, and checks it.
func (o *serveOptions) complete(fs *pflag.FlagSet, environ []string) (logrus.FieldLogger, error) {
	if err := settings.Load(fs, environ); err != nil {
		return nil, err
	}
	switch {
	case o.cacheLoads < 1:
		return nil, fmt.Errorf("--session-cache-max-loads=%d: want at least 1", o.cacheLoads)
	case o.indexMode != "auto" && o.indexMode != "off":
		return nil, fmt.Errorf("--index=%q: want auto or off", o.indexMode)
	case o.catalogInterval < time.Second:
		return nil, fmt.Errorf("--catalog-interval=%s: want at least 1s", o.catalogInterval)
	case o.cacheRefresh <= 0:
		return nil, fmt.Errorf("--session-cache-refresh-interval=%s: want more than 0", o.cacheRefresh)
	case o.loadTimeout <= 0 || o.loadTimeout > 25*time.Second:
		return nil, fmt.Errorf("--session-load-timeout=%s: want more than 0 and at most 25s", o.loadTimeout)
	case o.shutdownTimeout < 0:
		return nil, fmt.Errorf("--shutdown-timeout=%s: want at least 0", o.shutdownTimeout)
	case o.dashboard.MaxLimit < 1:
		return nil, fmt.Errorf("--max-limit=%d: want at least 1", o.dashboard.MaxLimit)
	}
	if err := o.upkeep.complete(); err != nil {
		return nil, err
	}
	if err := o.kubernetes.complete(fs); err != nil {
		return nil, err
	}
	return o.log.New(os.Stderr)
}

// besideSessions is how much more than the sessions a process may take before the garbage collector works harder.
const besideSessions = 128 << 20

// limitMemory makes the garbage collector keep to what sessions may take and a little more, unless GOMEMLIMIT says otherwise.
func limitMemory(sessions int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(sessions + besideSessions)
	}
}

// listenAndServe is serve on the address of the settings.
func (o *serveOptions) listenAndServe(ctx context.Context, log logrus.FieldLogger) error {
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen=%q: %w", o.listen, err)
	}
	defer func() { _ = listener.Close() }()
	limitMemory(int64(o.cacheMemory))
	return o.serve(ctx, listener, log)
}

// serve runs the server until ctx ends, and then until its requests have.
func (o *serveOptions) serve(ctx context.Context, listener net.Listener, log logrus.FieldLogger) error {
	store, err := backend.Open(ctx, o.storage, log)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	sessions := catalog.New(catalog.Options{Store: store, Root: o.storage.Root, Interval: o.catalogInterval, Log: log, Registerer: registry})
	cache, closeCache := o.newCache(store, sessions, log, registry)
	defer closeCache()
	live, allowed, err := o.kubernetes.open(log)
	if err != nil {
		return err
	}
	if listener, err = o.kubernetes.secure(ctx, listener, log); err != nil {
		return err
	}
	o.dashboard.Log = log
	handler, err := server.New(server.Options{
		Catalog: sessions, Live: live, Access: allowed, Sessions: cache, Routes: dashboard.New(o.dashboard).Routes(), DashboardDir: o.dashboardDir,
		Storage: o.describeStorage(), Version: version, LoadWait: o.loadTimeout, Log: log, Registerer: registry, Gatherer: registry,
	})
	if err != nil {
		return err
	}
	sessions.Start()
	defer sessions.Close()
	live.Start()
	defer live.Close()
	keeper := upkeep{
		options: &o.upkeep, store: store, root: o.storage.Root, log: log,
		sessions: func() []catalog.Entry { return sessions.Known().Entries },
	}
	keeper.Start()
	defer keeper.Close()
	return o.run(ctx, listener, handler, log)
}

func (o *serveOptions) describeStorage() string {
	if o.storage.LocalDir != "" && (o.storage.Backend == "local" || o.storage.Backend == "localtest") {
		return fmt.Sprintf("the local folder %s, below %s/", o.storage.LocalDir, o.storage.Root)
	}
	return fmt.Sprintf("the %s backend, below %s/", o.storage.Backend, o.storage.Root)
}

// run serves until ctx ends. Answers may take as long as a client reads a log, so there is no limit on writing.
func (o *serveOptions) run(ctx context.Context, listener net.Listener, handler *server.Server, log logrus.FieldLogger) error {
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	log.WithFields(logrus.Fields{"version": version, "address": listener.Addr().String(), "storage": o.describeStorage()}).Info("serving")
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
		log.Warn("some requests did not end in time and are cut")
		return srv.Close()
	} else if err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	return nil
}
