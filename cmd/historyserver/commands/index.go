package commands

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/garbage"
	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/indexing"
)

// indexCommand makes index, which writes the indexes of ended sessions.
func indexCommand(o *operator) command {
	var places indexing.Places
	var all, force bool
	var shard string
	memory := settings.Bytes(1 << 30)
	cmd := &cobra.Command{
		Use:     "index {--all [--shard i/n] | SESSION...}",
		Short:   "Write the indexes of ended sessions, so that they open at once",
		Example: "  historyserver index --all",
		Long: "Write the indexes of ended sessions, so that they open at once and any tool that reads Parquet can " +
			"analyse them.\n" +
			"Sessions whose index is up to date are skipped. To share the work, run a Kubernetes Indexed Job with\n" +
			"--all --shard=$(JOB_COMPLETION_INDEX)/n.",
	}
	fs := cmd.Flags()
	settings.Group(fs, "Indexes", places.AddFlags)
	fs.BoolVar(&all, "all", false, "index all stored sessions")
	fs.BoolVar(&force, "force", false, "write indexes again even if they are up to date")
	fs.Var(&memory, "max-memory", "maximum memory for the rows of a session; those of larger sessions go to a "+
		"temporary file")
	fs.StringVar(&shard, "shard", "0/1", "i/n: split the sessions into n shards and index shard i, counted from 0")
	run := func(ctx context.Context, args []string) error {
		garbage.Limit(int64(memory) + int64(memory)/3) // besides the rows, some garbage
		i, n, err := parseShard(shard)
		if err != nil {
			return err
		}
		entries, err := o.namedOrAll(ctx, args, all)
		if err != nil {
			return err
		}
		entries = slices.DeleteFunc(entries, func(e catalog.Entry) bool { return shardOf(e.Ref, n) != i })
		places.Store, places.Root, places.Metrics, places.Log = o.store, o.storage.Root, o.metrics(), o.log
		writer := places.Open()
		return o.forEach(ctx, entries, func(e catalog.Entry, bar *progress.Bar) (sessionReport, error) {
			began := time.Now()
			result, err := indexing.Session(ctx, e.Ref, indexing.Options{
				Writer: writer, Force: force, Quiet: o.quiet, MaxMemory: int64(memory), Follow: bar.Follow,
			})
			if err != nil {
				return sessionReport{}, err
			}
			return sessionReport{indexedLine(result, time.Since(began)), result}, nil
		})
	}
	return command{cmd, traits{clusterMeans: clusterRefused}, run}
}

// indexedLine says what was done for a session.
func indexedLine(r indexing.Result, took time.Duration) string {
	switch r.Index {
	case indexing.UpToDate:
		return "index is up to date"
	case indexing.Running:
		return "has not ended"
	}
	return fmt.Sprintf("indexed %s in %s", human.Count(r.Attempts, "task attempt"), took.Round(10*time.Millisecond))
}

// parseShard reads --shard, i/n.
func parseShard(s string) (i, n int, err error) {
	left, right, ok := strings.Cut(s, "/")
	i, err = strconv.Atoi(left)
	if err == nil {
		n, err = strconv.Atoi(right)
	}
	if !ok || err != nil || i < 0 || i >= n {
		return 0, 0, settings.UsageError(fmt.Errorf("--shard=%q: want i/n with 0 ≤ i < n, such as 0/4", s))
	}
	return i, n, nil
}

// shardOf assigns a session to a shard by a hash of its name, so shards need no coordination.
func shardOf(ref layout.Session, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(ref.String()))
	return int(uint64(h.Sum32()) % uint64(n))
}
