package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// Findings is the page that says why a session, or one job of it, ended as it did.
type Findings struct {
	Frame
	Given            url.Values       // the query of the page
	Whole            *findings.Report // of the session
	*findings.Report                  // what is shown: of the session, or of one job
}

// Limits of the jobs whose findings the page shows, and of those that its form offers. Any other job can still be
// chosen, by the page's address.
const maxJobsShown, maxJobsOffered = 100, 300

// FindingsGroup is the findings of one job, or those that belong to no job.
type FindingsGroup struct {
	*findings.Job // nil: they belong to none
	Cards         []Card
}

// Card is one finding on the page.
type Card struct {
	*findings.Finding
	Open     bool
	Above    bool // its complete card is in a group above, and this one only leads there
	Evidence []EvidenceText
}

// EvidenceText is one text of the evidence on the page.
type EvidenceText struct {
	findings.Evidence
	Parts  []Part
	Folded string // the line that is shown while the text is folded
	Open   bool
	Above  bool // the page shows the same text above
}

func (Findings) template() string { return "findings.html" }

// Job is the job that the page is about; nil if it is about the session.
func (p Findings) Job() *findings.Job {
	if p.Report == p.Whole || len(p.Report.Jobs) != 1 {
		return nil
	}
	return &p.Report.Jobs[0]
}

// Groups are the findings by job, and at the end those of no job. A finding of several jobs has a card in each of their
// groups; only the first is complete. The first card of all is open, if its finding is an error or the only one, or if
// the page is about one job.
func (p Findings) Groups() (groups []FindingsGroup) {
	placed := map[string]bool{} // by the IDs of findings
	var seen shownLines
	add := func(job *findings.Job, all []*findings.Finding) {
		g := FindingsGroup{Job: job}
		for _, f := range all {
			if severity := p.Given.Get("severity"); severity != "" && f.Severity != severity {
				continue
			}
			c := Card{Finding: f, Above: placed[f.ID]}
			if !c.Above {
				c.Open = len(placed) == 0 &&
					(f.Severity == findings.Error || p.Job() != nil || len(p.Report.Findings) == 1)
				c.Evidence = evidenceTexts(f, &seen)
			}
			placed[f.ID] = true
			g.Cards = append(g.Cards, c)
		}
		if len(g.Cards) > 0 {
			groups = append(groups, g)
		}
	}
	for i := range p.Report.Jobs {
		if i == maxJobsShown {
			break
		}
		job := &p.Report.Jobs[i]
		var ofJob []*findings.Finding
		for _, id := range job.Findings {
			if f := p.Finding(id); f != nil {
				ofJob = append(ofJob, f)
			}
		}
		add(job, ofJob)
	}
	var others []*findings.Finding
	for _, f := range p.Report.Findings {
		if !placed[f.ID] {
			others = append(others, f)
		}
	}
	add(nil, others)
	return groups
}

// evidenceTexts prepares the texts of a finding's evidence for the page. The first one and metrics are open; of the
// others one line is shown until somebody opens them. Texts and lines that seen has are left out, and those that are
// shown are added to it.
func evidenceTexts(f *findings.Finding, seen *shownLines) (all []EvidenceText) {
	for _, e := range f.Evidence {
		e.Text = output.Printable(e.Text)
		s := EvidenceText{Evidence: e, Above: seen.hasText(e.Text), Open: len(all) == 0 || e.Source == "metric"}
		if !s.Above {
			s.Parts = seen.partsOf(e.Text)
		}
		const longest = 200
		s.Folded = output.Clip(foldedLine(strings.TrimSpace(e.Text)), longest)
		all = append(all, s)
	}
	return all
}

// foldedLine is the line that tells most about a text: the last one of a traceback, which has the exception, the first
// one of other texts.
func foldedLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	if strings.Contains(text, "Traceback (most recent call last)") {
		return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	}
	return strings.TrimSpace(first)
}

// Heading is the page's heading.
func (p Findings) Heading() string {
	text := "Findings of " + p.Head.Ref.Cluster
	switch j := p.Job(); {
	case j != nil && j.Outcome == catalog.Failed:
		text = "Why " + j.Name() + " failed"
	case j != nil:
		text = "Findings of job " + j.Name()
	}
	if at := p.Moment(); at != "" {
		text += " at " + at
	}
	return output.Printable(text)
}

