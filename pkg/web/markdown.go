package web

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// WriteMarkdown writes the page's findings as Markdown for a ticket; if only is not "", just the finding with this ID.
// Stored texts are in code spans and blocks, so that nothing in them is read as Markdown.
func (p Findings) WriteMarkdown(w io.Writer, only string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", codeSpan(p.Heading()))
	fmt.Fprintf(&b, "**%s** %s\n\nSession %s\n", p.Outcome, codeSpan(p.Summary),
		codeSpan(p.Head.Ref.String()))
	for _, f := range p.Report.Findings {
		if only != "" && f.ID != only || p.Given.Get("severity") != "" && f.Severity != p.Given.Get("severity") {
			continue
		}
		c := Card{Finding: f}
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s", f.Severity, codeSpan(f.Title), c.KindText())
		if f.Count > 1 {
			fmt.Fprintf(&b, ", %d times", f.Count)
		}
		if when := c.When(); when != "" {
			b.WriteString(", " + when)
		}
		if job := cmp.Or(f.SubmissionID, f.JobID); job != "" {
			b.WriteString(", job " + codeSpan(job))
		}
		b.WriteString("\n")
		for _, id := range f.Because {
			fmt.Fprintf(&b, "\nBecause: %s\n", codeSpan(p.Cause(id).Title))
		}
		fmt.Fprintf(&b, "\n%s <%s>\n", f.Advice, f.Docs)
		for _, e := range f.Evidence {
			text := strings.TrimSpace(output.Printable(e.Text))
			fence := backticks(text, 3)
			from := EvidenceText{Evidence: e}.From()
			if at := timeOf(e.Time); !at.IsZero() {
				from += ", " + at.UTC().Format(time.DateTime) + " UTC"
			}
			fmt.Fprintf(&b, "\n%s\n\n%stext\n%s\n%s\n", codeSpan(from), fence, text, fence)
		}
	}
	if len(p.Missing) > 0 && only == "" {
		b.WriteString("\n## Known to be missing\n\n")
		for _, m := range p.Missing {
			fmt.Fprintf(&b, "- %s\n", codeSpan(m))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// codeSpan returns a text as a Markdown code span in one line; "" if it has no visible characters.
func codeSpan(text string) string {
	text = strings.Join(strings.Fields(output.Printable(text)), " ")
	if text == "" {
		return ""
	}
	mark, space := backticks(text, 1), ""
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		space = " "
	}
	return mark + space + text + space + mark
}

// backticks returns backticks to put around a text: one more than its longest run of backticks has, and at least as
// many as least says.
func backticks(text string, least int) string {
	run := 0
	for _, r := range text {
		if run++; r != '`' {
			run = 0
		}
		least = max(least, run+1)
	}
	return strings.Repeat("`", least)
}
