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

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/blob/metered"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// run collects until SIGTERM or SIGINT, then stores the rest. A second signal interrupts that.
func run(ctx context.Context, args, environ []string) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	s := newStartup(args, environ)
	c, err := s.await(ctx, signals)
	if c == nil {
		return err
	}
	o, log := s.options, s.log
	c.Start()
	if rules, slow := o.redactor.Rules(); rules > 0 {
		log.WithFields(logrus.Fields{"expressions and names": rules, "that read each line": slow}).Info("redacting")
	}
	log.WithFields(logrus.Fields{
		"version": version, "cluster": o.storedNamespace() + "/" + o.cluster, "head": o.head,
		"backend": o.storage.Backend,
		"events":  s.servers.EventsAddr().String(), "metrics": s.servers.MetricsAddr().String(),
	}).Info("collecting")
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

// openStore opens the store that the settings name.
func (o *options) openStore(ctx context.Context, log logrus.FieldLogger) (blob.Store, error) {
	own := layout.Session{Namespace: o.storedNamespace(), Cluster: o.cluster, Name: "session_"}
	config := o.storage
	config.Probe = strings.TrimSuffix(layout.Prefix(config.Root, own), "/")
	return backend.Open(ctx, config, log)
}

// open creates the collector without starting it. own are the options that do not come from settings.
func (o *options) open(store blob.Store, own collector.Options, metrics metricsRegistry) (*collector.Collector, error) {
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	config := o.collector()
	config.Log, config.Servers, config.Refused, config.EventBodyBytes = own.Log, own.Servers, own.Refused,
		own.EventBodyBytes
	config.Store, config.Registerer, config.Gatherer = metered.New(store, metrics), metrics, metrics
	return collector.New(config)
}

// collector translates the settings into the collector's options.
func (o *options) collector() collector.Options {
	c := collector.Options{
		Root: o.storage.Root, Namespace: o.storedNamespace(), Cluster: o.cluster, OwnerKind: o.ownerKind,
		OwnerName: o.ownerName, Labels: o.labels, Head: o.head,
		RayTmpDir: o.rayTmpDir, SpoolDir: o.spoolDir, SpoolMaxBytes: int64(o.spoolMaxBytes), PodIP: o.podIP,
		Dashboard: o.dashboard, Token: snapshot.Token(o.authMode, o.authToken,
			snapshot.TokenFiles(o.authTokenPath, o.authByKubernetes)),
		AdditionalEndpoints: o.additionalEndpoints, SnapshotInterval: o.snapshotInterval,
		SnapshotMaxBytes: int64(o.snapshotMaxBytes),
		Metrics:          collector.MetricsMode(o.metrics), MetricsInterval: o.metricsInterval,
		MetricsMaxSeries: o.metricsMaxSeries,
		PushInterval:     o.pushInterval, MaxChunkBytes: int64(o.maxChunkBytes), UploadConcurrency: o.uploadConcurrency,
		UploadBytesPerSecond: int64(o.uploadRate),
		EventCompression:     compressions[o.eventCompression], LogCompression: compressions[o.logCompression],
		DeleteShipped: o.deleteShipped, Redact: o.redactor,
	}
	if o.eventFsync == fsyncInterval {
		c.EventFsync = o.eventFsyncInterval
	}
	return c
}
