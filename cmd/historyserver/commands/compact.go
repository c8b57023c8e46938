package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/maintenance/compact"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// compactCommand makes compact, which joins the chunks of sessions.
func compactCommand(o *operator) command {
	var all, dryRun bool
	cmd := &cobra.Command{
		Use:     "compact {--all | SESSION...}",
		Short:   "Join the chunks of ended sessions, and of running sessions' past hours, into one object per file",
		Example: "  historyserver compact --all --dry-run",
		Long: "Join the chunks of ended sessions, and of running sessions' past hours, into one object per file.\n" +
			"Chunks are deleted only after the joined object was read back. The command can be interrupted and run " +
			"again at any time;\n" +
			"servers and other compactors may use the same store at the same time.",
	}
	cmd.Flags().BoolVar(&all, "all", false, "compact all stored sessions")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be joined")
	run := func(ctx context.Context, args []string) error {
		entries, err := o.namedOrAll(ctx, args, all)
		if err != nil {
			return err
		}
		return o.forEach(ctx, entries, func(e catalog.Entry, bar *progress.Bar) (sessionReport, error) {
			if dryRun {
				s, err := o.listObjects(ctx, e.Ref)
				if err != nil {
					return sessionReport{}, err
				}
				return sessionReport{line: wouldCompact(compact.Candidates(s, o.quiet, time.Now()))}, nil
			}
			var done progress.Counter
			stop := bar.Follow("joining", &done)
			result, err := compact.Session(ctx, e.Ref, compact.Options{Store: o.store, Root: o.storage.Root,
				Quiet: o.quiet, Progress: &done})
			stop()
			for _, left := range result.Left {
				bar.Print(human.Printable("not joined: " + left))
			}
			line := fmt.Sprintf("joined %s, removed %s", human.Count(result.Joined, "file"),
				human.Count(result.Removed, "chunk"))
			return sessionReport{line, result}, err
		})
	}
	return command{cmd, traits{clusterMeans: clusterRefused}, run}
}

// wouldCompact says what compact would join.
func wouldCompact(candidates []*inventory.Stream) string {
	chunks, bytes := 0, int64(0)
	for _, stream := range candidates {
		chunks += len(stream.Chunks)
		bytes += stream.Bytes()
	}
	return fmt.Sprintf("would join %s into %s, %s", human.Count(chunks, "chunk"), human.Count(len(candidates), "file"),
		human.Bytes(bytes))
}
