package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
)

// fleetCommand makes fleet, which shows totals over many sessions.
func fleetCommand(o *operator) command {
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
			"--table shows, and --output=csv writes, one of the tables.",
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.StringVar(&by, "by", "", "resource to sort by: "+human.Or(fleet.Resources)+" (with prices); "+
		"empty: gpu if nodes had any, otherwise cpu")
	fs.IntVar(&rows, "top", fleet.DefaultTop, "maximum number of rows of each sorted table")
	fs.StringVar(&table, "table", "", "only this table, which --output=csv needs: "+strings.Join(fleet.Tables, ", "))
	fs.StringVar(&prices, "prices", "", "YAML file with prices and budgets, for costs; see docs/cost.md")
	filter := o.addFilter(fs)
	run := func(ctx context.Context, _ []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		q := fleet.Query{Filter: f, By: by, Top: rows, Now: time.Now()}
		if by != "" && !slices.Contains(fleet.Resources, by) {
			return settings.UsageError(fmt.Errorf("--by=%q: want %s", by, human.Or(fleet.Resources)))
		}
		if rows < 1 || rows > fleet.MaxTop {
			return settings.UsageError(fmt.Errorf("--top=%d: want 1 to %d", rows, fleet.MaxTop))
		}
		if wanted := table != "" || o.output == "csv"; wanted && !slices.Contains(fleet.Tables, table) {
			return settings.UsageError(fmt.Errorf("--table=%q: want %s", table, human.Or(fleet.Tables)))
		}
		if table != "" && o.output != "csv" && o.output != "table" {
			return settings.UsageError(fmt.Errorf("--table: --output=%s has all tables", o.output))
		}
		if q, err = q.WithPeriod(); err != nil {
			return settings.UsageError(fmt.Errorf("--%w", err)) // the error begins with the name of a parameter and flag
		}
		report, err := o.history.fleet(ctx, q, prices)
		if err != nil {
			return err
		}
		if o.output == "csv" {
			return report.WriteCSV(o.out, table)
		}
		write := (*fleetWriter).writeAll
		if table != "" {
			write = fleetTables[table]
		}
		return o.print(report, func(w io.Writer) { write(&fleetWriter{w: w, r: report, terminal: o.terminal}) })
	}
	return command{cmd, traits{canAskServer: true, outputs: []string{"table", "csv", "json", "yaml"}}, run}
}

// fleetTables has for each name of fleet.Tables the method that writes the table.
var fleetTables = map[string]func(*fleetWriter){
	"days":       (*fleetWriter).days,
	"causes":     (*fleetWriter).causes,
	"namespaces": (*fleetWriter).namespaces,
	"owners":     func(f *fleetWriter) { f.usage(f.r.Owners, "OWNER", "SESSIONS", ownerName) },
	"jobs":       func(f *fleetWriter) { f.usage(f.r.Jobs, "JOB", "RUNS", jobName) },
	"users":      func(f *fleetWriter) { f.usage(f.r.Users, "USER", "JOBS", userName) },
	"slower":     (*fleetWriter).slowerJobs,
	"sessions":   (*fleetWriter).sessions,
}

// fleetWriter writes a report as tables.
type fleetWriter struct {
	w        io.Writer
	r        *fleet.Report
	terminal terminal
	begun    bool // something is written, below which a section needs an empty line
}

func (f *fleetWriter) writeAll() {
	f.totals()
	for _, name := range fleet.Tables {
		fleetTables[name](f)
	}
}

// beginTable writes the heads of a table, unless the table has no rows. An empty line separates it from what is above.
func (f *fleetWriter) beginTable(rows int, heads ...any) {
	if rows == 0 {
		return
	}
	if f.begun {
		writeRow(f.w)
	}
	f.begun = true
	writeRow(f.w, heads...)
}

// totals writes the totals of all days, and how they differ from those of as many days before.
func (f *fleetWriter) totals() {
	t := f.r.Total
	f.begun = true
	total := []any{f.r.From + " to " + f.r.To, human.Count(t.Sessions, "session")}
	for outcome, n := range t.Each() {
		total = append(total, fmt.Sprintf("%d %s", n, outcome))
	}
	writeRow(f.w, total...)
	if t.Unmeasured > 0 {
		writeRow(f.w, "without hours", human.Count(t.Unmeasured, "session"))
	}
	if b := f.r.Before; b != nil {
		writeRow(f.w, b.From+" to "+b.To, human.Count(b.Total.Sessions, "session"), fmt.Sprintf("%d failed", b.Total.Failed))
		change := []any{"change"}
		add := func(what string, now, before float64) {
			if text := human.Change(now, before); text != "" {
				change = append(change, what+" "+text)
			}
		}
		add("sessions", float64(t.Sessions), float64(b.Total.Sessions))
		add("failed", float64(t.Failed), float64(b.Total.Failed))
		for _, figure := range f.figures() {
			add(figure.Title, t.Hours.Of(figure.By), b.Total.Hours.Of(figure.By))
		}
		if len(change) > 1 {
			writeRow(f.w, change...)
		}
	}
	const oneRow = 1
	f.beginTable(oneRow, "HOURS", f.hourHeads())
	writeRow(f.w, "all", f.hours(t.Hours))
}

