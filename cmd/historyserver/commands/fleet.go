package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
)

func fleetCommand(o *operator) (*cobra.Command, runFunc) {
	var by, table, prices string
	var rows int
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Summarize many sessions: outcomes, causes and hours",
		Example: "  historyserver fleet --namespace team-a --from 2026-11-01\n" +
			"  historyserver fleet -o csv --table owners --by gpu",
		Long: "Summarize the sessions of the last 30 days, or of other days: how they ended, what failed first, and " +
			"the node, CPU, GPU and memory\n" +
			"hours of namespaces, owners and jobs. It counts the ended sessions that the server has packed. " +
			"--output=csv writes one of the tables.",
		Args: cobra.NoArgs,
	}
	o.outputs, o.askable = []string{"table", "csv", "json", "yaml"}, true
	fs := cmd.Flags()
	fs.StringVar(&by, "by", "", "resource to sort by: cpu, gpu, memory or node, or, with prices, cost; "+
		"empty: gpu if nodes had any, otherwise cpu")
	fs.IntVar(&rows, "top", fleet.DefaultTop, "maximum number of rows of each sorted table")
	fs.StringVar(&table, "table", "", "table for --output=csv: "+strings.Join(fleet.Tables, ", "))
	fs.StringVar(&prices, "prices", "", "YAML file with prices and budgets, for costs; see docs/cost.md")
	filter := addFilter(fs)
	return cmd, func(ctx context.Context, _ []string) error {
		q := fleet.Query{By: by, Top: rows, Now: time.Now()}
		f, err := filter()
		if err != nil {
			return err
		}
		q.Filter = f.Filter
		if by != "" && !slices.Contains(fleet.Resources, by) {
			return UsageError(fmt.Errorf("--by=%q: want %s", by, strings.Join(fleet.Resources, ", ")))
		}
		if rows < 1 || rows > fleet.MaxTop {
			return UsageError(fmt.Errorf("--top=%d: want 1 to %d", rows, fleet.MaxTop))
		}
		if csv := o.output == "csv"; csv != (table != "") || csv && !slices.Contains(fleet.Tables, table) {
			return UsageError(fmt.Errorf("--table=%q: want, with --output=csv only, one of %s", table,
				strings.Join(fleet.Tables, ", ")))
		}
		// for a server; q is for a store
		f.form.Set("by", by)
		f.form.Set("top", strconv.Itoa(rows))
		if q, err = q.Bounded(); err != nil {
			return UsageError(fmt.Errorf("--%w", err)) // it begins with a parameter's name, which is also the flag's
		}
		report, err := o.history.fleet(ctx, q, f.form, prices)
		if err != nil {
			return err
		}
		if o.output == "csv" {
			return report.WriteCSV(o.out, table)
		}
		return o.print(report, func(w io.Writer) { writeFleet(w, report) })
	}
}

