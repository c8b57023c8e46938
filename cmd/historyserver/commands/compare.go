package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/web"
)

func compareCommand(o *operator) (*cobra.Command, runFunc) {
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
	o.viaServer = true
	fs := cmd.Flags()
	fs.StringVar(&c.Job, "job", "",
		"job to compare: its ID, its submission's, or an entrypoint, a name or a RayJob's name for its latest run")
	fs.StringVar(&c.WithJob, "with-job", "", "job to compare with; empty: the previous run of the same job")
	fs.IntVar(&c.Top, "top", compare.DefaultTop, "number of functions to show, largest differences first")
	return cmd, func(ctx context.Context, args []string) error {
		if c.Top < 1 || c.Top > compare.MaxTop {
			return UsageError(fmt.Errorf("--top=%d: want 1 to %d", c.Top, compare.MaxTop))
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
}

// writeComparison writes a comparison for a terminal: which two they are, their figures, what changed, what failed,
// functions, nodes and notes.
func writeComparison(w io.Writer, r *compare.Report) {
	a, b := r.With, r.Session
	row(w, "other", sideName(a))
	row(w, "this", sideName(b))
	section := func(things int, heads ...any) {
		if things > 0 {
			row(w)
			row(w, heads...)
		}
	}
	section(1, "", "OTHER", "THIS", "DIFFERENCE")
	row(w, "Outcome", a.Outcome, b.Outcome)
	row(w, "Start", a.Start, b.Start)
	for _, f := range (web.Compare{Report: r}).Figures() {
		row(w, f.Name, f.With, f.Session, f.Difference)
	}
	section(len(r.Settings), "CHANGED", "OTHER", "THIS")
	for _, s := range r.Settings {
		row(w, s.Name, cmp.Or(s.With, "-"), cmp.Or(s.Session, "-"))
	}
	leftOut(w, r.SettingsLeftOut, "setting")
	section(len(r.Findings), "IN", "OTHER", "THIS", "WHAT FAILED")
	for _, f := range r.Findings {
		row(w, map[string]string{compare.InSession: "new", compare.InWith: "gone", compare.InBoth: "both"}[f.In],
			times(f.With), times(f.Session),
			strings.ToUpper(f.Severity)+" "+f.Title)
	}
	leftOut(w, r.FindingsLeftOut, "finding")
	section(len(r.Functions), "FUNCTION", "DIFFERENCE", "TOTAL", "ATTEMPTS", "FAILED", "RETRIES", "MEDIAN", "P95",
		"MAX")
	for _, f := range r.Functions {
		row(w, f.Name, cmp.Or(web.Signed(f.Difference), "0 s"),
			change(f.With.Total, f.Session.Total, human.Seconds),
			change(float64(f.With.Attempts), float64(f.Session.Attempts), whole),
			change(float64(f.With.Failed), float64(f.Session.Failed), whole),
			change(float64(f.With.Retries), float64(f.Session.Retries), whole),
			change(f.With.Median, f.Session.Median, human.Seconds),
			change(f.With.P95, f.Session.P95, human.Seconds), change(f.With.Max, f.Session.Max, human.Seconds))
	}
	leftOut(w, r.FunctionsLeftOut, "function")
	section(len(r.Nodes), "NODES", "CPU", "GPU", "MEMORY", "COUNT", "LOST")
	for _, n := range r.Nodes {
		row(w, n.Type, n.CPU, n.GPU, human.Bytes(int64(n.MemoryBytes)),
			change(float64(n.With.Count), float64(n.Session.Count), whole),
			change(float64(n.With.Lost), float64(n.Session.Lost), whole))
	}
	leftOut(w, r.NodesLeftOut, "type")
	for _, side := range []*compare.Side{a, b} {
		for _, note := range side.Notes {
			row(w, sideName(side)+": "+note)
		}
	}
}

// sideName is the job's name, or the session's.
func sideName(s *compare.Side) string {
	if s.Job != nil {
		return s.Job.Name()
	}
	return s.Namespace + "/" + s.Cluster + "/" + s.Session
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

// change writes a figure of both sides, once where both are the same.
func change(with, session float64, write func(float64) string) string {
	if a, b := write(with), write(session); a != b {
		return a + " → " + b
	}
	return write(session)
}

func times(f *compare.Failure) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprint(f.Count)
}

func leftOut(w io.Writer, n int, thing string) {
	if n > 0 {
		row(w, human.Count(n, thing)+" left out")
	}
}