func (f *fleetWriter) days() {
	heads := []any{"DAY", "SESSIONS"}
	for outcome := range f.r.Total.Each() {
		heads = append(heads, strings.ToUpper(outcome))
	}
	f.beginTable(len(f.r.Days), heads...)
	for _, d := range f.r.Days {
		cells := []any{d.Day, d.Sessions}
		for _, n := range d.Each() {
			cells = append(cells, n)
		}
		writeRow(f.w, cells...)
	}
}

// causes writes what failed first, and how often. If the terminal is too narrow, it shortens the name of the latest
// session, down to 24 characters, before the cause, down to 40.
func (f *fleetWriter) causes() {
	const latest, cause = 2, 3
	rows := [][]any{{"SESSIONS", "LAST (UTC)", "LATEST", "WHAT FAILED FIRST"}}
	for _, c := range f.r.Causes {
		rows = append(rows, []any{c.Sessions, human.Time(c.Last),
			c.Latest.Namespace + "/" + c.Latest.Cluster + "/" + c.Latest.Session, c.Title})
	}
	f.terminal.fitColumns(rows, shrink{latest, 24}, shrink{cause, 40})
	f.beginTable(len(f.r.Causes), rows[0]...)
	for _, cells := range rows[1:] {
		writeRow(f.w, cells...)
	}
}

// namespaces writes what each namespace used and, in a second table, what those with a budget cost.
func (f *fleetWriter) namespaces() {
	f.usage(f.r.Namespaces, "NAMESPACE", "SESSIONS", func(u fleet.Usage) string { return u.Namespace })
	withBudget := slices.DeleteFunc(slices.Clone(f.r.Namespaces), func(u fleet.Usage) bool { return u.Budget <= 0 })
	f.beginTable(len(withBudget), "NAMESPACE", "COST ("+f.r.Currency+")", "BUDGET")
	for _, u := range withBudget {
		writeRow(f.w, u.Namespace, fmt.Sprintf("%.2f", u.Hours.Cost), fmt.Sprintf("%.2f", u.Budget))
	}
}

// usage writes a table of what each namespace, owner, job or user used. nameHead and runsHead are the heads of the
// columns with names, which name returns, and with the numbers of runs.
func (f *fleetWriter) usage(used []fleet.Usage, nameHead, runsHead string, name func(fleet.Usage) string) {
	f.beginTable(len(used), nameHead, runsHead, "FAILED", f.hourHeads())
	for _, u := range used {
		writeRow(f.w, name(u), u.Runs, u.Failed, f.hours(u.Hours))
	}
}

func (f *fleetWriter) slowerJobs() {
	f.beginTable(len(f.r.Slower), "JOBS THAT BECAME SLOWER", "RUNS", "MEAN", "RUNS AFTER", "MEAN AFTER", "RATIO")
	for _, s := range f.r.Slower {
		writeRow(f.w, jobName(fleet.Usage{Namespace: s.Namespace, Name: s.Name}), s.Before.Runs,
			human.Seconds(s.Before.Mean), s.After.Runs, human.Seconds(s.After.Mean), fmt.Sprintf("%.2f", s.Ratio))
	}
}

func (f *fleetWriter) sessions() {
	f.beginTable(len(f.r.Sessions), "MOST EXPENSIVE SESSIONS", "DURATION", "OUTCOME", f.hourHeads())
	for _, s := range f.r.Sessions {
		writeRow(f.w, s.Namespace+"/"+s.Cluster+"/"+s.Place.Session, human.Seconds(s.Seconds), cmp.Or(s.Outcome, "-"),
			f.hours(s.Hours))
	}
}

func ownerName(u fleet.Usage) string { return u.Namespace + "/" + u.Name + " (" + u.Kind + ")" }

func jobName(u fleet.Usage) string {
	return u.Namespace + "/" + cmp.Or(u.Name, "(drivers without a name)")
}

func userName(u fleet.Usage) string { return u.Namespace + "/" + u.Name }

// figures are the hours of each resource, and the cost if there are prices: each has a column.
func (f *fleetWriter) figures() []fleet.Figure { return fleet.Figures(f.r.Currency != "") }

// hourHeads are the heads of the columns of figures, separated by tabs.
func (f *fleetWriter) hourHeads() string {
	var heads []string
	for _, figure := range f.figures() {
		heads = append(heads, cmp.Or(strings.ToUpper(figure.Head), "COST ("+f.r.Currency+")"))
		if _, use := figure.Of(&f.r.Total.Hours); use != nil {
			heads = append(heads, "UNUSED")
		}
	}
	return strings.Join(heads, "\t")
}

// hours are the cells below hourHeads, separated by tabs: what the nodes offered, and the share of it that was not
// used.
func (f *fleetWriter) hours(h fleet.Hours) string {
	var cells []string
	for _, figure := range f.figures() {
		v, use := figure.Of(&h)
		digits := 1
		if figure.By == fleet.ByCost {
			digits = 2
		}
		cells = append(cells, fmt.Sprintf("%.*f", digits, v))
		switch {
		case use == nil:
		case use.Unused == nil:
			cells = append(cells, "-")
		default:
			cells = append(cells, fmt.Sprintf("%.0f %%", math.Round(100**use.Unused)))
		}
	}
	return strings.Join(cells, "\t")
}
