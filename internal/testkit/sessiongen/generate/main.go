// Cmd writes a generated session, for benchmarks:
//
//	go run ./internal/testkit/sessiongen/generate --tasks 100000 --dir build/bench/100k
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
)

func main() {
	var o sessiongen.Options
	dir := pflag.String("dir", "", "folder to write to, a local backend's --local-dir; must be empty")
	kuberay17 := pflag.Bool("kuberay-1.7", false, "use the layout of KubeRay's newer collector")
	pflag.IntVar(&o.Tasks, "tasks", 100_000, "number of tasks")
	pflag.IntVar(&o.Nodes, "nodes", 8, "number of nodes")
	pflag.IntVar(&o.Jobs, "jobs", 4, "number of jobs")
	pflag.IntVar(&o.Hours, "hours", 4, "hours over which the tasks are spread")
	pflag.Uint64Var(&o.Seed, "seed", 1, "seed of what is random")
	pflag.IntVar(&o.ChunkEvents, "chunk-events", 0, "events in a chunk; 0: one object an hour")
	pflag.BoolVar(&o.Ended, "ended", false, "store the session's end")
	series := pflag.Int("metrics-series", 0, "series of a node's metrics, read every 15 s; 0: no metrics")
	compression := pflag.String("compression", "none", "of each chunk: none, gzip or zstd")
	pflag.Parse()
	known := map[string]layout.Compression{"none": layout.Plain, "gzip": layout.Gzip, "zstd": layout.Zstd}
	var ok bool
	if o.Compression, ok = known[*compression]; !ok {
		fmt.Fprintf(os.Stderr, "sessiongen: --compression=%q: want none, gzip or zstd\n", *compression)
		os.Exit(1)
	}
	if *kuberay17 {
		o.Version = layout.V17
	}
	if err := run(context.Background(), *dir, o, *series); err != nil {
		fmt.Fprintln(os.Stderr, "sessiongen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, o sessiongen.Options, series int) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("--dir=%q: want an empty or a new folder: objects are appended to", dir)
	} else if dir == "" {
		return fmt.Errorf("--dir is missing")
	}
	stats, err := sessiongen.Write(dir, o)
	if err != nil {
		return err
	}
	said := map[string]any{"session": stats.Session.Name, "events": stats.Events, "objects": stats.Objects,
		"bytes": stats.Bytes, "tasks": o.Tasks}
	if series > 0 {
		if said["samples"], err = storeMetrics(ctx, dir, stats.Session, o, series); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

// storeMetrics adds metrics to a session, and says how many samples they are.
func storeMetrics(ctx context.Context, dir string, ref layout.Session, o sessiongen.Options, series int) (int64,
	error) {
	store, err := local.Open(dir)
	if err != nil {
		return 0, err
	}
	m := metricsgen.Session{Ref: ref, Begin: sessiongen.Start, Nodes: o.Nodes, Series: series, Hours: o.Hours,
		Interval: 15 * time.Second, ChunkReads: 4}
	samples, err := m.Store(ctx, store, "log")
	return samples, errors.Join(err, store.Close())
}
