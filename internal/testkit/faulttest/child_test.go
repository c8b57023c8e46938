package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// The test binary starts itself as the collector, or as a task of maintenance (see taskVariable), that is to be killed:
// these variables tell it so.
const (
	childVariable  = "FAULTTEST_CHILD"
	dirVariable    = "FAULTTEST_DIR"
	portVariable   = "FAULTTEST_PORT"
	seedVariable   = "FAULTTEST_SEED"
	faultsVariable = "FAULTTEST_FAULTS"
	zipVariable    = "FAULTTEST_ZSTD"
	// The collector redacts, and asks a dashboard at this address.
	redactVariable    = "FAULTTEST_REDACT"
	dashboardVariable = "FAULTTEST_DASHBOARD"
	// Ray's metrics are read this often, of so many series, and the spool may have so many bytes.
	metricsVariable = "FAULTTEST_METRICS"
	seriesVariable  = "FAULTTEST_SERIES"
	spoolVariable   = "FAULTTEST_SPOOL"
)

// ourselves is this binary as a collector with a local store that fails so (see faulty), "" for never.
func ourselves(faults string, env ...string) Subject {
	return Subject{
		Command: func(l Life) *exec.Cmd {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), childVariable+"=1", dirVariable+"="+l.Dir,
				portVariable+"="+strconv.Itoa(l.Port), seedVariable+"="+strconv.FormatUint(l.Number, 10))
			if !l.Sound {
				c.Env = append(c.Env, faultsVariable+"="+faults)
			}
			c.Env = append(c.Env, env...)
			return c
		},
		Store: func(t *testing.T, dir string) blob.Store {
			store := must.Get(local.Open(filepath.Join(dir, "data")))(t)
			t.Cleanup(func() { _ = store.Close() })
			return store
		},
		Faults: func(dir string) int {
			injected, _ := os.ReadFile(filepath.Join(dir, "faults"))
			return len(injected)
		},
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	run := child
	if os.Getenv(taskVariable) != "" {
		run = maintain
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is a collector with a local store that fails.
func child() error {
	dir := os.Getenv(dirVariable)
	port, err := strconv.Atoi(os.Getenv(portVariable))
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		return err
	}
	store, err := local.Open(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	log := logrus.New()
	log.SetOutput(os.Stderr)
	log.SetLevel(logrus.DebugLevel)
	log.SetFormatter(&logrus.TextFormatter{TimestampFormat: time.RFC3339Nano})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	o := collector.Options{
		Store: store, Root: "log", Namespace: "default", Cluster: "lab", RayTmpDir: dir + "/ray",
		SpoolDir: dir + "/spool",
		Servers: collector.NewServers(collector.Listeners{EventsAddress: collector.Loopback, EventsPort: port,
			MetricsAddress: collector.Loopback}, log), Token: snapshot.Token("", "", nil),
		Ship: ship.Options{PushInterval: 200 * time.Millisecond}, Log: log, Registerer: registry, Gatherer: registry,
	}
	if faults := os.Getenv(faultsVariable); faults != "" {
		count, err := os.OpenFile(filepath.Join(dir, "faults"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		o.Store = &faulty{Store: store, faults: faults, count: count, random: rand.New(rand.NewPCG(seed, 2))}
	}
	if os.Getenv(zipVariable) != "" {
		o.EventCompression, o.LogCompression = layout.Zstd, layout.Gzip
	}
	if os.Getenv(redactVariable) != "" {
		if o.Redact, err = redact.New(Redaction); err != nil {
			return err
		}
	}
	if o.Dashboard = os.Getenv(dashboardVariable); o.Dashboard != "" {
		o.Head, o.Snapshot.Interval, o.Labels = true, 100*time.Millisecond, map[string]string{"a": secretLine}
	}
	if every := os.Getenv(metricsVariable); every != "" {
		o.Metrics, o.Scrape.MaxSeries = collector.MetricsOn, 50_000
		if o.Scrape.Interval, err = time.ParseDuration(every); err != nil {
			return err
		}
	}
	if limit := os.Getenv(seriesVariable); limit != "" {
		if o.Scrape.MaxSeries, err = strconv.Atoi(limit); err != nil {
			return err
		}
	}
	if limit := os.Getenv(spoolVariable); limit != "" {
		if o.SpoolMaxBytes, err = strconv.ParseInt(limit, 10, 64); err != nil {
			return err
		}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if err := o.Servers.Open(); err != nil {
		return err
	}
	c, err := collector.New(o)
	if err != nil {
		return err
	}
	c.Start()
	<-signals
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.Close(ctx)
}
