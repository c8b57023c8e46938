package findings

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
)

// atTheEnd is the longest time between a failure and the end of its driver for which the failure can be the reason of
// the end. It is used where nothing else says how the driver ended: Ray does not record how drivers ended that were not
// submitted. Elsewhere, too, it is how long after a cause its consequence may come.
const atTheEnd = 15e9 // ns

// report makes the report of all that was found: it links the last causes, completes titles, decides severities,
// outcome and order, and adds what metrics show. It returns an error if the request has ended, or if a log that is read
// only now cannot be.
func (b *builder) report(metrics moment.Metrics) (*Report, error) {
	b.linkTasks()
	b.linkJobs()
	for _, f := range b.findings {
		f.because = slices.DeleteFunc(f.because, f.endedBefore) // some times were not known when the links were made
		if f.Kind == OutOfMemory {
			f.Title = b.memoryTitle(f)
		}
		f.Title = b.withNames(f)
		f.nameActors()
		b.nameTrials(f)
	}
	b.addEarlierFailures()
	if b.readHiddenFailures(); b.stopOn(b.logs.err) {
		return nil, b.err
	}
	for _, f := range b.findings {
		b.complete(f)
	}
	b.setSeverities()
	r := &Report{Session: b.session.Ref.Name, Findings: []*Finding{}, Unfinished: b.counts}
	if b.moment.At != 0 {
		r.At = time.Unix(0, b.moment.At).UTC().Format(time.RFC3339Nano)
	}
	r.Outcome = b.outcome()
	if r.Outcome == catalog.Succeeded || r.Outcome == catalog.Stopped { // then no failure mattered
		for _, f := range b.findings {
			if f.Severity == Error {
				f.Severity = Warning
			}
		}
	}
	ordered := b.inReportOrder()
	if err := b.showFigures(metrics, ordered); err != nil {
		return nil, err
	}
	for _, f := range ordered {
		for _, c := range f.because {
			f.Because = append(f.Because, c.ID)
		}
		r.Findings = append(r.Findings, &f.Finding)
	}
	r.Jobs = b.jobsOf(ordered)
	b.noteUnknown()
	r.Missing, r.Partial = append([]string{}, b.missing...), b.partial || b.session.Archived()
	// Beside damage these count events of types that this version does not know.
	r.Missing = append(append(r.Missing, b.session.Warnings...), b.session.Snapshots.Refused()...)
	if n := len(b.logs.unread); n > 0 {
		r.Missing = append(r.Missing, fmt.Sprintf("%s not looked at: one report reads a bounded number of logs.",
			human.Count(n, "log")))
	}
	if n := len(b.logs.archived); n > 0 {
		r.Partial = true
		r.Missing = append(r.Missing, fmt.Sprintf("%s not looked at until restored: archived by the store.",
			human.Count(n, "log")))
	}
	if r.Outcome == catalog.Unknown {
		r.Summary = b.unknownSummary()
	} else {
		r.Summary = summaryOf(r, ordered, b.countJobs())
	}
	return r, nil
}

// failedWith is between what happened to a node and what failed because of it.
const failedWith = "; with it failed "

// complete sets what only the whole session shows of a finding: the end of its title, its ID, times, job and advice,
// and lists that are not nil.
func (b *builder) complete(f *finding) {
	switch f.Kind {
	case OutOfMemory:
		b.addRunName(f)
	case NodeDied, GCSDied:
		if len(f.names) > 0 {
			f.appendTitle(failedWith + listNames(f.names))
		}
		b.addRunName(f)
	default:
		if f.Count > 1 {
			f.Title = strings.Replace(f.Title, "died and was restarted:",
				fmt.Sprintf("died and was restarted %d times:", f.Count), 1)
		}
		if f.unrecovered == 0 && f.recovered > 0 && !strings.Contains(f.Title, "restarted") {
			f.Title += ", and succeeded when it was retried"
		}
	}
	f.Count = max(f.Count, 1)
	f.Title = output.Clip(strings.Join(strings.Fields(output.Printable(b.plainTitle(f))), " "), 2*output.MaxTitle)
	sum := sha256.Sum256([]byte(f.key))
	f.ID = hex.EncodeToString(sum[:6])
	f.First, f.Last = timestamp(f.first), timestamp(f.last)
	if !f.job.Nil() {
		f.JobID = f.job.String()
		if j := b.jobOfID(f.job); j != nil {
			f.SubmissionID = j.SubmissionID
		}
	}
	help := f.help()
	f.Advice, f.Docs = help.Advice, docsRoot+help.Docs
	// none is null in JSON
	f.Because, f.Entities, f.Evidence = []string{}, append([]Entity{}, f.Entities...),
		append([]Evidence{}, f.Evidence...)
}