// writeFleet writes a report for a terminal.
func writeFleet(w io.Writer, r *fleet.Report) {
	t := r.Total
	total, dayHeads := []any{r.From + " to " + r.To, human.Count(t.Sessions, "session")}, []any{"DAY", "SESSIONS"}
	for outcome, n := range t.Each() {
		total, dayHeads = append(total, fmt.Sprintf("%d %s", n, outcome)), append(dayHeads, strings.ToUpper(outcome))
	}
	row(w, total...)
	if t.Unmeasured > 0 {
		row(w, "without hours", human.Count(t.Unmeasured, "session"))
	}
	if b := r.Before; b != nil {
		row(w, b.From+" to "+b.To, human.Count(b.Total.Sessions, "session"), fmt.Sprintf("%d failed", b.Total.Failed))
		change := []any{"change"}
		for _, c := range []struct {
			what        string
			now, before float64
		}{
			{"sessions", float64(t.Sessions), float64(b.Total.Sessions)},
			{"failed", float64(t.Failed), float64(b.Total.Failed)},
			{"CPU hours", t.Hours.CPU.Offered, b.Total.Hours.CPU.Offered},
			{"GPU hours", t.Hours.GPU.Offered, b.Total.Hours.GPU.Offered},
		} {
			if text := human.Change(c.now, c.before); text != "" {
				change = append(change, c.what+" "+text)
			}
		}
		if len(change) > 1 {
			row(w, change...)
		}
	}
	section := func(rows int, heads ...any) {
		if rows > 0 {
			row(w)
			row(w, heads...)
		}
	}
	priced := r.Currency != ""
	hourHeads := hourHeads
	if priced {
		hourHeads += "\tCOST (" + r.Currency + ")"
	}
	hourCells := func(h fleet.Hours) string {
		if priced {
			return hourCells(h) + fmt.Sprintf("\t%.2f", h.Cost)
		}
		return hourCells(h)
	}
	section(1, "HOURS", hourHeads)
	row(w, "all", hourCells(t.Hours))
	section(len(r.Days), dayHeads...)
	for _, d := range r.Days {
		cells := []any{d.Day, d.Sessions}
		for _, n := range d.Each() {
			cells = append(cells, n)
		}
		row(w, cells...)
	}
	section(len(r.Causes), "SESSIONS", "LAST (UTC)", "IN", "WHAT FAILED FIRST")
	for _, c := range r.Causes {
		row(w, c.Sessions, human.Time(c.Last), c.Latest.Namespace+"/"+c.Latest.Cluster+"/"+c.Latest.Session, c.Title)
	}
	section(len(r.Namespaces), "NAMESPACE", "SESSIONS", "FAILED", hourHeads)
	for _, u := range r.Namespaces {
		row(w, u.Namespace, u.Runs, u.Failed, hourCells(u.Hours))
	}
	if slices.ContainsFunc(r.Namespaces, func(u fleet.Usage) bool { return u.Budget > 0 }) {
		section(1, "NAMESPACE", "COST ("+r.Currency+")", "BUDGET")
		for _, u := range r.Namespaces {
			if u.Budget > 0 {
				row(w, u.Namespace, fmt.Sprintf("%.2f", u.Hours.Cost), fmt.Sprintf("%.2f", u.Budget))
			}
		}
	}
	section(len(r.Owners), "OWNER", "SESSIONS", "FAILED", hourHeads)
	for _, u := range r.Owners {
		row(w, u.Namespace+"/"+u.Name+" ("+u.Kind+")", u.Runs, u.Failed, hourCells(u.Hours))
	}
	section(len(r.Jobs), "JOB", "RUNS", "FAILED", hourHeads)
	for _, u := range r.Jobs {
		row(w, jobName(u.Namespace, u.Name), u.Runs, u.Failed, hourCells(u.Hours))
	}
	section(len(r.Users), "USER", "JOBS", "FAILED", hourHeads)
	for _, u := range r.Users {
		row(w, u.Namespace+"/"+u.Name, u.Runs, u.Failed, hourCells(u.Hours))
	}
	section(len(r.Slower), "JOBS THAT BECAME SLOWER", "RUNS", "MEAN", "RUNS AFTER", "MEAN AFTER", "RATIO")
	for _, s := range r.Slower {
		row(w, jobName(s.Namespace, s.Name), s.Before.Runs, human.Seconds(s.Before.Mean), s.After.Runs,
			human.Seconds(s.After.Mean),
			fmt.Sprintf("%.2f", s.Ratio))
	}
	section(len(r.Sessions), "MOST EXPENSIVE SESSIONS", "DURATION", "OUTCOME", hourHeads)
	for _, s := range r.Sessions {
		row(w, s.Namespace+"/"+s.Cluster+"/"+s.Place.Session, human.Seconds(s.Seconds), cmp.Or(s.Outcome, "-"),
			hourCells(s.Hours))
	}
}

func jobName(namespace, name string) string {
	return namespace + "/" + cmp.Or(name, "(drivers without a name)")
}

// hourHeads are the headings of hourCells, separated by tabs.
const hourHeads = "NODE H\tCPU H\tUNUSED\tGPU H\tUNUSED\tGIB H\tUNUSED"

// hourCells returns the columns below hourHeads: node hours; then of CPU, GPU and memory the offered hours and the
// share that was not used.
func hourCells(h fleet.Hours) string {
	cells := []string{fmt.Sprintf("%.1f", h.Node)}
	for _, r := range h.Resources() {
		unused := "-"
		if r.Unused != nil {
			share := *r.Unused
			unused = fmt.Sprintf("%.0f %%", math.Round(100*share))
		}
		cells = append(cells, fmt.Sprintf("%.1f", r.Offered), unused)
	}
	return strings.Join(cells, "\t")
}
