package faulttest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
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

// The test binary starts itself as the process that is to be killed: this variable has its role, as JSON.
const childVariable = "FAULTTEST_CHILD"

// role is what a child is: a collector with a local store, or a task of maintenance.
type role struct {
	Life
	Faults    string // see faulty; "" for none
	Zip       bool
	Redact    bool
	Dashboard string        // an address, "" for none
	Metrics   time.Duration // Ray's are read this often, 0 for never
	MaxSeries int           // of Ray's metrics, 0 for many
	MaxSpool  int64         // bytes, 0 for all of the disk

	Task         string // "" for a collector
	Write, Phase int    // at which write a task is killed, and where in it
}

func (r role) command() *exec.Cmd {
	c := exec.Command(os.Args[0])
	text, _ := json.Marshal(r)
	c.Env = append(os.Environ(), childVariable+"="+string(text))
	return c
}

// ourselves is this binary as a collector.
func ourselves(r role) Subject {
	return Subject{
		Command: func(l Life) *exec.Cmd {
			living := r
			living.Life = l
			return living.command()
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
	text := os.Getenv(childVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var r role
	err := json.Unmarshal([]byte(text), &r)
	switch {
	case err != nil:
	case r.Task != "":
		err = r.maintain()
	default:
		err = r.collect()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// collect is a collector, until SIGTERM.
func (r role) collect() error {
	store, err := local.Open(filepath.Join(r.Dir, "data"))
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
		Store: store, Root: "log", Namespace: "default", Cluster: "lab", RayTmpDir: r.Dir + "/ray",
		SpoolDir: r.Dir + "/spool", SpoolMaxBytes: r.MaxSpool, Dashboard: r.Dashboard,
		Servers: collector.NewServers(collector.Listeners{EventsAddress: collector.Loopback, EventsPort: r.Port,
			MetricsAddress: collector.Loopback}, log), Token: snapshot.Token("", "", nil),
		Ship: ship.Options{PushInterval: 200 * time.Millisecond}, Log: log, Registerer: registry, Gatherer: registry,
	}
	if r.Faults != "" && !r.Sound {
		count, err := os.OpenFile(filepath.Join(r.Dir, "faults"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		o.Store = &faulty{Store: store, faults: r.Faults, count: count, random: rand.New(rand.NewPCG(r.Number, 2))}
	}
	if r.Zip {
		o.EventCompression, o.LogCompression = layout.Zstd, layout.Gzip
	}
	if r.Redact {
		if o.Redact, err = redact.New(Redaction); err != nil {
			return err
		}
	}
	if r.Dashboard != "" {
		o.Head, o.Snapshot.Interval, o.Labels = true, 100*time.Millisecond, map[string]string{"a": secretLine}
	}
	if r.Metrics != 0 {
		o.Metrics, o.Scrape.Interval, o.Scrape.MaxSeries = collector.MetricsOn, r.Metrics, cmp.Or(r.MaxSeries, 50_000)
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