// Lead is the paragraph below the heading: the report's summary. If the summary ends with the title of the first
// finding, which stands right below, the title is left out of it, and nothing is left if the rest only says that it
// failed.
func (p Findings) Lead() string {
	if len(p.Report.Findings) == 0 || p.Report.Findings[0].Severity != findings.Error {
		return p.Summary
	}
	title := strings.TrimSuffix(p.Report.Findings[0].Title, ".")
	before, _, hasTitle := strings.Cut(p.Summary, title)
	before = strings.TrimSuffix(before, ": ")
	switch {
	case !hasTitle:
		return p.Summary
	case p.Job() != nil, before == "It failed", before == "":
		return ""
	}
	return before + "."
}

// Address is a link of the report, which is relative to the server's root, relative to the page.
func (p Findings) Address(link string) string { return p.Base + strings.TrimPrefix(link, "/") }

// TextAddress is the address of the link beside a text. For a log it is that of our own viewer at the text's first
// line, and not s.Link, because that is Ray's viewer, which cannot open at a line.
func (p Findings) TextAddress(s EvidenceText) string {
	if s.Source == "log" {
		return lineAddress(s.NodeID, s.File, int64(s.Line))
	}
	return p.Address(s.Link)
}

// AddressWith is the address of the page with other values of some parameters. changes are names and values in turn; ""
// removes the parameter.
func (p Findings) AddressWith(changes ...string) string {
	query := maps.Clone(p.Given)
	for i := 0; i+1 < len(changes); i += 2 {
		if name, value := changes[i], changes[i+1]; value != "" {
			query.Set(name, value)
		} else {
			query.Del(name)
		}
	}
	return strings.TrimSuffix("findings?"+query.Encode(), "?")
}

// OfJob is the address of the findings of one job.
func (p Findings) OfJob(j *findings.Job) string {
	return p.AddressWith("job_id", j.Name(), "submission_id", "", "severity", "")
}

// Dashboard is the address of the job, or the session, in the dashboard.
func (p Findings) Dashboard() string {
	if j := p.Job(); j != nil {
		return "./" + jobPage(j)
	}
	return "./"
}

// jobPage is the address of a job in the dashboard, relative to the session's.
func jobPage(j *findings.Job) string {
	return "#/jobs/" + url.PathEscape(cmp.Or(j.JobID, j.SubmissionID))
}

// About is a thing that a finding is about: its type in words, its name, its address in the dashboard, and the address
// of the page with the logs about it. The addresses are "" if there is no such page.
type About struct{ TypeText, Name, Address, Logs string }

// About returns the things that a finding is about, each with its page in the dashboard, if it has one, and the logs
// about it. The dashboard shows placement groups on the pages of their jobs. A job is named by its submission's ID or,
// if it has none, by that of its driver.
func (p Findings) About(f *findings.Finding) (all []About) {
	for _, e := range f.Entities {
		a := About{TypeText: strings.ReplaceAll(e.Type, "_", " "), Name: e.Name}
		switch {
		case e.Link != "":
			a.Address = p.Address(e.Link)
		case e.Type == "placement_group" && f.JobID != "":
			a.Address = "./" + jobPage(&findings.Job{JobID: f.JobID})
		}
		logsParam := map[string]string{"task": "task_id", "actor": "actor_id", "job": "submission_id"}[e.Type]
		if e.Type == "job" && e.ID == f.JobID {
			logsParam = "job_id"
		}
		if logsParam != "" && e.ID != "" {
			a.Logs = "logs?" + url.Values{logsParam: {e.ID}}.Encode()
		}
		all = append(all, a)
	}
	return all
}

// Moment is the time that the report is about, in words; "" for the session's end.
func (p Findings) Moment() string {
	at, err := time.Parse(time.RFC3339Nano, p.At)
	if err != nil {
		return ""
	}
	return at.Format("2006-01-02 15:04:05.999") + " UTC"
}

// EndAddress is the address of the findings at the session's end.
func (p Findings) EndAddress() string {
	return p.Base + p.Head.Ref.Path() + "findings"
}

// Cause is the title of the finding with an ID, or the ID if there is no such finding. Here says whether the page shows
// the finding: the page may be limited to a severity.
func (p Findings) Cause(id string) (c struct {
	Title string
	Here  bool
}) {
	c.Title = id
	if f := p.Finding(id); f != nil {
		severity := p.Given.Get("severity")
		c.Title, c.Here = f.Title, severity == "" || severity == f.Severity
	}
	return c
}

