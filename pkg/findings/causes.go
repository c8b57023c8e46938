package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// linkDriver links the finding about a driver's end to its causes: what the driver's exception tells of, or else what
// had failed before the driver ended with words of its own.
func (b *builder) linkDriver(f *finding, j *job, e *driverEnd) {
	b.linkCauses(f, j, cmp.Or(e.trace, output.OwnLines(j.Message))) // not what workers printed
	if len(f.because) == 0 && f.raised.Type == "WorkerCrashedError" {
		b.linkDeaths(f, j)
	}
	if len(f.because) > 0 && b.endedOtherwise(f, j, e) {
		f.because, e.raised = nil, output.Exception{}
	}
	if len(f.because) == 0 {
		b.linkFailures(f, j, e)
	}
	if len(f.because) == 0 {
		if reason, found := actorDeathReason(e.trace); found && f.raised.Type == "ActorDiedError" {
			// the message's first line says no more than the type
			f.Title = strings.Replace(f.Title, f.raised.String(), f.raised.Type+": "+reason, 1)
		}
	}
	for _, c := range f.because { // the driver's traceback is often the only one that Ray did not shorten
		if e.traceAt >= 0 && (c.Kind != NodeDied || len(c.names) == 0) {
			c.addEvidence(b.tracebackEvidence(e))
			c.takeException(f.raised)
		}
	}
}

// endedOtherwise reports whether a driver handled the exception in its log and went on after all causes of the
// exception. It went on after a cause if what had failed succeeded later, or if the driver submitted more, and then
// that failed and the driver printed more, or the driver printed an error that is not about failures of others.
func (b *builder) endedOtherwise(f *finding, j *job, e *driverEnd) bool {
	ofItsOwn := e.laterError != "" && !tellsOfOthers(output.Exception{}, e.laterError)
	printedMore := strings.TrimSpace(output.OwnLines(output.Behind(e.trace, e.raised))) != ""
	endedBy := func(c *finding) bool {
		failedLater := func(other *finding) bool {
			return other.Kind == TaskFailed && j.hasDriver(other.job) && other.first > c.last && b.isUnrepaired(other)
		}
		wentOn := e.aftermath == loggedIt && b.succeededLater(c) ||
			(ofItsOwn || printedMore && slices.ContainsFunc(b.findings, failedLater)) && b.driverWentOnAfter(c, j.id)
		return !wentOn
	}
	return e.wasHandled() && !slices.ContainsFunc(f.because, endedBy)
}

// linkDeaths links a driver that raised a WorkerCrashedError to the workers of its job that died shortly before it
// ended. Ray counts a task as finished if it called sys.exit(0), so no other finding is about such a worker.
func (b *builder) linkDeaths(f *finding, j *job) {
	if j.id.Nil() {
		return
	}
	earliest := func(x, y rayid.Worker) int {
		return cmp.Or(cmp.Compare(b.deaths[x].at, b.deaths[y].at), slices.Compare(x[:], y[:])) // many die at once
	}
	for _, id := range slices.SortedFunc(maps.Keys(b.deaths), earliest) {
		d := b.deaths[id]
		ofJob := d.job == j.id || d.job.Nil() && len(b.jobs) <= 1
		if d.driver || d.wasIntended() || !ofJob || d.at > j.End || j.End-d.at > atTheEnd {
			continue
		}
		died := b.processDied(WorkerDied, j.id.String(), fmt.Sprintf("A worker of job %s died", j.name()), id, d)
		died.add(occurrence{at: d.at, job: j.id, node: d.node, evidence: []Evidence{d.evident}})
		f.causedBy(died)
	}
}

// linkCauses links the finding about a failed job to what its driver's exception tells of. traceback is the
// exception's. Only the surest kind of cause that there is counts: findings with the same exception; then the actor
// that starts the driver, and the failures behind an exception of Ray; then failures that the traceback names.
func (b *builder) linkCauses(f *finding, j *job, traceback string) {
	var failures []*finding
	for _, other := range b.findings {
		if other != f && other.ended == nil && other.unrecovered > 0 && (j.hasDriver(other.job) || other.job.Nil()) &&
			!j.beganAfter(other) {
			failures = append(failures, other)
		}
	}
	for _, other := range failures {
		switch {
		case f.raised.Same(other.raised):
			f.causedBy(other)
		case other.isEndOf(traceback):
			f.causedBy(other)
			other.Title = strings.Replace(other.Title, other.raised.String(), f.raised.String(), 1)
			other.raised = f.raised
			b.linkException(other, traceback) // what the cut message did not tell
		}
	}
	if len(f.because) > 0 {
		return
	}
	for _, other := range b.findings {
		if slices.Contains(other.names, moment.SupervisorActor+j.SubmissionID) {
			f.causedBy(other)
		}
	}
	if b.linkException(f, traceback); len(f.because) > 0 {
		return
	}
	for _, other := range failures {
		// of a mistake of the driver's own only the code in the frames names what raised nothing
		if other.intended || other.raised.Message == "" && ownBugs[f.raised.Type] {
			continue
		}
		if other.anyNameIn(traceback) && strings.Contains(traceback, other.raised.Message) {
			f.causedBy(other)
		}
	}
}

