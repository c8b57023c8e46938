package commands

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/findings"
)

func whyCommand(o *operator) (*cobra.Command, runFunc) {
	cmd := &cobra.Command{
		Use:   "why SESSION",
		Short: "Say why a session failed: what went wrong, its causes and the evidence",
		Long:  "Say why a session failed: what went wrong, causes first, with the stored texts that show it.",
		Args:  cobra.ExactArgs(1),
	}
	o.askable = true
	return cmd, func(ctx context.Context, args []string) error {
		report, err := o.history.findings(ctx, args[0], "")
		if err != nil {
			return err
		}
		if o.output == "json" {
			return o.printJSON(report)
		}
		return writeWhy(o.out, report)
	}
}

// What a terminal shows of a finding: so many texts, and of each so many lines at its beginning and at its end; and what metrics say.
const shownEvidence, firstLines, lastLines = 2, 3, 11

// writeWhy writes a report for a terminal: the errors with their evidence, of the others the titles.
func writeWhy(w io.Writer, r *findings.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n%s\n", r.Session, r.Outcome, r.Summary)
	titles := map[string]string{}
	for _, f := range r.Findings {
		titles[f.ID] = f.Title
		fmt.Fprintf(&b, "\n%s  %s", strings.ToUpper(f.Severity), f.Title)
		if f.Count > 1 {
			fmt.Fprintf(&b, " (%s)", human.Count(f.Count, "time"))
		}
		b.WriteString("\n")
		for _, cause := range f.Because {
			fmt.Fprintf(&b, "  because: %s\n", titles[cause])
		}
		if f.Severity != findings.Error {
			continue
		}
		for i, e := range f.Evidence {
			if i < shownEvidence || e.Source == "metric" {
				writeEvidence(&b, e)
			}
		}
		fmt.Fprintf(&b, "  %s %s\n", f.Advice, f.Docs)
	}
	if len(r.Missing) > 0 {
		b.WriteString("\nMissing:\n")
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "  %s\n", m)
	}
	_, err := io.WriteString(w, printableLines(b.String()))
	return err
}

func writeEvidence(b *strings.Builder, e findings.Evidence) {
	where := e.Source
	if e.File != "" {
		where = e.File
		if e.Line > 0 {
			where += fmt.Sprintf(":%d", e.Line)
		}
		where += " of node " + e.NodeID
	} else if e.Source == "metric" {
		where += " at " + e.Time
	}
	fmt.Fprintf(b, "  %s\n", where)
	lines := strings.Split(e.Text, "\n")
	if cut := len(lines) - firstLines - lastLines; cut > 0 {
		lines = slices.Concat(lines[:firstLines], []string{"… " + human.Count(cut, "line")}, lines[firstLines+cut:])
	}
	for _, line := range lines {
		fmt.Fprintf(b, "    | %s\n", line)
	}
}
