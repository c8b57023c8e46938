package faulttest

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// The test binary starts itself as the collector that is to be killed: these variables tell it so.
const (
	childVariable = "FAULTTEST_CHILD"
	dirVariable   = "FAULTTEST_DIR"
	portVariable  = "FAULTTEST_PORT"
	seedVariable  = "FAULTTEST_SEED"
	zipVariable   = "FAULTTEST_ZSTD"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, "collector:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is a collector with a local store that fails by the seed, 0 for never.
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
	store, err := local.Open(dir + "/data")
	if err != nil {
		return err
	}
	log := logrus.New()
	log.SetOutput(os.Stderr)
	log.SetLevel(logrus.DebugLevel)
	log.SetFormatter(&logrus.TextFormatter{TimestampFormat: time.RFC3339Nano})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	o := collector.Options{
		Store: store, Root: "log", Namespace: "default", Cluster: "lab", RayTmpDir: dir + "/ray", SpoolDir: dir + "/spool", EventsPort: port,
		Token: snapshot.Token("", "", nil), PushInterval: 200 * time.Millisecond, Log: log, Registerer: registry, Gatherer: registry,
	}
	if seed > 0 {
		o.Store = &faulty{Store: store, random: rand.New(rand.NewPCG(seed, 2))}
	}
	if os.Getenv(zipVariable) != "" {
		o.EventCompression, o.LogCompression = layout.Zstd, layout.Gzip
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
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

// faulty is a store that fails now and then, in every way that stores do.
type faulty struct {
	blob.Store

	mu     sync.Mutex
	random *rand.Rand
}

func (f *faulty) roll(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

// Create implements blob.Creator.
func (f *faulty) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	switch f.roll(20) {
	case 0:
		return fmt.Errorf("create %s: status 500", key)
	case 1:
		return fmt.Errorf("create %s: status 503: %w", key, blob.ErrThrottled)
	case 2:
		return fmt.Errorf("create %s: status 403: %w", key, blob.ErrPermission)
	case 3:
		_, err := io.CopyN(io.Discard, body, 10)
		return fmt.Errorf("create %s: connection reset: %w", key, err)
	case 4:
		if err := f.Store.Create(ctx, key, body); err != nil {
			return err
		}
		return fmt.Errorf("create %s: the answer was lost", key)
	case 5:
		time.Sleep(time.Duration(f.roll(200)) * time.Millisecond)
	}
	return f.Store.Create(ctx, key, body)
}

// List implements blob.Lister; a part of the listings breaks off.
func (f *faulty) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	left := 1 << 30
	if f.roll(10) == 0 {
		left = f.roll(3)
	}
	return func(yield func(blob.Object, error) bool) {
		for o, err := range f.Store.List(ctx, prefix, opts) {
			if left--; left < 0 {
				yield(blob.Object{}, fmt.Errorf("list %s: status 500", prefix))
				return
			}
			if !yield(o, err) {
				return
			}
		}
	}
}
