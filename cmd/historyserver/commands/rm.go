package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
)

// removeCommand makes rm, which removes ended sessions.
func removeCommand(o *operator) command {
	var r removal
	cmd := &cobra.Command{
		Use:   "rm [--older-than 30d | --rules FILE] [--dry-run] [SESSION]...",
		Short: "Remove ended sessions by name, age or rules; running and pinned sessions are never removed",
		Example: "  historyserver rm --older-than 30d --dry-run\n" +
			"  historyserver rm lab/session_2026-11-19_01-00-03_140332_1",
		Long: "Remove ended sessions by name, age or rules; running and pinned sessions are never removed.\n" +
			"With --older-than or --rules the default is all sessions that have expired.",
	}
	settings.DurationVar(cmd.Flags(), &r.olderThan, "older-than", 0,
		"remove only sessions that ended at least this long ago, such as 30d, 2w or 12h; 0: all that are named")
	cmd.Flags().StringVar(&r.rules, "rules", "",
		"file with retention rules, as for the server's --retention-rules: remove only sessions that have expired by "+
			"them")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only show what would be removed, and why")
	run := func(ctx context.Context, args []string) error { return r.run(ctx, o, args) }
	return command{cmd, traits{clusterMeans: clusterRefused}, run}
}

// removal has the flags of rm.
type removal struct {
	olderThan time.Duration
	rules     string
	dryRun    bool
	sessions  int   // removed so far or, with dryRun, that would be
	bytes     int64 // of them
}

// byName says that sessions are removed because they are named, not because they have expired.
func (r *removal) byName() bool { return r.olderThan == 0 && r.rules == "" }

// run removes those of the sessions that args name (all if there are none) that are to be removed by the flags. With
// --dry-run it only shows them.
func (r *removal) run(ctx context.Context, o *operator, args []string) error {
	switch {
	case r.olderThan < 0:
		return settings.UsageError(fmt.Errorf("--older-than=%s: want at least 0", (*settings.Duration)(&r.olderThan)))
	case r.olderThan > 0 && r.rules != "":
		return settings.UsageError(errors.New("--older-than and --rules exclude each other: use one of them"))
	case len(args) == 0 && r.byName():
		return settings.UsageError(errors.New("name the sessions to remove, or use --older-than=30d for all that ended at " +
			"least that long ago, or --rules; --dry-run shows which"))
	}
	entries, err := o.describedSessions(ctx, args)
	if err != nil {
		return err
	}
	policy, err := r.policy(ctx, o, entries)
	if err != nil {
		return err
	}
	var due []catalog.Entry
	now := time.Now()
	for _, e := range entries {
		const anyAge = 0
		if r.byName() && !retention.Due(e, anyAge, now) {
			return fmt.Errorf("session %s is running, or its objects cannot be read: stop its cluster first, or wait "+
				"for --quiet=%s", e.Ref, o.quiet)
		}
		if r.byName() || policy.Of(e, now).Expired(now) { // a pinned one is reported as kept
			due = append(due, e)
		}
	}
	if len(due) == 0 && o.output == "table" {
		when := "has expired"
		if r.rules == "" {
			when = "ended at least " + (*settings.Duration)(&r.olderThan).String() + " ago"
		}
		_, err := fmt.Fprintf(o.out, "nothing to remove: none of %s %s\n", human.Count(len(entries), "session"), when)
		return err
	}
	err = o.forEach(ctx, due, func(e catalog.Entry, bar *progress.Bar) (sessionReport, error) {
		return r.remove(ctx, o, e, policy.Of(e, now), now, bar)
	})
	if o.output == "table" {
		done := "removed"
		if r.dryRun {
			done = "would be removed"
		}
		fmt.Fprintf(o.out, "%s, %s %s\n", human.Count(r.sessions, "session"), human.Bytes(r.bytes), done)
	}
	return err
}

// policy returns the retention policy of --rules or --older-than, which respects pins. With --rules it also reads, into
// their entries, the outcomes of the sessions that may have expired, because rules may ask for them.
func (r *removal) policy(ctx context.Context, o *operator, entries []catalog.Entry) (*retention.Policy, error) {
	book, err := o.readNotes(ctx)
	if err != nil {
		return nil, err
	}
	policy := &retention.Policy{Age: r.olderThan, Note: book.Of}
	if r.rules == "" {
		return policy, nil
	}
	if policy.Rules, err = retention.ReadRules(r.rules); err != nil {
		return nil, settings.UsageError(fmt.Errorf("--rules: %w", err))
	}
	now, expiring := time.Now(), []*catalog.Entry(nil)
	for i := range entries {
		if policy.MayExpire(entries[i], now) {
			expiring = append(expiring, &entries[i])
		}
	}
	storeHistory{o}.readOutcomes(ctx, expiring...)
	return policy, nil
}

// removed is the result for one session with --output=json.
type removed struct {
	Removed bool      `json:"removed"`
	Pinned  bool      `json:"pinned"`
	Expired time.Time `json:"expired,omitzero"`
	Why     string    `json:"why,omitempty"`
	Objects int       `json:"objects"`
	Bytes   int64     `json:"bytes"`
}

// remove removes a session, or with --dry-run says what would be removed. It keeps a pinned session, which is an error
// if the session was named. retention.Remove refuses a session of which something was stored since it expired: within
// the time for which the rules or --older-than keep it, none if it was only named.
func (r *removal) remove(ctx context.Context, o *operator, e catalog.Entry, fate retention.Fate, now time.Time,
	bar *progress.Bar) (sessionReport, error) {
	size := fmt.Sprintf("%s, %s", human.Count(e.Objects, "object"), human.Bytes(e.Bytes))
	if fate.Why != "" {
		size += ": " + fate.Why
	}
	result := removed{Removed: !r.dryRun, Pinned: fate.Pinned, Expired: fate.Expires, Why: fate.Why, Objects: e.Objects,
		Bytes: e.Bytes}
	if fate.Pinned {
		result.Removed = false
		if r.byName() {
			return sessionReport{}, fmt.Errorf("%w: `historyserver note %s --unpin` unpins it", retention.ErrPinned, e.Ref)
		}
		return sessionReport{line: "kept: " + fate.Why, result: result}, nil
	}
	if r.dryRun {
		r.count(e)
		return sessionReport{line: "would remove " + size, result: result}, nil
	}
	var done progress.Counter
	defer bar.Follow("removing", &done)()
	if err := retention.Remove(ctx, o.store, o.storage.Root, e.Ref, now.Add(-fate.Keep), &done); err != nil {
		return sessionReport{}, err
	}
	r.count(e)
	return sessionReport{line: "removed " + size, result: result}, nil
}

func (r *removal) count(e catalog.Entry) {
	r.sessions++
	r.bytes += e.Bytes
}
