package webhooks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
)

const (
	// maxEvents is how many events of one type are sent for a session; the last one says how many more there are.
	maxEvents = 20
	maxLine   = 300 // characters of a text
)

// Event is the JSON that receivers get. Texts come from the clusters' own programs: each is one line of at most 300
// characters.
type Event struct {
	// ID is the same when the event is sent again.
	ID   string    `json:"id"`
	Type string    `json:"type"`
	Time time.Time `json:"time"` // when it happened; if that is not known, when the session ended

	Namespace  string    `json:"namespace"`
	Cluster    string    `json:"cluster"`
	Session    string    `json:"session"`
	OwnerKind  string    `json:"owner_kind,omitempty"`
	OwnerName  string    `json:"owner_name,omitempty"`
	RayVersion string    `json:"ray_version,omitempty"`
	Start      time.Time `json:"start,omitzero"`
	End        time.Time `json:"end,omitzero"`

	// Outcome is the session's: one of catalog.Outcomes, or catalog.Running.
	Outcome string `json:"outcome"`
	Summary string `json:"summary,omitempty"`
	// Cause is the first error: of the job, or of the session.
	Cause   string     `json:"cause,omitempty"`
	Job     *JobOf     `json:"job,omitempty"`     // of JobFailed, and of a Finding that is about one job
	Finding *FindingOf `json:"finding,omitempty"` // of Finding
	// Regression is how the run differs from those before, of RunSlower and FailsMore.
	Regression *Regression `json:"regression,omitempty"`
	// More is how many events of this type follow that are not sent, because there are too many.
	More int    `json:"more,omitempty"`
	URL  string `json:"url,omitempty"` // of the session's findings
}

// JobOf names a job.
type JobOf struct {
	JobID        string `json:"job_id,omitempty"`
	SubmissionID string `json:"submission_id,omitempty"`
	Entrypoint   string `json:"entrypoint,omitempty"`
}

// FindingOf is one finding.
type FindingOf struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	Count    int    `json:"count"`
}

// events returns all events that may be sent about a session: one for each failed job, one for each finding of the
// report and, as the last one, the session's end. report is nil if the session could not be read. continued says that
// events about an earlier end of the session were sent: then the ID of the event about its end contains the time of the
// end. Links begin with publicURL; "": there are none.
func events(e catalog.Entry, report *findings.Report, failed []moment.Job, continued bool, publicURL string) []*Event {
	base := Event{
		Namespace: e.Ref.Namespace, Cluster: e.Ref.Cluster, Session: e.Ref.Name,
		OwnerKind: e.OwnerKind, OwnerName: oneLine(e.OwnerName), RayVersion: oneLine(e.RayVersion),
		Start: e.Start.UTC(),
		End:   e.End.UTC(), Time: e.End.UTC(), Outcome: catalog.Unknown,
	}
	if e.Running {
		base.Outcome, base.Time = catalog.Running, e.LastWrite.UTC()
	}
	if publicURL != "" {
		base.URL = strings.TrimSuffix(publicURL, "/") + "/" + e.Ref.Path() + "findings"
	}
	if report != nil {
		base.Outcome, base.Summary, base.Cause = report.Outcome, oneLine(report.Summary), oneLine(report.Cause())
	}
	var all []*Event
	add := func(event Event, subject string) {
		event.ID = eventID(e, event.Type, subject)
		all = append(all, &event)
	}
	for i, j := range failed[:min(maxEvents, len(failed))] {
		event := base
		event.Type, event.Job = JobFailed, &JobOf{JobID: oneLine(j.ID), SubmissionID: oneLine(j.SubmissionID),
			Entrypoint: oneLine(j.Entrypoint)}
		event.Cause = causeOf(report, j)
		if j.End > 0 {
			event.Time = time.Unix(0, j.End).UTC()
		}
		if i == maxEvents-1 {
			event.More = len(failed) - maxEvents
		}
		add(event, nameOf(j))
	}
	if report != nil {
		for _, f := range report.Findings {
			event := base
			event.Type, event.Finding = Finding, &FindingOf{ID: oneLine(f.ID), Kind: f.Kind, Severity: f.Severity,
				Title: oneLine(f.Title), Count: f.Count}
			if f.JobID != "" || f.SubmissionID != "" {
				event.Job = &JobOf{JobID: oneLine(f.JobID), SubmissionID: oneLine(f.SubmissionID)}
			}
			if at, err := time.Parse(time.RFC3339, f.First); err == nil {
				event.Time = at.UTC()
			}
			add(event, f.ID)
		}
	}
	base.Type = SessionEnded
	end := ""
	if continued {
		end = e.End.UTC().Format(time.RFC3339)
	}
	add(base, end)
	return all
}

// failedJobs returns the jobs of a report that failed, in the order in which they ended; first those whose end is not
// known. Their messages are the report's summaries.
func failedJobs(r *findings.Report) (failed []moment.Job) {
	for _, j := range r.Jobs {
		if j.Status != jobstatus.Failed {
			continue
		}
		job := moment.Job{
			ID: j.JobID, SubmissionID: j.SubmissionID, Entrypoint: j.Entrypoint, Status: j.Status, Message: j.Summary,
		}
		if at, err := time.Parse(time.RFC3339, j.End); err == nil {
			job.End = at.UnixNano()
		}
		failed = append(failed, job)
	}
	byTime(failed)
	return failed
}

// forReceiver returns the events that a receiver gets. Of the findings it returns the first maxEvents; More of the last
// one says how many others there are.
func forReceiver(r *Receiver, all []*Event) (chosen []*Event) {
	var last *Event // the last finding
	n := 0          // findings
	for _, e := range all {
		switch {
		case !r.wantsEvent(e):
			continue
		case e.Type != Finding:
		case n < maxEvents:
			copied := *e // other receivers get another More
			e, last, n = &copied, &copied, n+1
		default:
			last.More++
			continue
		}
		chosen = append(chosen, e)
	}
	return chosen
}

// causeOf returns the title of the finding that is the root cause of a job's failure, in one line; Ray's message if
// there is no such finding or no report. Findings and their causes are sorted by importance, so the first of each is
// followed.
func causeOf(r *findings.Report, j moment.Job) string {
	if r == nil {
		return oneLine(j.Message)
	}
	byID := make(map[string]*findings.Finding, len(r.Findings))
	var cause *findings.Finding
	for _, f := range r.Findings {
		byID[f.ID] = f
		ofJob := (j.SubmissionID != "" && f.SubmissionID == j.SubmissionID) || (j.ID != "" && f.JobID == j.ID)
		if cause == nil && ofJob && f.Severity == findings.Error {
			cause = f
		}
	}
	if cause == nil {
		return oneLine(j.Message)
	}
	for range len(r.Findings) { // the loop is bounded because a damaged report may link findings in a circle
		if len(cause.Because) == 0 || byID[cause.Because[0]] == nil {
			break
		}
		cause = byID[cause.Because[0]]
	}
	return oneLine(cause.Title)
}

// eventID identifies an event of a session by its type and its subject: a job, a finding, or a session's end.
func eventID(e catalog.Entry, kind, subject string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", e.Ref.String(), kind, subject))
	return hex.EncodeToString(sum[:12])
}

// oneLine makes an untrusted text one line of at most maxLine characters.
func oneLine(text string) string {
	if len(text) > 8*maxLine { // bounds the work below; a character has up to 4 bytes, and some are left out
		text = text[:8*maxLine]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxLine {
		runes = append(runes[:maxLine-1], '…')
	}
	return string(runes)
}
