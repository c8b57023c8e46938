package commands

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// shown is the answer of `show --output=json`.
type shown struct {
	listed
	inventory.Summary
}

// showCommand makes show, which prints what is stored for a session, and where.
func showCommand(o *operator) command {
	cmd := &cobra.Command{
		Use:     "show SESSION",
		Short:   "Show what is stored for one session, and where",
		Example: "  historyserver show lab/latest",
		Args:    cobra.ExactArgs(1),
	}
	run := func(ctx context.Context, args []string) error {
		e, summary, err := o.history.stored(ctx, args[0])
		if err != nil {
			return err
		}
		result := shown{listed: newListed(e), Summary: summary}
		return o.print(result, result.table)
	}
	return command{cmd, traits{canAskServer: true}, run}
}

// table writes it as a table of names and values.
func (s *shown) table(w io.Writer) {
	writeRow(w, "session", s.Session)
	writeRow(w, "cluster", s.Namespace+"/"+s.Cluster)
	writeRow(w, "owner", s.OwnerKind+" "+s.OwnerName)
	writeRow(w, "state", catalog.State(s.Running))
	if s.Outcome != "" {
		writeRow(w, "outcome", s.Outcome)
	}
	if s.Cause != "" {
		writeRow(w, "cause", s.Cause)
	}
	writeRow(w, "start (UTC)", human.Time(s.Start))
	writeRow(w, "end (UTC)", human.Time(s.End))
	writeRow(w, "last write (UTC)", human.Time(s.LastWrite))
	writeRow(w, "Ray", cmp.Or(s.RayVersion, "-"))
	writeRow(w, "layout", s.Layout)
	writeRow(w, "marker", s.Marker)
	writeRow(w, "prefix", s.Prefix)
	for _, kind := range slices.Sorted(maps.Keys(s.Usage)) {
		u := s.Usage[kind]
		writeRow(w, kind, human.Bytes(u.Bytes), human.Count(u.Objects, "object"), "of "+human.Count(u.Streams, "file"))
	}
	for _, key := range s.Foreign {
		writeRow(w, "foreign", key)
	}
}
