package commands

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// shown is the answer of `show --output=json`.
type shown struct {
	listed
	Layout string `json:"layout"`
	// Prefix is the common prefix of all keys except the marker's.
	Prefix  string                     `json:"prefix"`
	Marker  string                     `json:"marker"`
	Usage   map[string]inventory.Usage `json:"usage"`
	Foreign []string                   `json:"foreign,omitempty"`
}

var layoutNames = map[layout.Version]string{layout.V16: "1.6", layout.V17: "1.7"}

func showCommand(o *operator) (*cobra.Command, runFunc) {
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "Show what is stored for one session, and where",
		Args:  cobra.ExactArgs(1),
	}
	return cmd, func(ctx context.Context, args []string) error {
		e, err := o.describedOne(ctx, args[0])
		if err != nil {
			return err
		}
		s, err := o.list(ctx, e.Ref)
		if err != nil {
			return err
		}
		result := shown{
			listed: newListed(e), Layout: layoutNames[e.Ref.Version], Prefix: o.storage.BucketKey(layout.Prefix(o.storage.Root, e.Ref)),
			Marker: o.storage.BucketKey(layout.MarkerKey(o.storage.Root, e.Ref)), Usage: s.Usage(),
		}
		for _, f := range s.Foreign {
			result.Foreign = append(result.Foreign, o.storage.BucketKey(f.Key))
		}
		return o.print(result, result.table)
	}
}

func (s *shown) table(w io.Writer) {
	row(w, "session", s.Session)
	row(w, "cluster", s.Namespace+"/"+s.Cluster)
	row(w, "owner", s.OwnerKind+" "+s.OwnerName)
	row(w, "state", state(s.Running))
	row(w, "start", human.Time(s.Start))
	row(w, "end", human.Time(s.End))
	row(w, "last write", human.Time(s.LastWrite))
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
