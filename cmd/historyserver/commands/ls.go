package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/index"
	"github.com/rayhistory/historyserver/pkg/outcomes"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// listed is an entry of `ls --output=json`.
type listed struct {
	Namespace  string    `json:"namespace"`
	Cluster    string    `json:"cluster"`
	Session    string    `json:"session"`
	OwnerKind  string    `json:"ownerKind"`
	OwnerName  string    `json:"ownerName"`
	RayVersion string    `json:"rayVersion,omitempty"`
	Running    bool      `json:"running"`
	Outcome    string    `json:"outcome,omitempty"`     // failed, succeeded, stopped, unfinished or unknown
	Cause      string    `json:"cause,omitempty"`       // the first error, one line
	NotYet     bool      `json:"notKnownYet,omitempty"` // it has ended, and nobody has found out how
	FailedJobs int       `json:"failedJobs,omitempty"`  // of a running session
	Start      time.Time `json:"start"`
	End        time.Time `json:"end,omitzero"`
	LastWrite  time.Time `json:"lastWrite"`
	Nodes      int       `json:"nodes,omitempty"`
	Objects    int       `json:"objects"`
	Bytes      int64     `json:"bytes"`
}

func newListed(e catalog.Entry) listed {
	return listed{
		Namespace: e.Ref.Namespace, Cluster: e.Ref.Cluster, Session: e.Ref.Name, OwnerKind: e.OwnerKind, OwnerName: e.OwnerName,
		RayVersion: e.RayVersion, Running: e.Running, Start: e.Start, End: e.End, LastWrite: e.LastWrite, Nodes: e.Nodes, Objects: e.Objects, Bytes: e.Bytes, FailedJobs: e.FailedJobs,
	}
}

func state(running bool) string {
	if running {
		return "running"
	}
	return "ended"
}

func listCommand(o *operator) (*cobra.Command, runFunc) {
	cmd := &cobra.Command{
		Use:   "ls [SESSION]...",
		Short: "List stored sessions, by default all, with their sizes and times",
	}
	filter := addFilter(cmd.Flags())
	return cmd, func(ctx context.Context, args []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		now := time.Now()
		entries, err := o.matching(ctx, args, f, now)
		if err != nil {
			return err
		}
		result := o.readOutcomes(ctx, entries)
		return o.print(result, func(w io.Writer) {
			row(w, "NAMESPACE", "CLUSTER", "SESSION", "STATE", "START (UTC)", "DURATION", "NODES", "RAY", "OBJECTS", "SIZE", "OUTCOME", "CAUSE")
			for i, e := range entries {
				nodes, duration, outcome := any("-"), "-", cmp.Or(result[i].Outcome, "-")
				if e.Nodes > 0 {
					nodes = e.Nodes
				}
				switch {
				case result[i].NotYet:
					outcome = "not known yet"
				case e.FailedJobs > 0:
					outcome = fmt.Sprintf("failed jobs: %d", e.FailedJobs)
				}
				if d := e.Duration(now); d > 0 {
					duration = human.Duration(d)
				}
				row(w, e.Ref.Namespace, e.Ref.Cluster, e.Ref.Name, state(e.Running), human.Time(e.Start),
					duration, nodes, cmp.Or(e.RayVersion, "-"), e.Objects, human.Bytes(e.Bytes),
					outcome, cmp.Or(result[i].Cause, "-"))
			}
		})
	}
}

// addFilter adds flags that narrow the list: those of the list's page.
func addFilter(fs *pflag.FlagSet) func() (catalog.Filter, error) {
	names := map[string]string{"search": "q", "ray-version": "version"} // others are called like their parameter
	flags := []string{"search", "namespace", "cluster", "owner", "state", "kind", "outcome", "ray-version", "from", "to", "longer", "shorter", "larger", "smaller"}
	settings.Group(fs, "Filters", func(fs *pflag.FlagSet) {
		fs.String("search", "", "words that must all occur in what is known about the session: names, owner, jobs' IDs, submissions, entrypoints, users and messages, findings, labels")
		fs.String("namespace", "", "name of the namespace")
		fs.String("cluster", "", "name of the RayCluster")
		fs.String("owner", "", "name of the RayJob, RayService or RayCluster that the user created")
		fs.String("state", "", "running or ended")
		fs.String("kind", "", "RayCluster, RayJob or RayService")
		fs.String("outcome", "", "failed, succeeded, stopped, unfinished, unknown where nothing of the jobs is stored, or not-known-yet")
		fs.String("ray-version", "", "version of Ray, such as 2.60 or 2.60.0")
		fs.String("from", "", "began at or after this date or time, such as 2026-11-20 or 2026-11-20T23:00:00Z")
		fs.String("to", "", "began before this time, or on or before this date")
		fs.String("longer", "", "ran at least this long, such as 90m, 2h or 3d")
		fs.String("shorter", "", "ran at most this long")
		fs.String("larger", "", "has at least this size, such as 10MiB")
		fs.String("smaller", "", "has at most this size")
	})
	return func() (catalog.Filter, error) {
		v := make(url.Values)
		for _, name := range flags {
			value, err := fs.GetString(name)
			if err != nil {
				return catalog.Filter{}, err
			}
			v.Set(cmp.Or(names[name], name), value)
		}
		f, err := catalog.ParseFilter(v)
		if err != nil {
			return f, fmt.Errorf("--%w", err)
		}
		return f, nil
	}
}

// readOutcomes makes the list of sessions, with the outcomes that are kept with their indexes.
func (o *operator) readOutcomes(ctx context.Context, entries []catalog.Entry) []listed {
	const reads = 8 // at a time
	indexes := &index.Opener{Store: o.store, Root: o.storage.Root, Log: o.log}
	result := make([]listed, len(entries))
	var g errgroup.Group
	g.SetLimit(reads)
	for i, e := range entries {
		g.Go(func() error {
			result[i] = newListed(e)
			if result[i].Outcome, result[i].Cause = e.Outcome, e.Cause; e.Outcome != "" {
				return nil
			}
			head, known := outcomes.Read(ctx, indexes.Findings, e)
			if known {
				result[i].Outcome, result[i].Cause = head.Outcome, head.Cause
			}
			result[i].NotYet = e.IsNotKnownYet() && !known
			return nil
		})
	}
	_ = g.Wait()
	return result
}
