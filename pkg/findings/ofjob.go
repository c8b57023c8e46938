package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Job says how one job of a session ended, and which findings say why.
type Job struct {
	JobID        string   `json:"job_id,omitempty"`          // of its driver; "" if none was started
	Earlier      []string `json:"earlier_job_ids,omitempty"` // of the drivers that the submission had before it
	SubmissionID string   `json:"submission_id,omitempty"`   // "" if the driver was not submitted
	Entrypoint   string   `json:"entrypoint,omitempty"`      // in one short line
	// as Ray has it: PENDING, RUNNING, SUCCEEDED, STOPPED or FAILED
	Status   string   `json:"status"`
	Start    string   `json:"start,omitempty"` // RFC 3339; "" if it is not known
	End      string   `json:"end,omitempty"`   // RFC 3339; "" if it has not ended
	Outcome  string   `json:"outcome"`
	Summary  string   `json:"summary"`  // one sentence
	Findings []string `json:"findings"` // IDs, its cause first
}

// Name returns the name under which people know the job.
func (j *Job) Name() string { return cmp.Or(j.SubmissionID, j.JobID) }

// hasID reports whether an ID is that of the job's submission or of one of its drivers (hex, in any case).
func (j *Job) hasID(id string) bool {
	isID := func(driver string) bool { return strings.EqualFold(id, driver) }
	return id != "" && (id == j.SubmissionID || isID(j.JobID) || slices.ContainsFunc(j.Earlier, isID))
}

// maxOfJob limits the findings that are listed for one job.
const maxOfJob = 20

// NoJobError means that a session has no job with an ID.
type NoJobError struct{ Detail, Advice string }

func (e *NoJobError) Error() string { return e.Detail + " " + e.Advice }

// noJob returns the error that the session has no job with all of these IDs. It names some of the jobs that it has.
func (r *Report) noJob(ids []string) *NoJobError {
	when := "The session has no job"
	if r.At != "" {
		when = "The session had no job at this moment"
	}
	e := &NoJobError{Detail: fmt.Sprintf("%s with the ID %.80s.", when, strings.Join(ids, " and the ID ")),
		Advice: "Nothing of any job is stored."}
	var names []string
	for i := range r.Jobs {
		names = append(names, r.Jobs[i].Name())
	}
	switch {
	case len(names) >= maxJobs:
		e.Detail = fmt.Sprintf("None of the %d jobs that were looked at has the ID %.80s.", len(names),
			strings.Join(ids, " and the ID "))
		e.Advice = "The session may have more jobs: those that failed were looked at first."
	case len(names) > 0:
		e.Advice = fmt.Sprintf("It has %s: %s.", human.Count(len(names), "job"), listNames(names))
	}
	e.Advice += " The address without job_id and submission_id lists all findings."
	return e
}

// OfJob returns the report about one job: its outcome, and the findings about it and their causes. Each ID may be that
// of the submission or of a driver; empty ones do not count, and all others must be of the same job. Without IDs the
// whole report is returned. The error is a *NoJobError.
func (r *Report) OfJob(ids ...string) (*Report, error) {
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return r, nil
	}
	hasAll := func(j Job) bool { return !slices.ContainsFunc(ids, func(id string) bool { return !j.hasID(id) }) }
	at := slices.IndexFunc(r.Jobs, hasAll)
	if at < 0 {
		return nil, r.noJob(ids)
	}
	jobReport := *r
	jobReport.Jobs = r.Jobs[at : at+1]
	jobReport.Outcome, jobReport.Summary = jobReport.Jobs[0].Outcome, jobReport.Jobs[0].Summary
	jobReport.Findings = []*Finding{}
	for _, id := range jobReport.Jobs[0].Findings {
		if f := r.Finding(id); f != nil {
			jobReport.Findings = append(jobReport.Findings, f)
		}
	}
	return &jobReport, nil
}

// Finding returns the finding with an ID; nil if there is none.
func (r *Report) Finding(id string) *Finding {
	for _, f := range r.Findings {
		if f.ID == id {
			return f
		}
	}
	return nil
}

// worstFirst are the outcomes of jobs in the order in which jobs are listed.
var worstFirst = []string{catalog.Failed, catalog.Unfinished, catalog.Running, catalog.Stopped, catalog.Succeeded}

