package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/settings"
)

func removeCommand(o *operator) (*cobra.Command, runFunc) {
	var olderThan time.Duration
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "rm [--older-than 30d] [--dry-run] [session | namespace/cluster/session]...",
		Short: "Remove ended sessions by name or by age; running sessions are never removed",
	}
	settings.DurationVar(cmd.Flags(), &olderThan, "older-than", 0, "remove only sessions that ended at least this long ago, such as 30d, 2w or 12h; 0: all that are named")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be removed")
	return cmd, func(ctx context.Context, args []string) error {
		if len(args) == 0 && olderThan <= 0 {
			return errors.New("name the sessions to remove, or use --older-than=30d for all that ended at least that long ago; --dry-run shows which")
		}
		entries, err := o.described(ctx, args)
		if err != nil {
			return err
		}
		var due []catalog.Entry
		now := time.Now()
		for _, e := range entries {
			switch {
			case retention.Due(e, olderThan, now):
				due = append(due, e)
			case len(args) > 0 && olderThan <= 0:
				return fmt.Errorf("session %s is running, or its objects cannot be read: stop its cluster first, or wait for --quiet=%s", e.Ref, o.quiet)
			}
		}
		if len(due) == 0 && o.output == "table" {
			_, err := fmt.Fprintf(o.out, "nothing to remove: none of %s ended at least %s ago\n", human.Count(len(entries), "session"), (*settings.Duration)(&olderThan))
			return err
		}
		return o.each(ctx, due, func(e catalog.Entry, bar *progress.Bar) (outcome, error) {
			size := fmt.Sprintf("%s, %s", human.Count(e.Objects, "object"), human.Bytes(e.Bytes))
			if dryRun {
				return outcome{line: "would remove " + size}, nil
			}
			var done progress.Counter
			defer bar.Follow("removing", &done)()
			err := retention.Remove(ctx, o.store, o.storage.Root, e.Ref, now.Add(-olderThan), &done)
			return outcome{line: "removed " + size}, err
		})
	}
}