// Count is how many findings of a severity there are.
func (p Findings) Count(severity string) (n int) {
	for _, f := range p.Report.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// Chosen says whether a job is the one that the page is about.
func (p Findings) Chosen(j findings.Job) bool {
	chosen := p.Job()
	return chosen != nil && chosen.Name() == j.Name() && chosen.JobID == j.JobID
}

// Offered are the jobs that the page's form offers: the first maxJobsOffered, and the one that the page is about.
func (p Findings) Offered() []findings.Job {
	offered := p.Whole.Jobs[:min(len(p.Whole.Jobs), maxJobsOffered)]
	if chosen := p.Job(); chosen != nil && !slices.ContainsFunc(offered, p.Chosen) {
		return append([]findings.Job{*chosen}, offered...)
	}
	return offered
}

// JobsWithoutFindings is how many jobs have no finding; 0 if the page does not show all findings.
func (p Findings) JobsWithoutFindings() (n int) {
	if p.Given.Get("severity") != "" || p.Job() != nil {
		return 0
	}
	for i := range p.Report.Jobs {
		n += boolToInt(len(p.Report.Jobs[i].Findings) == 0)
	}
	return n
}

// UnfinishedText says what had not ended, such as "1 job, 12 tasks"; "" for nothing, and on the page of one job,
// because it is known only of the whole session.
func (p Findings) UnfinishedText() string {
	if p.Job() != nil {
		return ""
	}
	return countsText([]counted{
		{p.Unfinished.Jobs, "job"}, {p.Unfinished.Tasks, "task"}, {p.Unfinished.Actors, "actor"},
		{p.Unfinished.PlacementGroups, "placement group"}})
}

// KindText is a finding's kind in words.
func (c Card) KindText() string { return kindText(c.Kind) }

// kindText returns the kind of a finding in words.
func kindText(kind string) string {
	switch kind {
	case findings.Starved:
		return "waiting for resources"
	case findings.Unended:
		return "not ended"
	case findings.RuntimeEnv:
		return "runtime environment"
	}
	return strings.ReplaceAll(kind, "_", " ")
}

// timeOf reads a time of a report; zero if the text is no time.
func timeOf(text string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, text)
	return t
}

// firstHappened is when a finding happened first; zero if not known.
func firstHappened(f *findings.Finding) time.Time { return timeOf(f.First) }

// Until is when a finding happened last, if that is at least a second after the first time; else zero.
func (c Card) Until() time.Time {
	if last := timeOf(c.Finding.Last); last.Sub(firstHappened(c.Finding)) >= time.Second {
		return last
	}
	return time.Time{}
}

// When says when the finding happened, "2026-11-22 18:31:21 UTC" or "2026-11-22 18:31:21 to 18:40:00 UTC"; "" if it is
// not known.
func (c Card) When() string {
	first, last := firstHappened(c.Finding).UTC(), c.Until().UTC()
	if first.IsZero() {
		return ""
	}
	text := first.Format(time.DateTime)
	if !last.IsZero() {
		form := time.DateTime
		if last.Format(time.DateOnly) == first.Format(time.DateOnly) {
			form = time.TimeOnly
		}
		text += " to " + last.Format(form)
	}
	return text + " UTC"
}

// At is the time of the text; zero if it is not known.
func (s EvidenceText) At() time.Time { return timeOf(s.Time) }

// From says in words where the text is from.
func (s EvidenceText) From() string {
	text := cmp.Or(map[string]string{"log": "Log", "event": "Ray’s event", "snapshot": "What the dashboard said",
		"metric": "Metrics"}[s.Source], s.Source)
	if s.File != "" {
		text = s.File
		if s.Line > 0 {
			text += fmt.Sprintf(", line %d", s.Line)
		}
		if s.NodeID != "" {
			text += fmt.Sprintf(", node %.12s", s.NodeID)
		}
	}
	return text
}

// LinkText is the label of the link beside the text.
func (s EvidenceText) LinkText() string {
	switch {
	case s.File != "":
		return "Open the log"
	case s.Source == "metric":
		return "Open the panel"
	}
	return "Open in the dashboard"
}