// isEndOf reports whether Ray kept only the end of the finding's message and a text, which is not cut, contains that
// end.
func (f *finding) isEndOf(text string) bool {
	const end = 200 // bytes at the end of the message that are compared
	if f.raised.Type == "" && f.raised.Message == "" || len(f.Evidence) == 0 || len(f.Evidence[0].Text) < 2*end {
		return false
	}
	shown := f.Evidence[0].Text
	if f.raised.Type != "" && !output.LacksCause(shown) {
		return false
	}
	return strings.Contains(text, shown[len(shown)-end:])
}

// linkFailures links a driver that ended with words of its own to failures in its job that no retry repaired: such
// words say only that the driver could not go on. It links nothing if the driver raised a mistake of its own, or the
// system refused it something.
func (b *builder) linkFailures(f *finding, j *job, e *driverEnd) {
	ofItself := ownBugs[e.raised.Type] || ofMachine().MatchString(e.raised.Message)
	if ofItself || e.signal != "" || f.Kind == RuntimeEnv || f.Kind == Entrypoint {
		return
	}
	said, forAnyReason := e.message(), isGeneric(e.raised)
	ofOthers := tellsOfOthers(e.raised, said) && e.raised.Type != "OutOfMemoryError" // the driver speaks of failures
	waited := e.raised.Function == "" && (forAnyReason || isTimeout(e.raised) || notReady().MatchString(said))
	// Soon after a failure an end without a reason of its own is its consequence; later only if the driver speaks of
	// failures.
	noReason := forAnyReason && e.raised.Message == "" && !j.id.Nil()
	lacksSome := tooFew().MatchString(said) || f.gotTooFew()
	for _, other := range b.findings {
		if other == f || !b.mayEndJob(other, j, e.log) || other.ignored && !lacksSome {
			continue
		}
		mayWaitFor := other.Kind == Unschedulable || b.driverToldOf(other, j, e.log)
		held := b.heldUp(other, j) && (isTimeout(e.raised) || notReady().MatchString(said) || lacksSome)
		awaited := other.isStarting() && forAnyReason && (other.namedIn(said) || notReady().MatchString(said))
		if ofOthers || other.ignored || other.reportedIn(said) || mayWaitFor && waited || awaited || held ||
			noReason && j.End-other.last <= atTheEnd {
			f.causedBy(other)
		}
	}
	b.chooseCauses(f, said, ofOthers, forAnyReason)
}

// mayEndJob reports whether a finding is about a failure that nothing repaired, and on which a job may depend. log is
// what the job's driver printed.
func (b *builder) mayEndJob(failure *finding, j *job, log *logText) bool {
	// a finding about a run of a library without an exception only repeats what the run's tasks raised
	repeats := (failure.Kind == Data || failure.Kind == Train) && failure.raised.Type == ""
	if !b.isUnrepaired(failure) || failure.Kind == Pod || repeats {
		return false
	}
	onlyJob := len(b.jobs) == 1
	return j.hasDriver(failure.job) || failure.servesJob(j, log, onlyJob) || b.driverToldOf(failure, j, log) ||
		b.heldUp(failure, j)
}

// chooseCauses leaves, of the causes of a driver's end, those that the driver's words (said) name. If they name none,
// it leaves those that the driver did not forgive: it forgave a failure if it went on after it. ofOthers says that the
// words are about failures of others, and forAnyReason that programs raise the driver's type of exception for any
// reason.
func (b *builder) chooseCauses(f *finding, said string, ofOthers, forAnyReason bool) {
	named := slices.DeleteFunc(slices.Clone(f.because),
		func(c *finding) bool { return !c.isNamedIn(said) || b.succeededLater(c) })
	if len(named) > 0 {
		f.because = named
		return
	}
	goneOn := func(c *finding) bool { return b.driverWentOnAfter(c, f.job) }
	f.dropForgiven(func(c *finding) bool { return c.late })
	f.dropForgiven(b.succeededLater)
	f.dropForgiven(goneOn)
	if len(f.because) == 1 && f.Kind == JobFailed && strings.TrimSpace(said) != "" && !howManyOf().MatchString(said) {
		only := f.because[0]
		repaired := b.succeededLater(only)
		if repaired || only.Kind == TaskFailed && !only.ignored && goneOn(only) && !(ofOthers && forAnyReason) {
			f.because, only.Severity = nil, Warning // what the driver said last counts
		}
		if repaired && ofOthers {
			f.repaired = only
		}
	}
	f.dropForgiven(b.succeededNext)
}

