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

func showCommand(o *operator) (*cobra.Command, runFunc) {
	cmd := &cobra.Command{
		Use:     "show SESSION",
		Short:   "Show what is stored for one session, and where",
		Example: "  historyserver show lab/latest",
		Args:    cobra.ExactArgs(1),
	}
	o.viaServer = true
	return cmd, func(ctx context.Context, args []string) error {
		e, summary, err := o.history.stored(ctx, args[0])
		if err != nil {
			return err
		}
		result := shown{listed: newListed(e), Summary: summary}
		return o.print(result, result.table)
	}
}

func (s *shown) table(w io.Writer) {
	row(w, "session", s.Session)
	row(w, "cluster", s.Namespace+"/"+s.Cluster)
	row(w, "owner", s.OwnerKind+" "+s.OwnerName)
	row(w, "state", catalog.State(s.Running))
	if s.Outcome != "" {
		row(w, "outcome", s.Outcome)
	}
	if s.Cause != "" {
		row(w, "cause", s.Cause)
	}
	row(w, "start (UTC)", human.Time(s.Start))
	row(w, "end (UTC)", human.Time(s.End))
	row(w, "last write (UTC)", human.Time(s.LastWrite))
	row(w, "Ray", cmp.Or(s.RayVersion, "-"))
	row(w, "layout", s.Layout)
	row(w, "marker", s.Marker)
	row(w, "prefix", s.Prefix)
	for _, kind := range slices.Sorted(maps.Keys(s.Usage)) {
		u := s.Usage[kind]
		row(w, kind, human.Bytes(u.Bytes), human.Count(u.Objects, "object"), "of "+human.Count(u.Streams, "file"))
	}
	for _, key := range s.Foreign {
		row(w, "foreign", key)
	}
}
