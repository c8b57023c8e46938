package commands

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/index"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
)

func whyCommand(o *operator) (*cobra.Command, runFunc) {
	cmd := &cobra.Command{
		Use:   "why {SESSION | namespace/cluster}",
		Short: "Say why a session failed: what went wrong, its causes and the evidence",
		Long:  "Say why a session failed: what went wrong, causes first, with the stored texts that show it.\nnamespace/cluster is the cluster's latest session.",
		Args:  cobra.ExactArgs(1),
	}
	return cmd, func(ctx context.Context, args []string) error {
		name := args[0]
		if strings.Count(name, "/") == 1 {
			name += "/latest"
		}
		e, err := o.describedOne(ctx, name)
		if err != nil {
			return err
		}
		indexes := &index.Opener{Store: o.store, Root: o.storage.Root, Log: o.log}
		s, err := session.Load(ctx, o.store, o.storage.Root, e.Ref, session.Options{Log: o.log, Index: indexes})
		if err != nil {
			return err
		}
		asked, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		if err != nil {
			return err
		}
		report, err := dashboard.New(dashboard.Options{Log: o.log, Metrics: o.metrics(), KeptFindings: indexes.Findings}).Findings(&dashboard.Request{
			Request: asked, Moment: moment.Moment{Session: s, Running: func(context.Context) bool { return e.Running }},
		})
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
