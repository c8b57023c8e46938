package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/compact"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/retention"
	"github.com/rayhistory/historyserver/pkg/verify"
)

// sessionResult is what a command did to one session, for -o json.
type sessionResult struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Session   string `json:"session"`
	Result    any    `json:"result,omitempty"`
}

func newSessionResult(ref layout.Session, result any) sessionResult {
	return sessionResult{Namespace: ref.Namespace, Cluster: ref.Cluster, Session: ref.Name, Result: result}
}

// tellResults writes results as JSON; as a table they were told one by one.
func (o *operator) tellResults(results []sessionResult) error {
	if o.output != "json" {
		return nil
	}
	return o.tell(results, nil)
}

// named is entries, except that all sessions have to be asked for.
func (o *operator) named(ctx context.Context, names []string, all bool) ([]catalog.Entry, error) {
	if all == (len(names) > 0) {
		return nil, errNoNames
	}
	return o.entries(ctx, names)
}

func compactCommand(server *pflag.FlagSet) *cobra.Command {
	var o operator
	var all, dryRun bool
	cmd := o.command(server, &cobra.Command{
		Use:   "compact [--all] [session | namespace/cluster/session]...",
		Short: "Joins the chunks of ended sessions, and of running sessions' closed hours, into one object for each file",
		Long: "Joins the chunks of ended sessions, and of running sessions' closed hours, into one object for each file. Chunks go only after the\n" +
			"joined object was read back. It may be interrupted at any time, run beside readers and beside other compactors, and be run again.",
	}, func(ctx context.Context, args []string) error {
		entries, err := o.named(ctx, args, all)
		if err != nil {
			return err
		}
		results := []sessionResult{}
		p := newProgress(os.Stderr, len(entries))
		err = each(ctx, entries, p, func(e catalog.Entry) (string, error) {
			s, err := o.list(ctx, e.Ref)
			if err != nil {
				return "", err
			}
			if dryRun {
				return wouldCompact(compact.Candidates(s, o.quiet, time.Now())), nil
			}
			var done inventory.Progress
			stop := p.follow(following("joining", &done))
			result, err := compact.Session(ctx, e.Ref, compact.Options{Store: o.store, Root: o.storage.Root, Quiet: o.quiet, Progress: &done})
			stop()
			results = append(results, newSessionResult(e.Ref, result))
			for _, left := range result.Left {
				p.say("left " + left)
			}
			return fmt.Sprintf("joined %s, removed %s", plural(result.Joined, "file"), plural(result.Removed, "chunk")), err
		})
		return errors.Join(err, o.tellResults(results))
	})
	cmd.Flags().BoolVar(&all, "all", false, "compact all sessions of the store")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

func wouldCompact(candidates []*inventory.Whole) string {
	chunks, bytes := 0, int64(0)
	for _, w := range candidates {
		chunks += len(w.Chunks)
		bytes += w.Bytes()
	}
	return fmt.Sprintf("would join %s into %s, %s", plural(chunks, "chunk"), plural(len(candidates), "file"), size(bytes))
}

func removeCommand(server *pflag.FlagSet) *cobra.Command {
	var o operator
	var olderThan time.Duration
	var dryRun bool
	cmd := o.command(server, &cobra.Command{
		Use:   "rm [--older-than 720h] [--dry-run] [session | namespace/cluster/session]...",
		Short: "Removes ended sessions, those that are named or those that ended long ago; never running ones",
	}, func(ctx context.Context, args []string) error {
		if len(args) == 0 && olderThan <= 0 {
			return errors.New("name the sessions to remove, or use --older-than=720h for those that ended that long ago; --dry-run shows which")
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
				return fmt.Errorf("session %s is running, or what is stored of it cannot be read: stop its cluster first, or wait for --quiet=%s", e.Ref, o.quiet)
			}
		}
		results := []sessionResult{}
		p := newProgress(os.Stderr, len(due))
		err = each(ctx, due, p, func(e catalog.Entry) (string, error) {
			results = append(results, newSessionResult(e.Ref, nil))
			what := fmt.Sprintf("%s, %s", plural(e.Objects, "object"), size(e.Bytes))
			if dryRun {
				return "would remove " + what, nil
			}
			var done inventory.Progress
			stop := p.follow(following("removing", &done))
			err := retention.Remove(ctx, o.store, o.storage.Root, e.Ref, now.Add(-olderThan), &done)
			stop()
			return "removed " + what, err
		})
		return errors.Join(err, o.tellResults(results))
	})
	cmd.Flags().DurationVar(&olderThan, "older-than", 0, "only sessions that ended so long ago, as 720h; 0: all that are named")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be removed")
	return cmd
}

func verifyCommand(server *pflag.FlagSet) *cobra.Command {
	var o operator
	var all bool
	cmd := o.command(server, &cobra.Command{
		Use:   "verify [--all] [session | namespace/cluster/session]...",
		Short: "Reads all that is stored of sessions and tells of damage; then the exit code is 1",
	}, func(ctx context.Context, args []string) error {
		entries, err := o.named(ctx, args, all)
		if err != nil {
			return err
		}
		results := []sessionResult{}
		damage := 0
		p := newProgress(os.Stderr, len(entries))
		err = each(ctx, entries, p, func(e catalog.Entry) (string, error) {
			s, err := o.list(ctx, e.Ref)
			if err != nil {
				return "", err
			}
			var done inventory.Progress
			stop := p.follow(following("reading", &done))
			report, err := verify.Session(ctx, o.store, s, &done)
			stop()
			results = append(results, newSessionResult(e.Ref, report))
			damage += len(report.Damage)
			return fmt.Sprintf("%s, %s, damaged: %d", plural(report.Objects, "object"), size(report.Bytes), len(report.Damage)), err
		})
		told := o.tell(results, func(w io.Writer) {
			for _, r := range results {
				for _, d := range r.Result.(verify.Report).Damage {
					row(w, d.Key, d.What)
				}
			}
		})
		if damage > 0 {
			err = errors.Join(err, fmt.Errorf("%s found: what is damaged is left out when sessions are shown, all else is", plural(damage, "damage")))
		}
		return errors.Join(err, told)
	})
	cmd.Flags().BoolVar(&all, "all", false, "verify all sessions of the store")
	return cmd
}
