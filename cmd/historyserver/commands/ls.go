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

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
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
		Outcome: e.Outcome, Cause: e.Cause, NotYet: e.IsNotKnownYet(),
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
	o.askable = true
	return cmd, func(ctx context.Context, args []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		entries, err := o.history.sessions(ctx, args, f)
		if err != nil {
			return err
		}
		now, result := time.Now(), make([]listed, len(entries))
		for i, e := range entries {
			result[i] = newListed(e)
		}
		return o.print(result, func(w io.Writer) {
			row(w, "NAMESPACE", "CLUSTER", "SESSION", "STATE", "START (UTC)", "DURATION", "NODES", "RAY", "OBJECTS", "SIZE", "OUTCOME", "CAUSE")
			for _, e := range entries {
				nodes, duration, outcome := any("-"), "-", cmp.Or(e.Outcome, "-")
				if e.Nodes > 0 {
					nodes = e.Nodes
				}
				switch {
				case e.IsNotKnownYet():
					outcome = "not known yet"
				case e.FailedJobs > 0:
					outcome = fmt.Sprintf("failed jobs: %d", e.FailedJobs)
				}
				if d := e.Duration(now); d > 0 {
					duration = human.Duration(d)
				}
				row(w, e.Ref.Namespace, e.Ref.Cluster, e.Ref.Name, state(e.Running), human.Time(e.Start),
					duration, nodes, cmp.Or(e.RayVersion, "-"), e.Objects, human.Bytes(e.Bytes),
					outcome, cmp.Or(e.Cause, "-"))
			}
		})
	}
}

// addFilter adds flags that narrow the list: those of the list's page.
func addFilter(fs *pflag.FlagSet) func() (filter, error) {
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
	return func() (f filter, err error) {
		f.form = url.Values{}
		for _, name := range flags {
			value, err := fs.GetString(name)
			if err != nil {
				return f, err
			}
			if value != "" {
				f.form.Set(cmp.Or(names[name], name), value)
			}
		}
		if f.Filter, err = catalog.ParseFilter(f.form); err != nil {
			return f, fmt.Errorf("--%w", err)
		}
		return f, nil
	}
}
