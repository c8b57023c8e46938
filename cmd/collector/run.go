package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/programfile"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/blob/metered"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// run collects until SIGTERM or SIGINT, then stores the rest. A second signal interrupts that.
func (o *options) run(ctx context.Context, log logrus.FieldLogger) error {
	eventBody := o.limitMemory(os.DirFS("/"), log)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	c, err := o.open(ctx, log, eventBody, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	c.Start()
	log.WithFields(logrus.Fields{
		"version": version, "cluster": o.namespace + "/" + o.cluster, "head": o.head, "backend": o.storage.Backend, "events": c.EventsAddr().String(), "metrics": c.MetricsAddr().String(),
	}).Info("collecting")
	programfile.Unmap()
	got := <-signals
	log.Infof("%s: storing what is left, for at most %s; another signal interrupts", got, o.shutdownTimeout)
	ctx, cancel := context.WithTimeout(ctx, o.shutdownTimeout)
	defer cancel()
	go func() {
		<-signals
		cancel()
	}()
	if err := c.Close(ctx); err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	log.Info("everything is stored")
	return nil
}

// metricsRegistry registers metrics and is read by scrapes.
type metricsRegistry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// open creates the collector without starting it. eventBody is the maximum size of a body of events.
func (o *options) open(ctx context.Context, log logrus.FieldLogger, eventBody int64, metrics metricsRegistry) (*collector.Collector, error) {
	own := layout.Session{Namespace: o.namespace, Cluster: o.cluster, Name: "session_"}
	o.storage.Probe = strings.TrimSuffix(layout.Prefix(o.storage.Root, own), "/")
	store, err := backend.Open(ctx, o.storage, log)
	if err != nil {
		return nil, err
	}
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	config := o.collector()
	config.EventBodyBytes = eventBody
	config.Store, config.Log, config.Registerer, config.Gatherer = metered.New(store, metrics), log, metrics, metrics
	return collector.New(config)
}

// collector translates the settings into the collector's options.
func (o *options) collector() collector.Options {
	c := collector.Options{
		Root: o.storage.Root, Namespace: o.namespace, Cluster: o.cluster, OwnerKind: o.ownerKind, OwnerName: o.ownerName, Labels: o.labels, Head: o.head,
		RayTmpDir: o.rayTmpDir, SpoolDir: o.spoolDir, SpoolMaxBytes: int64(o.spoolMaxBytes), EventsAddress: o.eventsAddress, EventsPort: o.eventsPort,
		MetricsAddress: o.metricsAddress, MetricsPort: o.metricsPort, PodIP: o.podIP,
		Dashboard: o.dashboard, Token: snapshot.Token(o.authMode, o.authToken, snapshot.TokenFiles(o.authTokenPath, o.authByKubernetes)),
		AdditionalEndpoints: o.additionalEndpoints, SnapshotInterval: o.snapshotInterval, SnapshotMaxBytes: int64(o.snapshotMaxBytes),
		Metrics: collector.MetricsMode(o.metrics), MetricsInterval: o.metricsInterval, MetricsMaxSeries: o.metricsMaxSeries,
		PushInterval: o.pushInterval, MaxChunkBytes: int64(o.maxChunkBytes), UploadConcurrency: o.uploadConcurrency, UploadBytesPerSecond: int64(o.uploadRate),
		EventCompression: compressions[o.eventCompression], LogCompression: compressions[o.logCompression], DeleteShipped: o.deleteShipped,
	}
	if o.eventFsync == fsyncInterval {
		c.EventFsync = o.eventFsyncInterval
	}
	return c
}