// jobsOf returns the jobs with their findings, the worst outcome first, and of one outcome the job first whose first
// finding comes first in the report. ordered are all findings in the report's order.
func (b *builder) jobsOf(ordered []*finding) []Job {
	ofJob, ofSubmission, ofNone := map[rayid.Job][]*finding{}, map[string][]*finding{}, []*finding{}
	for _, f := range ordered {
		for id := range f.jobs {
			ofJob[id] = append(ofJob[id], f)
		}
		switch {
		case f.SubmissionID != "" && len(f.jobs) == 0:
			ofSubmission[f.SubmissionID] = append(ofSubmission[f.SubmissionID], f)
		case f.SubmissionID == "" && len(f.jobs) == 0 && f.Severity == Error:
			ofNone = append(ofNone, f)
		}
	}
	all := make([]Job, 0, len(b.jobs))
	for i := range b.jobs {
		j := &b.jobs[i]
		mine := slices.Clone(ofJob[j.id])
		for _, d := range j.Earlier {
			mine = append(mine, ofJob[d.ID]...)
		}
		if j.SubmissionID != "" {
			mine = append(mine, ofSubmission[j.SubmissionID]...)
		}
		all = append(all, b.jobOf(j, mine, ofNone))
	}
	place := map[string]int{} // of a finding in the report
	for i, f := range ordered {
		place[f.ID] = i
	}
	first := func(j Job) int {
		if len(j.Findings) == 0 {
			return len(ordered)
		}
		return place[j.Findings[0]]
	}
	slices.SortStableFunc(all, func(a, c Job) int {
		return cmp.Or(cmp.Compare(slices.Index(worstFirst, a.Outcome), slices.Index(worstFirst, c.Outcome)),
			cmp.Compare(first(a), first(c)))
	})
	return all
}

// jobOf returns one job with its findings: mine are about the job, and ofNone are errors that are about no job. Of the
// latter those that began while the job ran count if nothing else explains why the job failed.
func (b *builder) jobOf(j *job, mine, ofNone []*finding) Job {
	entry := Job{
		JobID: rayid.Hex(j.id), SubmissionID: j.SubmissionID, Entrypoint: shortLine(j.Entrypoint),
		Status: shortLine(j.Status), Start: timestamp(j.Start), End: timestamp(j.End), Outcome: b.outcomeOf(j, mine),
	}
	for _, d := range j.Earlier {
		entry.Earlier = append(entry.Earlier, d.ID.String())
	}
	if entry.Outcome == catalog.Succeeded { // what happened later to its detached actors was no failure of the job
		mine = slices.DeleteFunc(mine, func(f *finding) bool { return j.End != 0 && f.first > j.End })
	}
	mine = causesFirst(mine)
	explained := slices.ContainsFunc(mine, func(f *finding) bool { return f.Severity == Error && f.ended == nil })
	if (entry.Outcome == catalog.Failed || entry.Outcome == catalog.Unfinished) && !explained {
		// What is about no job may have been the reason, if it was while the job ran.
		for _, f := range ofNone {
			if !slices.Contains(mine, f) && !j.beganAfter(f) && (j.End == 0 || f.first <= j.End) {
				mine = append(mine, f)
			}
		}
	}
	entry.Findings = make([]string, 0, min(len(mine), maxOfJob))
	for _, f := range mine[:min(len(mine), maxOfJob)] {
		entry.Findings = append(entry.Findings, f.ID)
	}
	entry.Summary = entry.summary(mine, j.Message, b.now(j))
	return entry
}

// causesFirst returns a job's findings and their causes, the most severe first. Of one severity, what explains the
// job's own end comes before the others, and each cause before its consequences.
func causesFirst(mine []*finding) []*finding {
	mine = slices.Clone(mine)
	isEnd := func(f *finding) bool { return f.ended != nil }
	isNot := func(f *finding) bool { return f.ended == nil }
	all := withCauses(slices.Concat(slices.DeleteFunc(slices.Clone(mine), isNot), slices.DeleteFunc(mine, isEnd)))
	slices.SortStableFunc(all, bySeverity)
	return all
}

// outcomeOf returns the outcome of one job, of which mine are the findings. Ray records no outcome of drivers without a
// submission: such a driver failed if it ended and has an error.
func (b *builder) outcomeOf(j *job, mine []*finding) string {
	failed := slices.ContainsFunc(mine, func(f *finding) bool { return f.Severity == Error })
	switch {
	case j.Status == jobstatus.Failed, j.SubmissionID == "" && j.End != 0 && failed:
		return catalog.Failed
	case j.Status == jobstatus.Stopped:
		return catalog.Stopped
	case j.Status == jobstatus.Succeeded:
		return catalog.Succeeded
	case b.running, b.goesOn:
		return catalog.Running
	}
	return catalog.Unfinished
}

// summary returns one sentence that says how the job ended. mine are its findings, its cause first. If there are none,
// it quotes Ray's message. now is what a job waits for that runs; "" if that is not known.
func (j *Job) summary(mine []*finding, message, now string) string {
	how := map[string]string{
		catalog.Failed: "failed", catalog.Stopped: "was stopped", catalog.Running: "is running",
		catalog.Unfinished: "had not ended when the cluster did", catalog.Succeeded: "succeeded",
	}[j.Outcome]
	text := fmt.Sprintf("Job %s %s", j.Name(), how)
	if len(mine) == 0 && j.Outcome == catalog.Failed && message != "" {
		return text + ": " + shortLine(message)
	}
	if len(mine) == 0 || mine[0].Severity != Error || j.Outcome == catalog.Succeeded || j.Outcome == catalog.Stopped {
		// an error of a job that did well is another job's, too
		return text + encloseIfAny(": ", strings.TrimSuffix(now, "."), "") + "."
	}
	title := strings.TrimSuffix(mine[0].Title, ".") + "."
	if mine[0].ended != nil {
		return title // it names the job
	}
	return text + ": " + title
}
