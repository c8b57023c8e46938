package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/client"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/web"
)

// whyCommand makes why, which says why a session or a job failed.
func whyCommand(o *operator) command {
	var job string
	cmd := &cobra.Command{
		Use:   "why SESSION",
		Short: "Say why a session, or one job of it, failed: what went wrong, its causes and the evidence",
		Example: "  historyserver why lab\n" +
			"  historyserver why team-a/nightly/latest --job raysubmit_4Xw1zYQ7ZkHZmZ2R",
		Long: "Say why a session, or one job of it, failed: what went wrong, causes first, with the stored texts " +
			"that show it.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&job, "job", "",
		"only what failed in this job: its ID, its submission's, or an entrypoint, a name or a RayJob's name for its "+
			"latest run")
	run := func(ctx context.Context, args []string) error {
		ref, report, err := o.history.findings(ctx, args[0], job)
		if err != nil {
			return err
		}
		if o.output != "table" {
			return o.printResult(report)
		}
		o.printAddress(ref, job, report)
		return o.throughPager(func(w io.Writer) error { return writeWhy(w, ref.Namespace+"/"+ref.Cluster, report) })
	}
	return command{cmd, traits{canAskServer: true}, run}
}

// printAddress writes to stderr the address of the server's page with the same report, unless the report was made of
// the store.
func (o *operator) printAddress(ref layout.Session, job string, r *findings.Report) {
	server, ok := o.history.(serverHistory)
	if !ok {
		return
	}
	path := ref.Path() + "findings"
	if job != "" && len(r.Jobs) == 1 {
		form := client.JobForm(&compare.Job{ID: r.Jobs[0].JobID, SubmissionID: r.Jobs[0].SubmissionID})
		path += "?" + form.Encode()
	}
	if address, err := server.Address(path); err == nil {
		fmt.Fprintf(o.errOut, "With links: %s\n", address)
	}
}

// What is written of the text of an evidence: its first and last lines, and the first characters of each line. JSON has
// the whole text.
const firstLines, lastLines, lineLength = 3, 11, 400

// maxJobs is how many jobs are written.
const maxJobs = 20

// writeWhy writes a report as text: errors with their evidence and advice, other findings without them. cluster is
// NAMESPACE/CLUSTER.
func writeWhy(w io.Writer, cluster string, r *findings.Report) error {
	b := &whyWriter{shown: map[string]bool{}, titles: map[string]string{}}
	fmt.Fprintf(b, "%s/%s: %s\n%s\n", cluster, r.Session, r.Outcome, r.Summary)
	b.jobs(r.Jobs)
	for _, f := range r.Findings {
		b.titles[f.ID] = f.Title
	}
	for _, f := range r.Findings {
		b.finding(f)
	}
	if len(r.Missing) > 0 {
		b.WriteString("\nMissing:\n")
	}
	for _, m := range r.Missing {
		fmt.Fprintf(b, "  %s\n", m)
	}
	_, err := io.WriteString(w, human.PrintableLines(b.String()))
	return err
}

// whyWriter collects the text of a report.
type whyWriter struct {
	strings.Builder
	shown  map[string]bool   // the last lines of texts of evidence that are written
	titles map[string]string // of findings, by ID
}

// jobs writes how each job ended, if there are several.
func (b *whyWriter) jobs(jobs []findings.Job) {
	if len(jobs) < 2 {
		return
	}
	b.WriteString("\nJobs (--job shows one of them):\n")
	for i := range jobs[:min(len(jobs), maxJobs)] {
		fmt.Fprintf(b, "  %-10s %s\n", jobs[i].Outcome, jobs[i].Name())
	}
	if more := len(jobs) - maxJobs; more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}

// finding writes a finding.
func (b *whyWriter) finding(f *findings.Finding) {
	fmt.Fprintf(b, "\n%s  %s", strings.ToUpper(f.Severity), f.Title)
	if f.Count > 1 {
		fmt.Fprintf(b, " (%s)", human.Count(f.Count, "time"))
	}
	b.WriteString("\n")
	about := web.Card{Finding: f}.When()
	if job := cmp.Or(f.SubmissionID, f.JobID); job != "" {
		about = strings.TrimPrefix(about+", job "+job, ", ")
	}
	if about != "" {
		fmt.Fprintf(b, "  %s\n", about)
	}
	for _, cause := range f.Because {
		fmt.Fprintf(b, "  because: %s\n", b.titles[cause])
	}
	if f.Severity != findings.Error {
		return
	}
	for _, e := range f.Evidence {
		b.evidence(e)
	}
	fmt.Fprintf(b, "  %s\n", strings.TrimSpace(f.Advice+" "+f.Docs))
}

// evidence writes where an evidence is from, and its text: shortened, or only its first line if a text with the same
// end is written above, which b.shown remembers.
func (b *whyWriter) evidence(e findings.Evidence) {
	where := web.EvidenceText{Evidence: e}.From()
	if e.Source == "metric" { // any other text is found by its file and line
		where += " at " + e.Time
	}
	fmt.Fprintf(b, "  %s\n", where)
	lines := strings.Split(e.Text, "\n")
	// Several events and logs may have the same exception: then the last lines of their texts are the same.
	const endLines = 3
	end := strings.Join(lines[max(0, len(lines)-endLines):], "\n")
	if b.shown[end] && len(lines) > endLines {
		lines = []string{lines[0], "… as above"}
	}
	b.shown[end] = true
	if cut := len(lines) - firstLines - lastLines; cut > 1 { // the mark takes a line itself
		lines = slices.Concat(lines[:firstLines], []string{"… " + human.Count(cut, "line")}, lines[firstLines+cut:])
	}
	for _, line := range lines {
		fmt.Fprintf(b, "    | %s\n", human.Cut(line, lineLength))
	}
}
