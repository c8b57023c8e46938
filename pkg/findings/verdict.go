package findings

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// atTheEnd is the longest time between a failure and the end of its driver for which the failure can be the reason of the end. It is used where
// nothing else says how the driver ended: Ray does not record how drivers ended that were not submitted.
const atTheEnd = 15e9 // ns

// report decides severities, outcome and order, and adds what metrics show. It returns an error only if the request has ended.
func (b *builder) report(metrics moment.Metrics) (*Report, error) {
	for _, child := range b.failures { // of tasks that others had started and that raised the same exception
		parent := b.failures[child.parent].finding
		if parent != nil && parent != child.finding && parent.Kind == child.finding.Kind && parent.what.Same(child.finding.what) {
			parent.causedBy(child.finding)
		}
	}
	for _, f := range b.all {
		f.because = slices.DeleteFunc(f.because, f.endedBefore) // some times were not known when the links were made
		f.Title = b.withNames(f)
		b.complete(f)
	}
	b.setSeverities()
	r := &Report{Session: b.s.Ref.Name, Findings: []*Finding{}, Unfinished: b.counts}
	if b.r.At != 0 {
		r.At = time.Unix(0, b.r.At).UTC().Format(time.RFC3339Nano)
	}
	r.Outcome = b.outcome()
	if r.Outcome == Succeeded || r.Outcome == Stopped {
		for _, f := range b.all {
			if f.Severity == Error {
				f.Severity = Warning
			}
		}
	}
	ordered := b.ordered()
	if err := b.showFigures(b.ctx, metrics, ordered, b.running); err != nil {
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
	r.Missing, r.partial = append(append([]string{}, b.missing...), b.s.Damage()...), b.partial
	if b.unread > 0 {
		r.Missing = append(r.Missing, fmt.Sprintf("%s not looked at: one report reads a bounded number of logs.", plural(b.unread, "log")))
	}
	if r.Summary = summaryOf(r, ordered, b.jobs); r.Outcome == Unknown {
		r.Summary = b.unknownSummary()
	}
	return r, nil
}

// complete sets the fields that every finding has.
func (b *builder) complete(f *finding) {
	switch f.Kind {
	case OutOfMemory:
		f.Title = f.memoryTitle()
		if run := b.trainRuns[f.job]; run != "" {
			f.Title = strings.Replace(f.Title, "RayTrainWorker", "RayTrainWorker of Train run "+run, 1)
		}
	case NodeDied, GCSDied:
		if len(f.names) > 0 {
			f.Title = strings.TrimSuffix(f.Title, ".") + "; with it failed " + quoted(f.names)
		}
	default:
		if f.Count > 1 && f.lasting == 0 {
			f.Title = strings.Replace(f.Title, "died and was restarted:", fmt.Sprintf("died and was restarted %d times:", f.Count), 1)
		}
		if f.lasting == 0 && f.recovered > 0 && !strings.Contains(f.Title, "restarted") {
			f.Title += ", and succeeded when it was retried"
		}
	}
	f.Count = max(f.Count, 1)
	f.Title = output.Clip(strings.Join(strings.Fields(output.Printable(plainTitle(f.Title))), " "), 2*output.MaxTitle)
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
	f.Advice, f.Docs = help.advice, docsRoot+help.docs
	if f.Because == nil {
		f.Because = []string{}
	}
	if f.Entities == nil {
		f.Entities = []Entity{}
	}
	if f.Evidence == nil {
		f.Evidence = []Evidence{}
	}
}

// setSeverities decides how severe each finding is.
func (b *builder) setSeverities() {
	for _, f := range b.all {
		switch {
		case f.wanted:
			f.Severity = Info
		case f.Severity != "":
		case f.ended:
			f.Severity = Error
		case f.lasting == 0:
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
	// A node that died is not an error if nothing failed because of it.
	for _, f := range b.all {
		madeFail := func(other *finding) bool { return other.Severity == Error && slices.Contains(other.because, f) }
		if f.Kind == NodeDied && len(f.names) == 0 && !slices.ContainsFunc(b.all, madeFail) {
			f.Severity = Warning
		}
	}
}

func (b *builder) raiseCauses(f *finding, depth int) {
	for _, c := range f.because {
		if depth < maxFindings && c.Severity != Error && (!c.wanted || f.ended) {
			c.Severity = Error
			b.raiseCauses(c, depth+1)
		}
	}
}

// harmless reports whether all jobs of a finding continued after the failure, or failed for another reason.
func (b *builder) harmless(f *finding) bool {
	return len(f.jobs) > 0 && !slices.ContainsFunc(f.jobs, func(id rayid.Job) bool { return !b.harmlessTo(b.jobOfID(id), f) })
}

// harmlessTo reports whether a job continued after a failure, or failed for another reason. It is false if the job is not known.
func (b *builder) harmlessTo(j *job, f *finding) bool {
	switch {
	case j == nil:
		return false
	case j.SubmissionID != "" && j.Status == "FAILED":
		own := b.finished(j)
		if own != nil && len(own.because) == 0 && j.End-f.last <= atTheEnd {
			return false
		}
		return own != nil && (len(own.because) > 0 || own.what.Type != "") // the finding about the job's end says why it failed, and this is not the reason
	case j.SubmissionID != "":
		return j.Status == "SUCCEEDED" || j.Status == "STOPPED"
	}
	return j.End != 0 && j.End-f.last > atTheEnd
}

// finished returns the finding about a job's own end; nil if there is none.
func (b *builder) finished(j *job) *finding {
	for _, f := range b.all {
		if f.ended && f.SubmissionID == j.SubmissionID && f.job == j.id {
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
		case "FAILED":
			failed = true
		case "STOPPED":
			stopped = true
		case "SUCCEEDED":
		default:
			open = true
		}
	}
	errors := slices.ContainsFunc(b.all, func(f *finding) bool {
		j := b.jobOfID(f.job)
		return f.Severity == Error && (j == nil || j.SubmissionID == "" && j.End != 0)
	})
	switch {
	case failed:
		return Failed
	case b.running, b.goesOn:
		return Running
	case errors && !open:
		return Failed
	case open:
		return Unfinished
	case stopped:
		return Stopped
	case len(b.jobs) == 0 && b.counts.Tasks+b.counts.Actors > 0:
		return Unfinished
	case len(b.jobs) == 0:
		return Unknown
	}
	return Succeeded
}

// ordered returns the findings in order: the severe ones first, and each cause before its consequences.
func (b *builder) ordered() []*finding {
	all := slices.Clone(b.all)
	slices.SortStableFunc(all, func(a, c *finding) int {
		return cmp.Or(
			bySeverity(a, c),
			cmp.Compare(b.explains(c), b.explains(a)),
			cmp.Compare(when(a), when(c)),
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
		if other.ended && other.dependsOn(f, 0) {
			n++
		}
	}
	if n == 0 && f.ended && f.Severity == Error {
		n = 1
	}
	return n
}

func when(f *finding) int64 {
	if f.first == 0 {
		return 1 << 62
	}
	return f.first
}

// summaryOf returns one sentence that says how the session ended.
func summaryOf(r *Report, findings []*finding, jobs []job) string {
	ends := map[string]int{}
	for i := range jobs {
		ends[jobs[i].Status]++
	}
	if r.Outcome == Succeeded && r.count(Warning) == 0 {
		return "Nothing failed."
	}
	if r.Outcome == Succeeded {
		return fmt.Sprintf("The jobs succeeded, with %s.", plural(r.count(Warning), "warning"))
	}
	runs := "It is running"
	if r.At != "" {
		runs = "It was running"
	}
	how := map[string]string{
		Failed: "It failed", Stopped: "Its jobs were stopped", Running: runs, Unfinished: "The cluster ended before its jobs did",
	}[r.Outcome]
	if r.Outcome == Failed && ends["FAILED"] > 0 && len(jobs) > 1 {
		how = fmt.Sprintf("%d of %s failed", ends["FAILED"], plural(len(jobs), "job"))
	}
	if len(findings) > 0 && findings[0].Severity == Error {
		return how + ": " + strings.TrimSuffix(findings[0].Title, ".") + "."
	}
	return how + "."
}

// general holds exceptions that programs raise to say that they cannot go on, whatever the reason is.
var general = map[string]bool{"": true, "RuntimeError": true, "AssertionError": true, "Exception": true, "SystemExit": true}

// ownBugs holds exceptions that a program raises because of a mistake of its own. A driver that raised one of them did not end because tasks had
// failed.
var ownBugs = map[string]bool{
	"KeyError": true, "IndexError": true, "TypeError": true, "AttributeError": true, "NameError": true, "UnboundLocalError": true, "ZeroDivisionError": true,
	"ImportError": true, "ModuleNotFoundError": true, "SyntaxError": true, "IndentationError": true, "RecursionError": true, "NotImplementedError": true,
	"FileNotFoundError": true, "PermissionError": true, "IsADirectoryError": true, "NotADirectoryError": true, "UnicodeDecodeError": true, "MemoryError": true,
	"KeyboardInterrupt": true, "JSONDecodeError": true, "ConnectionError": true, "ConnectionRefusedError": true,
}

// aboutFailures matches what a program says about the failures of others: a summary, such as "3 of 8 shards failed" or "No best trial found".
var aboutFailures = lazyregexp.New(`(?i)\b(?:fail\w*|errors?|errored|unsuccessful|incomplete|aborted|crashed|died|dead|lost|missing|broken|unhealthy|` +
	`not (?:all|enough|complete|placed|ready|available)|none of|no (?:best|trial|result|successful|worker|healthy)\w*|only \d+ (?:of|out of)|\d+ ?(?:of|/|out of) ?\d+|could not|couldn't|cannot|unable|gave up|giving up)\b`)

// linkFailures links a driver that ended with words of its own to what had failed in its job before, and was not repaired by a retry: the driver
// tells only that it could not go on. If what it raised is its own mistake, only the failure's evidence is shown.
func (b *builder) linkFailures(f *finding, j *job, e *driverEnd) {
	if ownBugs[e.what.Type] {
		b.linkSwallowed(f, j, e)
		return
	}
	if j.id.Nil() || e.signal != "" || f.Kind == RuntimeEnv || f.Kind == Entrypoint {
		return
	}
	said := e.what.Message + " " + e.what.Rest
	if e.what.Type == "" {
		said = e.lastWords()
	}
	summary := aboutFailures().MatchString(said) && e.what.Type != "OutOfMemoryError"
	for _, other := range b.all {
		ofServe := other.Kind == Serve && e.log != nil && (len(b.jobs) == 1 || other.namedIn(output.OwnLines(e.log.text)))
		if other == f || other.ended || other.wanted || other.lasting == 0 || other.job != j.id && !ofServe || other.Kind == Pod {
			continue
		}
		if (other.Kind == Data || other.Kind == Train) && other.what.Type == "" {
			if len(other.because) == 0 {
				other.causedBy(f) // nothing says why the run failed
			}
			continue
		}
		// Soon after a failure an end without a reason of its own is its consequence; later only if the driver speaks of failures.
		if summary || other.Kind == Unschedulable && e.what.Function == "" || general[e.what.Type] && j.End-other.last <= atTheEnd {
			f.causedBy(other)
		}
	}
	b.dropRepeated(f)
}

// dropRepeated leaves out the causes of a driver's end that the driver repaired itself, if it has others: it submitted a task of the same function
// again after the last failure, and that succeeded.
func (b *builder) dropRepeated(f *finding) {
	if len(f.because) < 2 {
		return
	}
	final := slices.DeleteFunc(slices.Clone(f.because), b.succeededLater)
	if len(final) == 0 || len(final) == len(f.because) {
		return
	}
	for _, c := range f.because {
		if !slices.Contains(final, c) {
			c.Severity = Warning
		}
	}
	f.because = final
}

// succeededLater reports whether a task of a function that had failed was submitted after the last failure and succeeded.
func (b *builder) succeededLater(f *finding) bool {
	if f.Kind != TaskFailed && f.Kind != WorkerDied {
		return false
	}
	return slices.ContainsFunc(f.names, func(name string) bool {
		for _, a := range b.attempts("name", name, maxChildren, b.r.At) {
			if a.row.Job() == f.job && a.state == tasktable.StateFinished && firstState(a.row) > f.last {
				return true
			}
		}
		return false
	})
}

// firstState returns when an attempt entered its first state, Unix ns; 0 if that is not known.
func firstState(row tasktable.Row) (at int64) {
	var room [8]tasktable.StateTime
	for _, s := range row.States(room[:0]) {
		if at == 0 || s.Time < at {
			at = s.Time
		}
	}
	return at
}

// linkSwallowed links a driver that ended with a mistake of its own to a failure that it had caught shortly before and that left something out that it
// then lacked: what it lacked is named in the failure, or was None instead.
func (b *builder) linkSwallowed(f *finding, j *job, e *driverEnd) {
	if j.id.Nil() || e.what.Function != "" || e.what.Type != "KeyError" && e.what.Type != "TypeError" && e.what.Type != "AttributeError" {
		return
	}
	lacked := strings.Trim(e.what.Message, `'" `)
	for _, other := range b.all {
		if other.Kind != TaskFailed || other.ended || other.wanted || other.lasting == 0 || other.job != j.id || j.End-other.last > atTheEnd {
			continue
		}
		ofTrial := strings.HasPrefix(other.Title, "Tune trial ") // Tune returns the results of trials that failed, without their metrics
		if ofTrial || strings.Contains(e.what.Message, "NoneType") || e.what.Type == "KeyError" && len(lacked) > 2 && mentions(strings.ReplaceAll(other.what.Message, "/", " "), lacked) {
			f.causedBy(other)
		}
	}
}
