package main

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/inventory"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// listed is an entry of `ls -o json`.
type listed struct {
	Namespace  string    `json:"namespace"`
	Cluster    string    `json:"cluster"`
	Session    string    `json:"session"`
	OwnerKind  string    `json:"ownerKind"`
	OwnerName  string    `json:"ownerName"`
	RayVersion string    `json:"rayVersion,omitempty"`
	Running    bool      `json:"running"`
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
		RayVersion: e.RayVersion, Running: e.Running, Start: e.Start, End: e.End, LastWrite: e.LastWrite, Nodes: e.Nodes, Objects: e.Objects, Bytes: e.Bytes,
	}
}

func state(running bool) string {
	if running {
		return "running"
	}
	return "ended"
}

func listCommand(server *pflag.FlagSet) *cobra.Command {
	var o operator
	return o.command(server, &cobra.Command{
		Use:   "ls [session | namespace/cluster/session]...",
		Short: "Lists stored sessions with their sizes and times",
	}, func(ctx context.Context, args []string) error {
		entries, err := o.described(ctx, args)
		if err != nil {
			return err
		}
		result := make([]listed, len(entries))
		for i, e := range entries {
			result[i] = newListed(e)
		}
		return o.tell(result, func(w io.Writer) {
			row(w, "NAMESPACE", "CLUSTER", "SESSION", "STATE", "START (UTC)", "DURATION", "NODES", "RAY", "OBJECTS", "SIZE")
			for _, e := range entries {
				nodes := any("-")
				if e.Nodes > 0 {
					nodes = e.Nodes
				}
				row(w, e.Ref.Namespace, e.Ref.Cluster, e.Ref.Name, state(e.Running), moment(e.Start),
					e.Duration(time.Now()).Round(time.Second), nodes, cmp.Or(e.RayVersion, "-"), e.Objects, size(e.Bytes))
			}
		})
	})
}

// shown is the answer of `show -o json`.
type shown struct {
	listed
	Layout string `json:"layout"`
	// Prefix is what all keys but the marker's start with.
	Prefix  string                     `json:"prefix"`
	Marker  string                     `json:"marker"`
	Usage   map[string]inventory.Usage `json:"usage"`
	Foreign []string                   `json:"foreign,omitempty"`
}

var layoutNames = map[layout.Version]string{layout.V16: "1.6", layout.V17: "1.7"}

func showCommand(server *pflag.FlagSet) *cobra.Command {
	var o operator
	return o.command(server, &cobra.Command{
		Use:   "show {session | namespace/cluster/session | namespace/cluster/latest}",
		Short: "Shows what is stored of one session, and where",
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, args []string) error {
		if _, err := o.one(ctx, args[0]); err != nil {
			return err
		}
		entries, err := o.described(ctx, args)
		if err != nil {
			return err
		}
		e := entries[0]
		s, err := o.list(ctx, e.Ref)
		if err != nil {
			return err
		}
		result := shown{
			listed: newListed(e), Layout: layoutNames[e.Ref.Version], Prefix: layout.Prefix(o.storage.Root, e.Ref),
			Marker: layout.MetaKey(o.storage.Root, e.Ref), Usage: s.Usage(),
		}
		for _, f := range s.Foreign {
			result.Foreign = append(result.Foreign, f.Key)
		}
		return o.tell(result, result.table)
	})
}

func (s *shown) table(w io.Writer) {
	row(w, "session", s.Session)
	row(w, "cluster", s.Namespace+"/"+s.Cluster)
	row(w, "owner", s.OwnerKind+" "+s.OwnerName)
	row(w, "state", state(s.Running))
	row(w, "start", moment(s.Start))
	row(w, "end", moment(s.End))
	row(w, "last write", moment(s.LastWrite))
	row(w, "Ray", cmp.Or(s.RayVersion, "-"))
	row(w, "layout", s.Layout)
	row(w, "marker", s.Marker)
	row(w, "prefix", s.Prefix)
	for _, kind := range slices.Sorted(maps.Keys(s.Usage)) {
		u := s.Usage[kind]
		row(w, kind, size(u.Bytes), plural(u.Objects, "object"), "of "+plural(u.Wholes, "file"))
	}
	for _, key := range s.Foreign {
		row(w, "foreign", key)
	}
}

// used is an entry of `du -o json`.
type used struct {
	Namespace string                     `json:"namespace"`
	Cluster   string                     `json:"cluster"`
	Session   string                     `json:"session"`
	Bytes     int64                      `json:"bytes"`
	Objects   int                        `json:"objects"`
	Usage     map[string]inventory.Usage `json:"usage"`
}

func usageCommand(server *pflag.FlagSet) *cobra.Command {
	var o operator
	return o.command(server, &cobra.Command{
		Use:   "du [session | namespace/cluster/session]...",
		Short: "Shows how much of each kind sessions have stored, the largest first",
	}, func(ctx context.Context, args []string) error {
		entries, err := o.entries(ctx, args)
		if err != nil {
			return err
		}
		result := make([]used, 0, len(entries))
		total := used{Session: "total"}
		for _, e := range entries {
			s, err := o.list(ctx, e.Ref)
			if err != nil {
				return err
			}
			u := used{Namespace: e.Ref.Namespace, Cluster: e.Ref.Cluster, Session: e.Ref.Name, Usage: s.Usage()}
			for _, of := range u.Usage {
				u.Bytes += of.Bytes
				u.Objects += of.Objects
			}
			total.Bytes += u.Bytes
			total.Objects += u.Objects
			result = append(result, u)
		}
		slices.SortStableFunc(result, func(a, b used) int { return cmp.Compare(b.Bytes, a.Bytes) })
		return o.tell(result, func(w io.Writer) {
			row(w, "SIZE", "OBJECTS", "EVENTS", "LOGS", "SNAPSHOTS", "INDEX", "SESSION")
			for _, u := range result {
				row(w, size(u.Bytes), u.Objects, size(u.Usage["events"].Bytes), size(u.Usage["logs"].Bytes), size(u.Usage["snapshots"].Bytes),
					size(u.Usage["index"].Bytes), u.Namespace+"/"+u.Cluster+"/"+u.Session)
			}
			row(w, size(total.Bytes), total.Objects, "", "", "", "", total.Session)
		})
	})
}