// tooFew matches what says that something is missing, as it is of what was ignored.
var tooFew = lazyregexp.New(`(?i)` + outOfHowMany + `|\b(?:only|missing|lost|incomplete|too few|not (?:all|enough|complete))\b`)

// reportedIn reports whether a text is about failures and names what the finding is about. A library may say it, too.
func (f *finding) reportedIn(said string) bool {
	return aboutFailures().MatchString(said) && f.isNamedIn(said)
}

// isNamedIn reports whether a text names the deployment that the finding is about, what failed, or the type of
// exception that it raised.
func (f *finding) isNamedIn(text string) bool {
	return f.namedIn(text) || !isGeneric(f.raised) && mentions(text, f.raised.Type) ||
		f.anyNameIn(text)
}

// anyNameIn reports whether a text names something that failed. Names of up to three letters may be any words and do
// not count.
func (f *finding) anyNameIn(text string) bool {
	return slices.ContainsFunc(f.names, func(name string) bool { return len(name) > 3 && mentions(text, name) })
}

// linkTasks links the failure of a task to those of the tasks that it had started, if it raised the same exception, or
// one of its own about them.
func (b *builder) linkTasks() {
	for _, id := range slices.Sorted(maps.Keys(b.failures)) {
		child, parent := b.failures[id].finding, b.failures[b.failures[id].parent].finding
		switch {
		case parent == nil || parent == child:
		case parent.Kind == child.Kind && parent.raised.Same(child.raised),
			slices.Contains(failuresBehind(parent.raised, ""), child.Kind),
			parent.tellsOfFailure(child):
			parent.causedBy(child)
		}
	}
	b.tellLeftByTasks()
}

// tellsOfFailure reports whether a task failed with words of its own that are about child, the failure of a task that
// it had started shortly before. If the task had waited too long, and it is not known for what, the child must have
// waited too long as well, unless the task's exception is another one than Ray's GetTimeoutError.
func (f *finding) tellsOfFailure(child *finding) bool {
	said := f.raised.Message
	if child.unrecovered == 0 || child.intended || f.last-child.last > atTheEnd {
		return false
	}
	if f.Kind == Timeout {
		return len(f.because) == 0 && (child.Kind == Timeout || f.raised.Type != "GetTimeoutError")
	}
	return f.Kind == TaskFailed && !ownBugs[f.raised.Type] &&
		(isGeneric(f.raised) || tellsOfOthers(f.raised, said) || child.reportedIn(said))
}

// linkJobs links what ended a job to the end of another job which its last words name, and which failed or was stopped
// while it ran: it may have started that job, or waited for it. If nothing failed in the job, and it ended with words
// of its own, it may have started the other job without a word at its end, see startedBy.
func (b *builder) linkJobs() {
	for _, end := range b.findings {
		f := end.rootCause()
		if end.ended == nil || end.intended || f != end && f.ended != nil || ownBugs[f.raised.Type] {
			continue
		}
		said := strings.TrimPrefix(f.Title, "Job "+f.SubmissionID) + " " + f.earlierError
		mayTell, started := f == end && isGeneric(f.raised), b.startedBy(end)
		for _, other := range b.findings {
			if other.ended == nil || other.SubmissionID == end.SubmissionID || other.last > f.last ||
				other.last < end.ended.Start {
				continue
			}
			startedByIt := mayTell && !other.intended && started(other.ended) && !b.startedAgain(f, other, started)
			if startedByIt || namesJob(said, other.SubmissionID) {
				f.causedBy(other.rootCause())
			}
		}
	}
}

// startedBy returns whether the job of an end may have started another one: the job's log names the other one, after
// whose end the job submitted nothing, or the job's ID begins the other one's, and the job never submitted anything.
func (b *builder) startedBy(end *finding) func(other *job) bool {
	own := sync.OnceValue(func() string { return b.driverLog(end.ended).ownLines() })
	words := sync.OnceValue(func() map[string]bool { return wordsOf(own()) })
	return func(other *job) bool {
		if other.Start < end.ended.Start {
			return false
		}
		if strings.HasPrefix(other.SubmissionID, end.SubmissionID+"-") {
			last := b.lastSubmitted(end.job)
			if _, known := b.submitted[end.job]; known && last == 0 {
				return true
			}
		}
		for word := range wordsOf(other.SubmissionID) { // quicker than a search in the log for each of many jobs
			if !words()[word] {
				return false
			}
		}
		return namesJob(own(), other.SubmissionID) && b.lastSubmitted(end.job) <= other.End
	}
}

