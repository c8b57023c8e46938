package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
)

// softMemory is where the garbage collector begins to work harder, unless GOMEMLIMIT says otherwise: Ray's pods are sized for Ray.
const softMemory = 48 << 20

// run collects until SIGTERM or SIGINT and then stores what is left. A second signal interrupts that.
func (o *options) run(ctx context.Context, log logrus.FieldLogger) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	store, err := backend.Open(ctx, o.storage, log)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	config := o.collector()
	config.Store, config.Log, config.Registerer, config.Gatherer = store, log, registry, registry
	c, err := collector.New(config)
	if err != nil {
		return err
	}
	c.Start()
	log.WithFields(logrus.Fields{
		"version": version, "cluster": o.namespace + "/" + o.cluster, "head": o.head, "backend": o.storage.Backend, "events": c.Addr().String(),
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

// collector translates the settings.
func (o *options) collector() collector.Options {
	c := collector.Options{
		Root: o.storage.Root, Namespace: o.namespace, Cluster: o.cluster, OwnerKind: o.ownerKind, OwnerName: o.ownerName, Head: o.head,
		RayTmpDir: o.rayTmpDir, SpoolDir: o.spoolDir, SpoolMaxBytes: int64(o.spoolMaxBytes), EventsPort: o.eventsPort, PodIP: o.podIP,
		Dashboard: o.dashboard, Token: snapshot.Token(o.authMode, o.authToken, snapshot.TokenFiles(o.authTokenPath, o.authByKubernetes)),
		AdditionalEndpoints: o.additionalEndpoints, SnapshotInterval: o.snapshotInterval, SnapshotMaxBytes: int64(o.snapshotMaxBytes),
		PushInterval: o.pushInterval, UploadConcurrency: o.uploadConcurrency, UploadBytesPerSecond: int64(o.uploadRate),
		EventCompression: compressions[o.eventCompression], LogCompression: compressions[o.logCompression], DeleteShipped: o.deleteShipped,
	}
	if o.eventFsync == fsyncInterval {
		c.EventFsync = o.eventFsyncInterval
	}
	return c
}
