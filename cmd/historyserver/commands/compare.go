package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/web"
)

// compareCommand makes compare, which puts two sessions or runs of a job side by side.
func compareCommand(o *operator) command {
	var c comparison
	cmd := &cobra.Command{
		Use:   "compare SESSION [SESSION]",
		Short: "Compare two sessions, or two runs of a job",
		Example: "  historyserver compare nightly --job \"python train.py\"\n" +
			"  historyserver compare team-a/nightly/latest session_2026-11-19_01-00-03_140332_1",
		Long: "Compare two sessions, or two runs of a job: times of functions, retries, failures, nodes and resource " +
			"hours.\n" +
			"The default for the second session is the previous one of the same cluster; for a job, its previous run.",
		Args: cobra.RangeArgs(1, 2),
	}
	fs := cmd.Flags()
	fs.StringVar(&c.Job, "job", "",
		"job to compare: its ID, its submission's, or an entrypoint, a name or a RayJob's name for its latest run")
	fs.StringVar(&c.WithJob, "with-job", "", "job to compare with; empty: the previous run of the same job")
	fs.IntVar(&c.Top, "top", compare.DefaultTop, "number of functions to show, largest differences first")
	run := func(ctx context.Context, args []string) error {
		if c.Top < 1 || c.Top > compare.MaxTop {
			return settings.UsageError(fmt.Errorf("--top=%d: want 1 to %d", c.Top, compare.MaxTop))
		}
		c.session = args[0]
		if len(args) == 2 {
			c.with = args[1]
		}
		report, err := o.history.compare(ctx, c)
		if err != nil {
			return err
		}
		return o.print(report, func(w io.Writer) { writeComparison(w, report) })
	}
	return command{cmd, traits{canAskServer: true}, run}
}

// writeComparison writes a comparison as a table: which two are compared, their figures, settings that differ,
// findings, functions, nodes and notes.
func writeComparison(w io.Writer, r *compare.Report) {
	a, b := r.With, r.Session
	writeRow(w, "other", sideName(a))
	writeRow(w, "this", sideName(b))
	section := func(rows int, heads ...any) { // below an empty line, if it has rows
		if rows > 0 {
			writeRow(w)
			writeRow(w, heads...)
		}
	}
	section(1, "", "OTHER", "THIS", "DIFFERENCE") // it always has rows
	writeRow(w, "Outcome", a.Outcome, b.Outcome)
	writeRow(w, "Start", a.Start, b.Start)
	for _, f := range (web.Compare{Report: r}).Figures() {
		writeRow(w, f.Name, f.With, f.Session, f.Difference)
	}
	section(len(r.Settings), "CHANGED", "OTHER", "THIS")
	for _, s := range r.Settings {
		writeRow(w, s.Name, cmp.Or(s.With, "-"), cmp.Or(s.Session, "-"))
	}
	writeLeftOut(w, r.SettingsLeftOut, "setting")
	section(len(r.Findings), "IN", "OTHER", "THIS", "WHAT FAILED")
	for _, f := range r.Findings {
		writeRow(w, map[string]string{compare.InSession: "new", compare.InWith: "gone", compare.InBoth: "both"}[f.In],
			failureCount(f.With), failureCount(f.Session),
			strings.ToUpper(f.Severity)+" "+f.Title)
	}
	writeLeftOut(w, r.FindingsLeftOut, "finding")
	section(len(r.Functions), "FUNCTION", "DIFFERENCE", "TOTAL", "ATTEMPTS", "FAILED", "RETRIES", "MEDIAN", "P95",
		"MAX")
	for _, f := range r.Functions {
		writeRow(w, f.Name, cmp.Or(web.Signed(f.Difference), "0 s"),
			figureChange(f.With.Total, f.Session.Total, human.Seconds),
			figureChange(float64(f.With.Attempts), float64(f.Session.Attempts), wholeNumber),
			figureChange(float64(f.With.Failed), float64(f.Session.Failed), wholeNumber),
			figureChange(float64(f.With.Retries), float64(f.Session.Retries), wholeNumber),
			figureChange(f.With.Median, f.Session.Median, human.Seconds),
			figureChange(f.With.P95, f.Session.P95, human.Seconds),
			figureChange(f.With.Max, f.Session.Max, human.Seconds))
	}
	writeLeftOut(w, r.FunctionsLeftOut, "function")
	section(len(r.Nodes), "NODES", "CPU", "GPU", "MEMORY", "COUNT", "LOST")
	for _, n := range r.Nodes {
		writeRow(w, n.Type, n.CPU, n.GPU, human.Bytes(int64(n.MemoryBytes)),
			figureChange(float64(n.With.Count), float64(n.Session.Count), wholeNumber),
			figureChange(float64(n.With.Lost), float64(n.Session.Lost), wholeNumber))
	}
	writeLeftOut(w, r.NodesLeftOut, "type")
	for _, side := range []*compare.Side{a, b} {
		for _, note := range side.Notes {
			writeRow(w, sideName(side)+": "+note)
		}
	}
}

func sideName(s *compare.Side) string {
	if s.Job != nil {
		return s.Job.Name()
	}
	return s.Namespace + "/" + s.Cluster + "/" + s.Session
}

// wholeNumber writes a number without decimals.
func wholeNumber(v float64) string { return fmt.Sprintf("%.0f", v) }

// figureChange writes a figure of both sides, "3 → 5", or only "3" if they are written alike.
func figureChange(with, session float64, write func(float64) string) string {
	if a, b := write(with), write(session); a != b {
		return a + " → " + b
	}
	return write(session)
}

// failureCount says how often something failed; "-" for nil, never.
func failureCount(f *compare.Failure) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprint(f.Count)
}

// writeLeftOut writes how many things are left out of a table, if any are.
func writeLeftOut(w io.Writer, n int, thing string) {
	if n > 0 {
		writeRow(w, human.Count(n, thing)+" left out")
	}
}
