package web

import (
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

// Limits of the page. A job that is not shown can be chosen by its address.
const maxJobsShown, maxJobsOffered = 100, 300

// FindingsGroup is the findings of one job, or those of no job.
type FindingsGroup struct {
	*findings.Job // nil: of no job
	Cards         []Card
}

// Card is one finding on the page.
type Card struct {
	*findings.Finding
	Open     bool
	Above    bool // its card is in a group above
	Evidence []Shown
}

// Shown is one text of the evidence on the page.
type Shown struct {
	findings.Evidence
	Parts  []Part
	Folded string // what is shown of it while it is folded
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

// Groups are the findings by job. Each has one card, in the first group that it belongs to.
func (p Findings) Groups() (groups []FindingsGroup) {
	placed := map[string]bool{}
	var seen shown
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
				c.Evidence = shownOf(f, &seen)
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
		var mine []*findings.Finding
		for _, id := range job.Findings {
			if f := p.Finding(id); f != nil {
				mine = append(mine, f)
			}
		}
		add(job, mine)
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

// shownOf prepares the evidence of a finding. The first text is open.
func shownOf(f *findings.Finding, seen *shown) (all []Shown) {
	for _, e := range f.Evidence {
		e.Text = output.Printable(e.Text)
		s := Shown{Evidence: e, Above: seen.before(e.Text), Open: len(all) == 0 || e.Source == "metric"}
		if !s.Above {
			s.Parts = seen.partsOf(e.Text)
		}
		s.Folded = output.Clip(foldedLine(strings.TrimSpace(e.Text)), 200)
		all = append(all, s)
	}
	return all
}

// foldedLine is what a text says in one line: of a traceback the last, which has the exception, of others the first.
func foldedLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	if strings.Contains(text, "Traceback (most recent call last)") {
		return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	}
	return strings.TrimSpace(first)
}

// Heading says what the page is about.
func (p Findings) Heading() string {
	text := "Findings of " + p.Head.Ref.Cluster
	if j := p.Job(); j != nil {
		if text = "Findings of job " + j.Name(); j.Outcome == catalog.Failed {
			text = "Why " + j.Name() + " failed"
		}
	}
	if at := p.Moment(); at != "" {
		text += " at " + at
	}
	return output.Printable(text)
}

// Lead says what the list below does not say of the outcome.
func (p Findings) Lead() string {
	if len(p.Report.Findings) == 0 || p.Report.Findings[0].Severity != findings.Error {
		return p.Summary
	}
	title := strings.TrimSuffix(p.Report.Findings[0].Title, ".")
	before, _, ok := strings.Cut(p.Summary, title)
	switch before = strings.TrimSuffix(before, ": "); {
	case !ok:
		return p.Summary
	case p.Job() != nil, before == "It failed", before == "":
		return ""
	}
	return before + "."
}

// Address is a link of the report as seen from the page.
func (p Findings) Address(link string) string { return p.Base + strings.TrimPrefix(link, "/") }

// TextAddress is where the page's link beside a text leads. For a log that is our own viewer at the text's first line,
// and not s.Link: that is Ray's viewer, which opens at no line.
func (p Findings) TextAddress(s Shown) string {
	if s.Source == "log" {
		return lineAddress(s.NodeID, s.File, int64(s.Line))
	}
	return p.Address(s.Link)
}

// Self is the address of the page with another value of some parameters: names and values in turn.
func (p Findings) Self(changes ...string) string {
	query := maps.Clone(p.Given)
	for i := 0; i+1 < len(changes); i += 2 {
		if query.Set(changes[i], changes[i+1]); changes[i+1] == "" {
			query.Del(changes[i])
		}
	}
	return strings.TrimSuffix("findings?"+query.Encode(), "?")
}

// OfJob is the address of the findings of one job.
func (p Findings) OfJob(j *findings.Job) string {
	return p.Self("job_id", j.Name(), "submission_id", "", "severity", "")
}

// Dashboard is the address of the job, or the session, in the dashboard.
func (p Findings) Dashboard() string {
	if j := p.Job(); j != nil {
		return "./" + jobPage(j)
	}
	return "./"
}

func jobPage(j *findings.Job) string {
	if j.JobID != "" {
		return "#/jobs/" + url.PathEscape(j.JobID)
	}
	return "#/jobs/" + url.PathEscape(j.SubmissionID)
}

// About is what a finding is about. Logs is the address of the logs that tell of it, side by side; "" if it has none.
type About struct{ TypeText, Name, Address, Logs string }

// About returns what a finding is about, with links. The dashboard shows placement groups on the pages of their jobs.
func (p Findings) About(f *findings.Finding) (all []About) {
	for _, e := range f.Entities {
		a := About{TypeText: strings.ReplaceAll(e.Type, "_", " "), Name: e.Name}
		switch {
		case e.Link != "":
			a.Address = p.Address(e.Link)
		case e.Type == "placement_group" && f.JobID != "":
			a.Address = "./" + jobPage(&findings.Job{JobID: f.JobID})
		}
		name := map[string]string{"task": "task_id", "actor": "actor_id", "job": "submission_id"}[e.Type]
		if e.Type == "job" && e.ID == f.JobID {
			name = "job_id"
		}
		if name != "" && e.ID != "" {
			a.Logs = "logs?" + url.Values{name: {e.ID}}.Encode()
		}
		all = append(all, a)
	}
	return all
}

// Moment is the time that the report is about, "" for the session's end.
func (p Findings) Moment() string {
	at, err := time.Parse(time.RFC3339Nano, p.At)
	if err != nil {
		return ""
	}
	return at.Format("2006-01-02 15:04:05.999") + " UTC"
}

// End is the address of the findings at the session's end.
func (p Findings) End() string {
	return p.Base + p.Head.Ref.Path() + "findings"
}

// Cause is the title of the finding with an ID. here says whether the page shows it.
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

// Offered are the jobs that can be chosen: some of all, and in any case the one that the page is about.
func (p Findings) Offered() []findings.Job {
	offered := p.Whole.Jobs[:min(len(p.Whole.Jobs), maxJobsOffered)]
	if chosen := p.Job(); chosen != nil && !slices.ContainsFunc(offered, p.Chosen) {
		return append([]findings.Job{*chosen}, offered...)
	}
	return offered
}

// Quiet says how many jobs have no finding.
func (p Findings) Quiet() (n int) {
	if p.Given.Get("severity") != "" || p.Job() != nil {
		return 0
	}
	for i := range p.Report.Jobs {
		n += boolToInt(len(p.Report.Jobs[i].Findings) == 0)
	}
	return n
}

// Left says what had not ended, such as "1 job, 12 tasks"; "" for nothing. It is known of the whole session.
func (p Findings) Left() string {
	if p.Job() != nil {
		return ""
	}
	return counts([]counted{{p.Unfinished.Jobs, "job"}, {p.Unfinished.Tasks, "task"}, {p.Unfinished.Actors, "actor"},
		{p.Unfinished.PlacementGroups, "placement group"}})
}

// KindText is a finding's kind in words.
func (c Card) KindText() string { return kindText(c.Kind) }

// kindText returns a kind in people's words.
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

// timeOf reads a time of a report; zero if it has none.
func timeOf(text string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, text)
	return t
}

// began is when a finding happened first; zero if not known.
func began(f *findings.Finding) time.Time { return timeOf(f.First) }

// Until is when a finding happened last, if that was later than at first; else zero.
func (c Card) Until() time.Time {
	if last := timeOf(c.Finding.Last); last.Sub(began(c.Finding)) >= time.Second {
		return last
	}
	return time.Time{}
}

// When says when it happened, for a text: "2026-11-22 18:31:21 UTC", or from when to when.
func (c Card) When() string {
	first, last := began(c.Finding).UTC(), c.Until().UTC()
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

// At is the time that a text is of; zero if it has none.
func (s Shown) At() time.Time { return timeOf(s.Time) }

// From says in words where a text is from.
func (s Shown) From() string {
	text := map[string]string{"log": "Log", "event": "Ray’s event", "snapshot": "What the dashboard said",
		"metric": "Metrics"}[s.Source]
	if text == "" {
		text = s.Source
	}
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

// Opens says what the text's link opens.
func (s Shown) Opens() string {
	switch {
	case s.File != "":
		return "Open the log"
	case s.Source == "metric":
		return "Open the panel"
	}
	return "Open in the dashboard"
}
