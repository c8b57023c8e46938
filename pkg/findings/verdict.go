package findings

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// atTheEnd is the longest time between a failure and the end of its driver for which the failure can be the reason of
// the end. It is used where nothing else says how the driver ended: Ray does not record how drivers ended that were not
// submitted.
const atTheEnd = 15e9 // ns

// report decides severities, outcome and order, and adds what metrics show. It returns an error only if the request has
// ended.
func (b *builder) report(metrics moment.Metrics) (*Report, error) {
	b.linkTasks()
	b.linkJobs()
	for _, f := range b.all {
		f.because = slices.DeleteFunc(f.because, f.endedBefore) // some times were not known when the links were made
		f.Title = b.withNames(f)
		f.nameActors()
	}
	b.addEarlierFailures()
	for _, f := range b.all {
		b.complete(f)
	}
	b.setSeverities()
	r := &Report{Session: b.s.Ref.Name, Findings: []*Finding{}, Unfinished: b.counts}
	if b.r.At != 0 {
		r.At = time.Unix(0, b.r.At).UTC().Format(time.RFC3339Nano)
	}
	r.Outcome = b.outcome()
	if r.Outcome == catalog.Succeeded || r.Outcome == catalog.Stopped {
		for _, f := range b.all {
			if f.Severity == Error {
				f.Severity = Warning
			}
		}
	}
	ordered := b.ordered()
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
	r.Missing, r.Partial = append(append([]string{}, b.missing...), b.s.Damage()...), b.partial
	if n := len(b.unread); n > 0 {
		r.Missing = append(r.Missing, fmt.Sprintf("%s not looked at: one report reads a bounded number of logs.",
			human.Count(n, "log")))
	}
	if r.Outcome == catalog.Unknown {
		r.Summary = b.unknownSummary()
	} else {
		r.Summary = summaryOf(r, ordered, b.jobs)
	}
	return r, nil
}

// failedWith is between what happened to a node and what failed because of it.
const failedWith = "; with it failed "

// complete sets the fields that every finding has.
func (b *builder) complete(f *finding) {
	switch f.Kind {
	case OutOfMemory:
		f.Title = f.memoryTitle()
		b.nameRun(f)
	case NodeDied, GCSDied:
		if len(f.names) > 0 {
			f.goOn(failedWith + quoted(f.names))
		}
		b.nameRun(f)
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
	f.First, f.Last = stamp(f.first), stamp(f.last)
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

// nameRun names the Train run of a worker that a title is about.
func (b *builder) nameRun(f *finding) {
	if run := b.trainRuns[f.job]; run != "" {
		f.Title = strings.Replace(f.Title, "RayTrainWorker", "RayTrainWorker of Train run "+run, 1)
	}
}

// setSeverities decides how severe each finding is.
func (b *builder) setSeverities() {
	for _, f := range b.all {
		switch {
		case f.intended:
			f.Severity = Info
		case f.Severity != "": // decided where it was found
		case f.jobEnd:
			f.Severity = Error
		case f.unrecovered == 0, f.late: // a retry succeeded after each, or others were started
			f.Severity = Warning
		case b.harmless(f):
			f.Severity = Warning
		default:
			f.Severity = Error
		}
	}
	// What made a job fail is an error, even if it was retried, or wanted.
	for _, f := range b.all {
		if f.Severity == Error {
			b.raiseCauses(f, 0)
		}
	}
	// A node that died is not an error if nothing failed for good because of it.
	for _, f := range b.all {
		madeFail := func(other *finding) bool { return other.Severity == Error && slices.Contains(other.because, f) }
		if f.Kind == NodeDied && !slices.ContainsFunc(b.all, madeFail) {
			f.Severity = Warning
		}
	}
}

// raiseCauses makes the causes of an error errors, too. What somebody intended stays what it was, unless it left others
// without an actor or is the end of a job.
func (b *builder) raiseCauses(f *finding, depth int) {
	for _, c := range f.because {
		if depth < maxFindings && c.Severity != Error && (!c.intended || f.jobEnd || c.Kind == ActorDied) {
			c.Severity = Error
			b.raiseCauses(c, depth+1)
		}
	}
}

// harmless reports whether a failure is harmless to the jobs that it is about: to all if it is about none, as of a
// worker that Ray started once more. It is false if no job is stored.
func (b *builder) harmless(f *finding) bool {
	if len(f.jobs) == 0 {
		return len(b.jobs) > 0 &&
			!slices.ContainsFunc(b.jobs, func(j job) bool { return !b.harmlessTo(&j, f) })
	}
	return !slices.ContainsFunc(f.jobs,
		func(id rayid.Job) bool { return !b.unexamined[id] && !b.harmlessTo(b.jobOfID(id), f) })
}

// harmlessTo reports whether a job continued after a failure, or failed for another reason. It is false if the job is
// not known.
func (b *builder) harmlessTo(j *job, f *finding) bool {
	switch {
	case j == nil:
		return false
	case j.succeededOrStopped():
		return true
	case !jobstatus.Ended(j.Status):
		return b.lastSubmitted(j.id) > f.last // it went on after it
	}
	// The finding about the job's end may say why it failed, and this is not the reason.
	own := b.finished(j)
	return own != nil && len(own.because) > 0 || j.End-f.last > atTheEnd || b.succeededNext(f)
}

// finished returns the finding about a job's own end; nil if there is none.
func (b *builder) finished(j *job) *finding {
	for _, f := range b.all {
		if f.jobEnd && f.SubmissionID == j.SubmissionID && f.job == j.id {
			return f
		}
	}
	return nil
}

// outcome returns the outcome of the session, which is the outcome of its worst job.
func (b *builder) outcome() string {
	failed, stopped, open := false, false, false
	for i := range b.jobs {
		switch b.jobs[i].Status {
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
	errors := slices.ContainsFunc(b.all, func(f *finding) bool {
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

// ordered returns the findings in order: the severe ones first, and each cause before its consequences.
func (b *builder) ordered() []*finding {
	all := slices.Clone(b.all)
	slices.SortStableFunc(all, func(a, c *finding) int {
		return cmp.Or(
			bySeverity(a, c),
			cmp.Compare(b.explains(c), b.explains(a)),
			cmp.Compare(firstTime(a), firstTime(c)),
		)
	})
	return withCauses(all)
}

func bySeverity(a, c *finding) int {
	return cmp.Compare(slices.Index(Severities, a.Severity), slices.Index(Severities, c.Severity))
}

// withCauses returns findings in their order and their causes, each cause before its consequences.
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

// explains returns how many jobs failed because of a finding.
func (b *builder) explains(f *finding) (n int) {
	for _, other := range b.all {
		if other.jobEnd && other.dependsOn(f, 0) {
			n++
		}
	}
	if n == 0 && f.jobEnd && f.Severity == Error {
		n = 1
	}
	return n
}

// firstTime is for sorting, in Unix ns: findings without a time come last.
func firstTime(f *finding) int64 { return cmp.Or(f.first, 1<<62) }

// summaryOf returns one sentence that says how the session ended, or that it runs. unknownSummary is for what is not
// known.
func summaryOf(r *Report, findings []*finding, jobs []job) string {
	failed := 0
	for i := range jobs {
		if jobs[i].Status == jobstatus.Failed {
			failed++
		}
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
	if r.Outcome == catalog.Failed && failed > 0 && len(jobs) > 1 {
		how = fmt.Sprintf("%d of %s failed", failed, human.Count(len(jobs), "job"))
	}
	if len(findings) > 0 && findings[0].Severity == Error {
		return how + ": " + strings.TrimSuffix(findings[0].Title, ".") + "."
	}
	return how + "."
}
