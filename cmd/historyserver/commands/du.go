package commands

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// used is an entry of `du --output=json`.
type used struct {
	named
	Bytes   int64                      `json:"bytes"`
	Objects int                        `json:"objects"`
	Usage   map[string]inventory.Usage `json:"usage"`
}

// usageCommand makes du, which shows the stored bytes of sessions.
func usageCommand(o *operator) command {
	cmd := &cobra.Command{
		Use:   "du [SESSION]...",
		Short: "Show stored bytes of sessions, by default all, by kind; the largest session first",
		Example: "  historyserver du\n" +
			"  historyserver du lab/latest",
	}
	run := func(ctx context.Context, args []string) error {
		entries, err := o.namedSessions(ctx, args)
		if err != nil {
			return err
		}
		result := make([]used, 0, len(entries))
		total := used{}
		for _, e := range entries {
			s, err := o.listObjects(ctx, e.Ref)
			if err != nil {
				return err
			}
			u := used{named: nameOf(e.Ref), Usage: s.Usage()}
			for _, kindUsage := range u.Usage {
				u.Bytes += kindUsage.Bytes
				u.Objects += kindUsage.Objects
			}
			total.Bytes += u.Bytes
			total.Objects += u.Objects
			result = append(result, u)
		}
		slices.SortStableFunc(result, func(a, b used) int { return cmp.Compare(b.Bytes, a.Bytes) })
		return o.print(result, func(w io.Writer) {
			writeRow(w, "SIZE", "OBJECTS", "EVENTS", "LOGS", "SNAPSHOTS", "INDEX", "SESSION")
			for _, u := range result {
				writeRow(w, human.Bytes(u.Bytes), u.Objects, human.Bytes(u.Usage["events"].Bytes),
					human.Bytes(u.Usage["logs"].Bytes), human.Bytes(u.Usage["snapshots"].Bytes),
					human.Bytes(u.Usage["index"].Bytes), u.named)
			}
			writeRow(w, human.Bytes(total.Bytes), total.Objects, "", "", "", "", "total")
		})
	}
	return command{cmd, traits{clusterMeans: clusterAll}, run}
}
