package main

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/index"
	"github.com/rayhistory/historyserver/pkg/outcomes"
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
	Outcome    string    `json:"outcome,omitempty"` // failed, succeeded, stopped or unfinished; where findings are kept with the index
	Cause      string    `json:"cause,omitempty"`   // the first error, one line
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

func listCommand(o *operator) (*cobra.Command, runFunc) {
	cmd := &cobra.Command{
		Use:   "ls [session | namespace/cluster/session]...",
		Short: "List stored sessions with their sizes and times",
	}
	return cmd, func(ctx context.Context, args []string) error {
		entries, err := o.described(ctx, args)
		if err != nil {
			return err
		}
		result := o.readOutcomes(ctx, entries)
		return o.print(result, func(w io.Writer) {
			row(w, "NAMESPACE", "CLUSTER", "SESSION", "STATE", "START (UTC)", "DURATION", "NODES", "RAY", "OBJECTS", "SIZE", "OUTCOME", "CAUSE")
			for i, e := range entries {
				nodes, duration := any("-"), "-"
				if e.Nodes > 0 {
					nodes = e.Nodes
				}
				if d := e.Duration(time.Now()); d > 0 {
					duration = human.Duration(d)
				}
				row(w, e.Ref.Namespace, e.Ref.Cluster, e.Ref.Name, state(e.Running), human.Time(e.Start),
					duration, nodes, cmp.Or(e.RayVersion, "-"), e.Objects, human.Bytes(e.Bytes),
					cmp.Or(result[i].Outcome, "-"), cmp.Or(result[i].Cause, "-"))
			}
		})
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
			if head, ok := outcomes.Read(ctx, indexes.Findings, e); ok {
				result[i].Outcome, result[i].Cause = head.Outcome, head.Cause
			}
			return nil
		})
	}
	_ = g.Wait()
	return result
}
