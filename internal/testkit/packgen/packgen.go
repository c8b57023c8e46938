// Package packgen generates packs of a fleet's sessions, for tests and benchmarks.
package packgen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// firstDay is that of the generated sessions.
var firstDay = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

// Options say what is generated.
type Options struct {
	Sessions, Days int
	Seed           uint64
}

// Write stores packs. Of some sessions there are two rows, in two packs; the later one counts and knows all.
func Write(ctx context.Context, to packs.Packs, o Options) error {
	r := rand.New(rand.NewPCG(o.Seed, 1))
	days := make(map[time.Time][2][]packs.Facts)
	for n := range o.Sessions {
		f := facts(r, n, o.Days)
		day := days[layout.PackDay(f.Ref)]
		if n%10 == 0 && f.Outcome != "" && f.Hours != nil && f.Jobs != nil {
			early := f
			early.Seen, early.Outcome, early.Hours = f.Seen.Add(-time.Hour), "unfinished",
				&packs.Hours{Amounts: packs.Amounts{Node: 1000, CPU: 1000}}
			day[0] = append(day[0], early)
			day[1] = append(day[1], f)
		} else {
			day[n%2] = append(day[n%2], f)
		}
		days[layout.PackDay(f.Ref)] = day
	}
	for day, both := range days {
		for _, part := range both {
			if err := to.Append(ctx, day, nil, part); err != nil {
				return err
			}
		}
	}
	return nil
}

func facts(r *rand.Rand, n, days int) packs.Facts {
	start := firstDay.Add(time.Duration(r.IntN(days*24*60)) * time.Minute)
	end := start.Add(time.Duration(1+r.IntN(600)) * time.Minute)
	namespace := fmt.Sprintf("team-%d", r.IntN(5))
	f := packs.Facts{
		Ref: layout.Session{Namespace: namespace, Cluster: fmt.Sprintf("c%05d", n),
			Name: "session_" + start.Format("2006-01-02_15-04-05") + "_000000_1"},
		Seen: end.Add(2 * time.Hour), Start: start, End: end, LastWrite: end.Add(time.Minute),
		Summary: packs.Summary{OwnerKind: "RayJob", OwnerName: fmt.Sprintf("owner-%d", r.IntN(20)),
			RayVersion: "2.60.0", Bytes: int64(r.IntN(1e9)), Objects: 1 + r.IntN(1000), Nodes: 1 + r.IntN(8)},
	}
	switch r.IntN(6) {
	case 0:
		kind := []string{"task_failed", "out_of_memory", "node_died"}[r.IntN(3)]
		f.Outcome, f.Cause = "failed", kind+" in 17 s"
		f.Findings = []packs.Finding{
			{Kind: "starved", Severity: "warning", Signature: "starved Tasks waited # s", Title: "Tasks waited 17 s",
				Count: 1},
			{Kind: kind, Severity: "error", Signature: kind + " in # s", Title: f.Cause, Count: 1 + r.IntN(9)},
		}
	case 1: // nothing is known of its end
	default:
		f.Outcome, f.Findings = "succeeded", []packs.Finding{}
	}
	if r.IntN(8) > 0 {
		hours := end.Sub(start).Hours() * float64(f.Nodes)
		f.Hours = &packs.Hours{Amounts: packs.Amounts{Node: hours, CPU: 8 * hours, GPU: float64(r.IntN(3)) * hours,
			Memory: 32 * hours}}
		if r.IntN(3) > 0 {
			f.Hours.Used = &packs.Used{CPU: r.Float64() * f.Hours.CPU, GPU: r.Float64() * f.Hours.GPU,
				Memory: r.Float64() * f.Hours.Memory}
		}
	}
	if r.IntN(10) > 0 {
		f.Jobs = []packs.Job{}
		for i := range r.IntN(4) {
			begin := start.Add(time.Duration(i) * time.Minute)
			j := packs.Job{ID: fmt.Sprintf("%02d000000", i+1), Submission: fmt.Sprintf("raysubmit_%d_%d", n, i),
				Status: "SUCCEEDED"}
			j.Entrypoint = fmt.Sprintf("python train.py --size %d", r.IntN(9))
			if r.IntN(3) == 0 {
				j.Name = fmt.Sprintf("nightly-%d", r.IntN(4))
			}
			if f.Outcome == "failed" && i == 0 {
				j.Status, j.Message = "FAILED", "exit code 1"
			}
			if r.IntN(5) > 0 {
				j.Start, j.End = begin.UnixMilli(),
					begin.Add(time.Duration(r.IntN(int(end.Sub(start)/time.Second)+1))*time.Second).UnixMilli()
			}
			if r.IntN(10) == 0 {
				j.End = 0 // it still ran when its session ended
			}
			f.Jobs = append(f.Jobs, j)
		}
	}
	return f
}