// startedAgain reports whether a job that an end's job started after another one had failed succeeded, and the end's
// words are about no failure: then that one was got over.
func (b *builder) startedAgain(end, failed *finding, started func(*job) bool) bool {
	if _, said, _ := strings.Cut(end.Title, ": "); aboutFailures().MatchString(said) {
		return false
	}
	return slices.ContainsFunc(b.jobs, func(j job) bool {
		return j.Status == jobstatus.Succeeded && j.Start >= failed.last && j.End <= end.last && started(&j)
	})
}

// wordsOf returns the words of a text, which may have hyphens.
func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '-' && !isLetter(r) }) {
		words[strings.Trim(word, "-")] = true
	}
	return words
}

// namesJob reports whether a text names a submission. An ID that is one word without a digit may be any word: it must
// be quoted, or the text must say that it is a job or that it failed.
func namesJob(text, id string) bool {
	names := []string{"job " + id, "Job " + id, "submission " + id, "Submission " + id, "'" + id + "'", `"` + id + `"`,
		id + ": FAILED"}
	if strings.ContainsAny(id, "0123456789-") || strings.HasPrefix(id, "raysubmit_") {
		names = []string{id}
	}
	return len(id) > 3 && slices.ContainsFunc(names, func(name string) bool { return mentions(text, name) })
}

// dropForgiven leaves out the causes for which forgiven returns true, and makes them warnings. If it returns true for
// all of them, they stay.
func (f *finding) dropForgiven(forgiven func(*finding) bool) {
	final := slices.DeleteFunc(slices.Clone(f.because), forgiven)
	if len(final) == 0 {
		return
	}
	for _, c := range f.because {
		if !slices.Contains(final, c) {
			c.Severity = Warning
		}
	}
	f.because = final
}

// driverWentOnAfter reports whether a driver submitted something after a failure was over.
func (b *builder) driverWentOnAfter(f *finding, driver rayid.Job) bool {
	return f.last < b.lastSubmitted(driver)
}

// lastSubmitted returns when a driver last submitted a task, a call or an actor, Unix ns; 0 if that is not known. Calls
// that only end an actor do not count.
func (b *builder) lastSubmitted(driver rayid.Job) (last int64) {
	if last, known := b.submitted[driver]; known || len(b.submitted) >= maxFindings {
		return last
	}
	for _, a := range b.submittedBy(driver) {
		if a.row.Attempt() == 0 && !tidies(string(a.row.GivenName())) {
			last = max(last, a.row.FirstStateAt())
		}
	}
	b.submitted[driver] = last
	return last
}

// submittedBy returns what a driver itself submitted, at most maxChildren attempts.
func (b *builder) submittedBy(driver rayid.Job) []attempt {
	if driver.Nil() {
		return nil
	}
	driverTask := strings.Repeat("f", 40) + driver.String() // Ray's ID of the task that the driver itself is
	return b.selectAttempts(b.moment.At, "parent_task_id", driverTask, maxChildren)
}

// succeededLater reports whether, after the last failure, a task of one of the functions that had failed was submitted
// and succeeded.
func (b *builder) succeededLater(f *finding) bool {
	return slices.ContainsFunc(b.triedAfter(f), attempt.finished)
}

// succeededNext reports whether the first task of these functions that was submitted after the last failure succeeded.
func (b *builder) succeededNext(f *finding) bool {
	later := b.triedAfter(f)
	return len(later) > 0 && slices.MinFunc(later, func(x, y attempt) int {
		return cmp.Compare(x.row.FirstStateAt(), y.row.FirstStateAt())
	}).finished()
}

// isUnrepaired reports whether a finding is about a failure that nothing repaired. The loss of a node is repaired if
// something failed because of it, and a retry of all of that succeeded.
func (b *builder) isUnrepaired(failure *finding) bool {
	retried := false
	for _, f := range b.findings {
		if failure.Kind == NodeDied && slices.Contains(f.because, failure) && f.ended == nil {
			if f.unrecovered > 0 {
				return failure.unrepaired()
			}
			retried = true
		}
	}
	return !retried && failure.unrepaired()
}

// triedAfter returns the attempts of the functions that had failed that the same job submitted after the last failure;
// if an actor had died, those of the actor itself. It returns none unless the finding is about tasks or an actor. What
// Ray Data ignored was not tried again: the operator's later tasks have other blocks.
func (b *builder) triedAfter(f *finding) (later []attempt) {
	if f.Kind != TaskFailed && f.Kind != WorkerDied && f.Kind != ActorDied || f.ignored {
		return nil
	}
	for _, name := range f.names {
		for _, a := range b.selectAttempts(b.moment.At, "name", name, maxChildren) {
			if b.callerJob(a.row) == f.job && a.row.FirstStateAt() > f.last &&
				(f.Kind != ActorDied || f.isAbout("actor", actorIDOf(a.row).String())) {
				later = append(later, a)
			}
		}
	}
	return later
}
