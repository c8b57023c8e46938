// Cmd writes a generated session, for benchmarks:
//
//	go run ./internal/testkit/sessiongen/generate --tasks 100000 --dir build/bench/100k
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/spf13/pflag"
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
	if err := run(*dir, o); err != nil {
		fmt.Fprintln(os.Stderr, "sessiongen:", err)
		os.Exit(1)
	}
}

func run(dir string, o sessiongen.Options) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("--dir=%q: want an empty or a new folder: objects are appended to", dir)
	} else if dir == "" {
		return fmt.Errorf("--dir is missing")
	}
	stats, err := sessiongen.Write(dir, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"session": stats.Session.Name, "events": stats.Events, "objects": stats.Objects, "bytes": stats.Bytes, "tasks": o.Tasks,
	})
}