// addRunName adds the name of the Train run to a title about one of the run's workers.
func (b *builder) addRunName(f *finding) {
	if run := b.trainRuns[f.job]; run != "" {
		f.Title = strings.Replace(f.Title, "RayTrainWorker", "RayTrainWorker of Train run "+run, 1)
	}
}

// setSeverities decides how severe each finding is: first by itself, then by what it caused. What made a job fail is an
// error even if somebody wanted it or a retry succeeded. The loss of a node is only a warning if nothing failed for
// good because of it.
func (b *builder) setSeverities() {
	for _, f := range b.findings {
		switch {
		case f.intended:
			f.Severity = Info
		case f.Severity != "": // decided where it was found
		case f.ended != nil:
			f.Severity = Error
		case f.unrecovered == 0, f.late: // a retry succeeded after each, or others were started
			f.Severity = Warning
		case b.isHarmless(f):
			f.Severity = Warning
		default:
			f.Severity = Error
		}
	}
	// What made a job fail is an error, even if it was retried, or wanted.
	for _, f := range b.findings {
		if f.Severity == Error {
			b.raiseCauses(f)
		}
	}
	// A node that died is not an error if nothing failed for good because of it.
	for _, f := range b.findings {
		madeFail := func(other *finding) bool { return other.Severity == Error && slices.Contains(other.because, f) }
		if f.Kind == NodeDied && !slices.ContainsFunc(b.findings, madeFail) {
			f.Severity = Warning
		}
	}
}

// raiseCauses makes the causes of an error errors, too. A cause that somebody intended stays what it was, unless the
// error is a job's end, or the cause is the death of an actor that others lacked.
func (b *builder) raiseCauses(f *finding) {
	for _, c := range f.because {
		if c.Severity != Error && (!c.intended || f.ended != nil || c.Kind == ActorDied) {
			c.Severity = Error
			b.raiseCauses(c)
		}
	}
}

// isHarmless reports whether a failure is harmless to all jobs that it is about. If it is about none, such as one of a
// worker that Ray started once more, it must be harmless to all jobs; then it is false if no job is stored.
func (b *builder) isHarmless(f *finding) bool {
	if len(f.jobs) == 0 {
		return len(b.jobs) > 0 &&
			!slices.ContainsFunc(b.jobs, func(j job) bool { return !b.isHarmlessTo(&j, f) })
	}
	for id := range f.jobs {
		if !b.unexamined[id] && !b.isHarmlessTo(b.jobOfID(id), f) {
			return false
		}
	}
	return true
}

// isHarmlessTo reports whether a job went on after a failure, or failed for another reason. j is nil for a job that is
// not known: then nothing shows that the failure was harmless, unless it is of the dashboard's own driver.
func (b *builder) isHarmlessTo(j *job, f *finding) bool {
	switch {
	case j == nil:
		return slices.Contains(raysOwn, f.actorClass())
	case j.succeededOrStopped():
		return true
	case !jobstatus.Ended(j.Status):
		return b.lastSubmitted(j.id) > f.last // it went on after it
	}
	// The finding about the job's end may say why it failed, and this is not the reason.
	own := b.endFinding(j)
	return own != nil && len(own.because) > 0 || j.End-f.last > atTheEnd || b.succeededNext(f)
}

// endFinding returns the finding about a job's own end; nil if there is none.
func (b *builder) endFinding(j *job) *finding {
	for _, f := range b.findings {
		if f.ended != nil && f.SubmissionID == j.SubmissionID && f.job == j.id {
			return f
		}
	}
	return nil
}

// countJobs returns how many jobs the session had, by status, those beyond maxJobs included.
func (b *builder) countJobs() map[string]int {
	count := map[string]int{}
	maps.Copy(count, b.otherJobs)
	for i := range b.jobs {
		count[b.jobs[i].Status]++
	}
	return count
}

