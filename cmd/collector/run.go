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
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/blob/metered"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// run collects until the process gets SIGTERM, SIGINT or SIGHUP, and then stores the rest. A second signal interrupts
// that. args and environ have the settings. The error says that the collector could not start, or that not everything
// is stored that it has the right to read.
func run(ctx context.Context, args, environ []string) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	if !signal.Ignored(syscall.SIGHUP) { // nohup has it ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGPIPE) // it would end the process if nobody reads its log any more
	s := newStartup(args, environ)
	c, err := s.await(ctx, signals)
	if c == nil {
		return err
	}
	o, log := s.options, s.log
	c.Start()
	if rules, slow := o.Redact.Rules(); rules > 0 {
		log.WithFields(logrus.Fields{"expressions and names": rules, "that read each line": slow}).Info("redacting")
	}
	log.WithFields(logrus.Fields{
		"version": version, "cluster": o.Namespace + "/" + o.Cluster, "head": o.Head,
		"backend": o.storage.Backend,
		"events":  s.servers.EventsAddr().String(), "metrics": s.servers.MetricsAddr().String(),
	}).Info("collecting")
	got := <-signals
	log.Infof("%s: storing what is left, for at most %s; another signal interrupts", got, o.shutdownTimeout)
	ctx, cancel := context.WithTimeout(ctx, o.shutdownTimeout)
	defer cancel()
	go func() {
		for again := range signals {
			// A shell that closes sends SIGHUP to its programs, and the kernel again to those in the foreground. With
			// signal.Ignore, one that comes just as that begins would end the process.
			if again != syscall.SIGHUP {
				cancel()
			}
		}
	}()
	if err := c.Close(ctx); err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	if err := c.Forbidden(); err != nil { // no error: another start would store no more
		log.WithError(err).Warn("not everything is stored")
	} else {
		log.Info("everything is stored")
	}
	return nil
}

// metricsRegistry is where the collector's parts register their metrics, and where /metrics reads them.
type metricsRegistry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// openStore opens the store that the settings name. To check that the store answers, it lists only the prefix of the
// own cluster: the collector may not have the right to list others.
func (o *options) openStore(ctx context.Context, log logrus.FieldLogger) (blob.Store, error) {
	own := layout.Session{Namespace: o.Namespace, Cluster: o.Cluster, Name: "session_"}
	config := o.storage
	config.Probe = strings.TrimSuffix(layout.Prefix(config.Root, own), "/")
	return backend.Open(ctx, config, log)
}

// open makes the collector, without starting it, and registers the process' metrics.
func (o *options) open(store blob.Store, metrics metricsRegistry) (*collector.Collector, error) {
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ignored := promauto.With(metrics).NewGauge(prometheus.GaugeOpts{Name: "rayhistory_collector_settings_ignored",
		Help: "1 if the collector ignores names that are no settings of its version; the log has them."})
	if o.unknown != nil {
		ignored.Set(1)
	}
	o.Store, o.Registerer, o.Gatherer = metered.New(store, metrics), metrics, metrics
	return collector.New(o.Options)
}
