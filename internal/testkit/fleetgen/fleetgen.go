// Package fleetgen generates what a store holds of many sessions and the list of sessions reads: markers, packs, and
// some objects of the newest sessions.
package fleetgen

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Options say what is generated.
type Options struct {
	Sessions int // of three tenths as many clusters
	Objects  int // how many of the newest sessions have more objects than a marker
	Days     int // over which they are spread; 1000 if 0
	End      time.Time
	// NoMarkers leaves out markers and objects.
	NoMarkers bool
}

// puts is how many objects are stored at a time.
const puts = 16

// Facts tells of session n of all, the oldest first.
func (o *Options) Facts(n int) packs.Facts {
	days := o.days()
	start := o.End.Add(-24*time.Hour).Truncate(24*time.Hour).AddDate(0, 0,
		n*days/max(1, o.Sessions)-days).Add(time.Duration(n*37%82_000) * time.Second)
	f := packs.Facts{
		Ref: layout.Session{
			Namespace: fmt.Sprintf("team-%d", n*3/10%40), Cluster: fmt.Sprintf("rayjob-%05d", n*3/10),
			Name: start.Format("session_2006-01-02_15-04-05_") + fmt.Sprintf("%06d_%d", n%1_000_000, n%30_000),
		},
		Seen: start.Add(2 * time.Hour), Start: start, End: start.Add(time.Hour), LastWrite: start.Add(time.Hour),
		Summary: packs.Summary{OwnerKind: "RayJob", OwnerName: fmt.Sprintf("training-%d", n%5000), RayVersion: "2.60.0",
			Bytes: int64(n) * 1000, Objects: 200, Nodes: 4, Outcome: "succeeded"},
		Findings: []packs.Finding{}, Hours: &packs.Hours{Amounts: packs.Amounts{Node: 4}},
		Jobs: []packs.Job{{
			ID: "01000000", Submission: fmt.Sprintf("raysubmit_%08d", n), Status: "SUCCEEDED",
			Entrypoint: fmt.Sprintf("python train.py --seed %d", n), User: fmt.Sprintf("user-%d", n%300),
		}},
	}
	if n%5 == 0 {
		f.Outcome, f.Cause = "failed", "Task train failed: torch.cuda.OutOfMemoryError: CUDA out of memory"
		f.Findings = []packs.Finding{{Kind: "task_failed", Severity: "error",
			Signature: "task_failed CUDA out of memory", Title: f.Cause, Count: 1}}
	}
	return f
}

func (o *Options) days() int {
	if o.Days == 0 {
		return 1000
	}
	return o.Days
}

// Write stores the sessions.
func (o *Options) Write(ctx context.Context, store blob.Store, root string) error {
	packed := packs.Packs{Store: store, Root: root}
	days := o.days()
	for d := range days {
		from, to := (d*o.Sessions+days-1)/days, ((d+1)*o.Sessions+days-1)/days
		all := make([]packs.Facts, 0, to-from)
		g, storing := errgroup.WithContext(ctx)
		g.SetLimit(puts)
		for n := from; n < to; n++ {
			f := o.Facts(n)
			all = append(all, f)
			if !o.NoMarkers {
				g.Go(func() error { return o.objects(storing, store, root, n, &f) })
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if len(all) == 0 {
			continue
		}
		if err := packed.Append(ctx, layout.PackDay(all[0].Ref), nil, all); err != nil {
			return err
		}
	}
	return nil
}

// objects stores a session's marker and, of the newest, its metadata and a log.
func (o *Options) objects(ctx context.Context, store blob.Store, root string, n int, f *packs.Facts) error {
	put := func(key, body string) error { return store.Put(ctx, key, strings.NewReader(body)) }
	if err := put(layout.MarkerKey(root, f.Ref), ""); err != nil || n < o.Sessions-o.Objects {
		return err
	}
	for key, body := range map[string]string{
		layout.MetadataKey(root, f.Ref, layout.Start): fmt.Sprintf(
			`{"ownerKind":"RayJob","ownerName":%q,"start":%q,"rayVersion":"2.60.0"}`, f.OwnerName,
			f.Start.Format(time.RFC3339)),
		layout.MetadataKey(root, f.Ref, layout.End): fmt.Sprintf(
			`{"end":%q,"nodes":4}`, f.End.Format(time.RFC3339)),
		layout.Prefix(root, f.Ref) + "logs/" + strings.Repeat("0", 56) + "/raylet.out": "nothing to see\n",
	} {
		if err := put(key, body); err != nil {
			return err
		}
	}
	return nil
}