// outcome returns the outcome of the session, one of catalog.Outcomes or catalog.Running. It is that of its worst job,
// and while the session goes on only a failed job counts. An error that is about no submission makes the session fail
// only if no job was still open. If no job is known, tasks or actors that had not ended make it unfinished.
func (b *builder) outcome() string {
	failed, stopped, open := false, false, false
	for status := range b.countJobs() {
		switch status {
		case jobstatus.Failed:
			failed = true
		case jobstatus.Stopped:
			stopped = true
		case jobstatus.Succeeded:
		default:
			open = true
		}
	}
	// of no job, or of a driver without a submission: Ray records no outcome of that
	errors := slices.ContainsFunc(b.findings, func(f *finding) bool {
		j := b.jobOfID(f.job)
		return f.Severity == Error && (j == nil || j.SubmissionID == "" && j.End != 0)
	})
	switch {
	case failed:
		return catalog.Failed
	case b.running, b.goesOn:
		return catalog.Running
	case errors && !open:
		return catalog.Failed
	case open:
		return catalog.Unfinished
	case stopped:
		return catalog.Stopped
	case len(b.jobs) == 0 && b.counts.Tasks+b.counts.Actors > 0:
		return catalog.Unfinished
	case len(b.jobs) == 0:
		return catalog.Unknown
	}
	return catalog.Succeeded
}

// inReportOrder returns the findings in the report's order: the most severe first, then those that explain the ends of
// most jobs, then the earliest; but each cause before its consequences.
func (b *builder) inReportOrder() []*finding {
	all, explained := slices.Clone(b.findings), b.jobsExplained()
	slices.SortStableFunc(all, func(a, c *finding) int {
		return cmp.Or(
			bySeverity(a, c),
			cmp.Compare(explained[c], explained[a]),
			cmp.Compare(firstTime(a), firstTime(c)),
		)
	})
	return withCauses(all)
}

// bySeverity compares two findings for sorting: the more severe one comes first.
func bySeverity(a, c *finding) int {
	return cmp.Compare(slices.Index(Severities, a.Severity), slices.Index(Severities, c.Severity))
}

// withCauses returns findings in their order, with their causes added: each cause comes before its consequences.
func withCauses(findings []*finding) (all []*finding) {
	placed := map[*finding]bool{}
	var place func(f *finding)
	place = func(f *finding) {
		if placed[f] {
			return
		}
		placed[f] = true
		for _, c := range f.because {
			place(c)
		}
		all = append(all, f)
	}
	for _, f := range findings {
		place(f)
	}
	return all
}

// jobsExplained returns how many jobs ended because of each finding. The failed end of a job that has no other finding
// behind it counts as 1.
func (b *builder) jobsExplained() map[*finding]int {
	explained := map[*finding]int{}
	for _, end := range b.findings {
		if end.ended == nil {
			continue
		}
		for _, cause := range withCauses(end.because) {
			explained[cause]++
		}
	}
	for _, end := range b.findings {
		if explained[end] == 0 && end.ended != nil && end.Severity == Error {
			explained[end] = 1
		}
	}
	return explained
}

// firstTime returns when a finding began, Unix ns. Without a time it is greater than all times, so that such findings
// are sorted last.
func firstTime(f *finding) int64 { return cmp.Or(f.first, 1<<62) }

// summaryOf returns one sentence that says how the session ended, or that it runs. findings are in the report's order.
// jobs counts the session's jobs by status. Of a session with an unknown outcome unknownSummary says it.
func summaryOf(r *Report, findings []*finding, jobs map[string]int) string {
	failed, all := jobs[jobstatus.Failed], 0
	for _, n := range jobs {
		all += n
	}
	if r.Outcome == catalog.Succeeded && r.count(Warning) == 0 {
		return "Nothing failed."
	}
	if r.Outcome == catalog.Succeeded {
		return fmt.Sprintf("The jobs succeeded, with %s.", human.Count(r.count(Warning), "warning"))
	}
	runs := "It is running"
	if r.At != "" {
		runs = "It was running"
	}
	how := map[string]string{
		catalog.Failed: "It failed", catalog.Stopped: "Its jobs were stopped", catalog.Running: runs,
		catalog.Unfinished: "The cluster ended before its jobs did",
	}[r.Outcome]
	if r.Outcome == catalog.Failed && failed > 0 && all > 1 {
		how = fmt.Sprintf("%d of %s failed", failed, human.Count(all, "job"))
	}
	if len(findings) > 0 && findings[0].Severity == Error {
		return how + ": " + strings.TrimSuffix(findings[0].Title, ".") + "."
	}
	return how + "."
}
