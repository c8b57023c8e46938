package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// linkDriver links the finding to what caused it.
func (b *builder) linkDriver(f *finding, j *job, e *driverEnd) {
	b.linkCauses(f, j, cmp.Or(e.trace, j.Message))
	if len(f.because) == 0 && f.raised.Type == "WorkerCrashedError" {
		b.linkDeaths(f, j)
	}
	// Words about failures behind an exception are about that one. Other words tell of another end, if the driver
	// submitted more before it.
	anotherEnd := e.later != "" && !tellsOfOthers(output.Exception{}, e.later)
	if len(f.because) > 0 && e.handled() && !slices.ContainsFunc(f.because, func(c *finding) bool {
		return !(e.logged && b.succeededLater(c)) && !(anotherEnd && c.last < b.lastSubmitted(j.id))
	}) {
		f.because, e.raised = nil, output.Exception{} // it went on after what it logged, with success
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
	for _, c := range f.because {
		if e.log != nil {
			c.takeWhole(e.log.text)
		}
		// the driver's traceback is often the only one that Ray did not shorten
		if e.at >= 0 && (c.Kind != NodeDied || len(c.names) == 0) {
			c.addEvidence(b.evidenceOf(e))
			c.takeException(f)
		}
		if e.log != nil && wrappers[c.raised.Type] {
			c.takeException(&finding{raised: output.CopiedCause(e.log.text, c.raised.Type)})
		}
	}
}

// linkDeaths links a driver that raised a WorkerCrashedError to the workers of its job that died shortly before. Ray
// counts a task as finished if it called sys.exit(0), so no other finding is about such a worker.
func (b *builder) linkDeaths(f *finding, j *job) {
	for _, id := range slices.SortedFunc(maps.Keys(b.deaths),
		func(x, y rayid.Worker) int { return cmp.Compare(b.deaths[x].at, b.deaths[y].at) }) {
		d := b.deaths[id]
		if d.driver || d.wanted() || d.job != j.id && (!d.job.Nil() || len(b.jobs) > 1) || j.id.Nil() || d.at > j.End ||
			j.End-d.at > atTheEnd {
			continue
		}
		died := b.processDied(WorkerDied, j.id.String(), fmt.Sprintf("A worker of job %s died", j.name()), id, d)
		died.add(occurrence{at: d.at, job: j.id, node: d.node, evidence: []Evidence{d.evident}})
		f.causedBy(died)
	}
}

// addEarlierFailures adds to the title of what ended a job what had failed in the job before and was not repaired:
// whoever waited in vain, or lacked something, often lacked what this had left out. Nothing stored says so for sure, so
// the title tells both.
func (b *builder) addEarlierFailures() {
	for _, f := range b.all {
		if !f.jobEnd || f.intended || f.Kind == RuntimeEnv || f.Kind == Entrypoint {
			continue
		}
		root := f.root()
		if strings.Contains(root.Title, beforeThat) {
			continue
		}
		earlier := ""
		if before := b.earlier(f, root); before != nil {
			earlier = before.Title
			for _, e := range before.Evidence[:min(len(before.Evidence), 1)] {
				root.addEvidence(e)
			}
		} else if root.lacked(f) {
			earlier = cmp.Or(b.printedBefore(f, root), b.actorLost(f, root))
		}
		if earlier != "" {
			earlier = beforeThat + output.Clip(earlier, output.MaxTitle)
			root.Title = output.Clip(root.Title, 2*output.MaxTitle-len(earlier))
			root.goOn(earlier)
		}
	}
}

// actorLost returns how an actor had ended, if a job then ended only with words of its own: a detached one of another
// job, as others may need it, or one of its own that somebody killed shortly before; "" if none had.
func (b *builder) actorLost(f, root *finding) (told string) {
	for _, lost := range b.all {
		shared := lost.detached && lost.job != f.job
		killed := lost.intended && lost.Kind == ActorDied && lost.job == f.job && f.last-lost.last <= atTheEnd
		if (shared || killed) && lost.unrecovered > 0 && lost.last < f.last && root == f &&
			general().MatchString(f.raised.Type) {
			told = lost.Title
		}
	}
	return told
}

// printedBefore returns the last error that a worker of a submission printed, as its driver's log has it, with the
// worker's name, or else what the entrypoint itself had printed, if that ended for no other reason; "" if there is none
// that the root of the submission's end does not tell. Whoever lacked something by its name is told the last line of a
// worker that names it, and whoever found nothing any last line: what gives nothing often says why in words that are no
// error.
func (b *builder) printedBefore(f, root *finding) (told string) {
	plain := ""
	for i := range b.jobs {
		j := &b.jobs[i]
		if j.SubmissionID != f.SubmissionID {
			continue
		}
		if log := b.driverLog(j); log != nil {
			also := root.alsoNames
			if notReady().MatchString(root.Title) || strings.HasSuffix(root.Title, "Timeout") {
				also = output.AboutWaits
			}
			if said := b.saidByWorkers(j, log, root, also); said != "" {
				return said
			}
			if output.OwnLines(log.text) == log.text {
				told = b.printedByWorkers(j, root)
			} else if root.foundNothing() {
				plain = b.saidByWorkers(j, log, root, output.Plain)
			}
		}
	}
	if root == f {
		told = cmp.Or(told, f.printed)
	}
	return cmp.Or(told, plain)
}

// saidByWorkers returns what a worker had printed into the log of a job's driver and a root does not tell, with its
// name.
func (b *builder) saidByWorkers(j *job, log *logText, root *finding, also func(line string) bool) string {
	isRays := func(class string) bool { return b.isRays(class, j.id) }
	who, said := output.SaidByWorkers(log.text, root.Title, also, isRays)
	return around(who+" printed: ", said, "")
}

// foundNothing reports whether a driver ended without a word, or what was raised says that nothing was there, or only
// that a server had failed.
func (f *finding) foundNothing() bool {
	message := f.raised.Message
	return f.silent || strings.Contains(message, "'NoneType'") || f.raised.Type == "FileNotFoundError" ||
		emptyHanded().MatchString(message) || noneFound().MatchString(message) || serverError().MatchString(message)
}

var (
	// noneFound matches what says that nothing of a kind was found, as Tune does of trials.
	noneFound = lazyregexp.New(`^No [\w ]{1,40} found\b`)
	// serverError matches what clients of HTTP say of a server that failed.
	serverError = lazyregexp.New(`(?i)\b(?:HTTP error 5\d\d|5\d\d server error|server error '5\d\d|5\d\d, message=)`)
)

// alsoNames reports whether a line names what the message of an exception does: who left it out, or made less of it,
// may say so at any level. Messages about other mistakes in code name types and attributes.
func (f *finding) alsoNames(line string) bool {
	if t := f.raised.Type; ownBugs[t] && t != "KeyError" && t != "FileNotFoundError" {
		return false
	}
	return slices.ContainsFunc(named().FindAllString(f.raised.Message, 3),
		func(name string) bool { return mentions(line, strings.Trim(name, "'")) })
}

// named matches the names of things in a message: in quotes, or a word with a number, as in "part 3".
var named = lazyregexp.New(`'[^'\n]{4,200}'|\b\pL{3,}[ -]\d+\b`)

// printedByWorkers returns the error that a worker of a job printed last, as its own log has it: with
// log_to_driver=False the driver's has nothing of it. It returns "" if there is none.
func (b *builder) printedByWorkers(j *job, root *finding) string {
	b.sortLogs()
	for _, file := range b.printed[j.id] {
		worker, _ := workerOf(file.Path)
		said := output.LastError(b.readOf(worker, file).text, false) // no other lines
		if said == "" || strings.Contains(root.Title, said) {
			continue
		}
		if a := b.actorIn(worker); a == nil || !b.isRays(a.Class, a.Job) {
			return "a worker printed: " + said
		}
	}
	return ""
}

const beforeThat = "; before that "

// goOn adds to a title what goes on behind its sentence.
func (f *finding) goOn(text string) { f.Title = strings.TrimSuffix(f.Title, ".") + text }

// root returns the first cause of a finding that has no cause; the finding itself if it has none.
func (f *finding) root() *finding {
	for len(f.because) > 0 {
		f = f.because[0]
	}
	return f
}

// earlier returns the first failure in a job before the one that ended it, of which it is neither a cause nor a
// consequence; nil if there is none. One after which the driver went on counts only if there is no other. Behind the
// failure of a task that lacked nothing it is one that the task had called, or of the same actor, or what its driver
// handled then, or of a task that should have brought what it did not find.
func (b *builder) earlier(end, root *finding) (first *finding) {
	near := map[*finding]bool{} // has to do with the task of the root
	for _, failed := range b.failures {
		near[failed.finding] = near[failed.finding] || b.failures[failed.parent].finding == root
	}
	lacked, j, goneOn := root.lacked(end), b.jobOfID(end.job), b.lastSubmitted(end.job)
	if j == nil {
		return nil
	}
	rank := func(f *finding) int {
		switch {
		case near[f]:
			return 0
		case f.last >= goneOn:
			return 1
		}
		return 2
	}
	for _, f := range b.all {
		isNear := near[f] || root.actor() != "" && f.actor() == root.actor() || root.misses(f) ||
			end.handled.Same(f.raised)
		ofJob, until := j.is(f.job), root.last
		if f.Kind == Serve { // belongs to no job, and its controller notices ends only by health checks
			ofJob, until = root == end && j.Start > 0 && f.first >= j.Start && !b.ofEarlierJob(f, j), root.last+atTheEnd
		}
		if f == root || f.jobEnd || f.intended || f.unrecovered == 0 || !ofJob || f.first >= until ||
			end.dependsOn(f, 0) || f.dependsOn(root, 0) || f.hung() || f.Kind == ActorStart ||
			f.Kind == Data || f.Kind == Train || !lacked && !isNear || f.raised.Same(root.raised) {
			continue
		}
		near[f] = isNear
		if (first == nil || cmp.Or(cmp.Compare(rank(f), rank(first)), cmp.Compare(f.first, first.first)) < 0) &&
			(!b.succeededLater(f) || f == end.repaired) {
			first = f
		}
	}
	if first == nil {
		return nil
	}
	return first.root()
}

// ofEarlierJob reports whether a finding is about a job that had ended before another one began.
func (b *builder) ofEarlierJob(f *finding, later *job) bool {
	return slices.ContainsFunc(f.jobs, func(id rayid.Job) bool {
		j := b.jobOfID(id)
		return j != nil && j.End != 0 && j.End <= later.Start
	})
}

// lacked reports whether the root of a job's end only says that something was not there, did not come in time, or
// failed as was told before, or is what the driver itself said.
func (f *finding) lacked(end *finding) bool {
	return f == end || f.Kind == Timeout || isTimeout(f.raised) ||
		f.raised.Type == "Empty" || f.raised.Type == "Full" ||
		f.raised.Type == "BrokenBarrierError" || ownBugs[f.raised.Type] ||
		general().MatchString(f.raised.Type) && tellsOfOthers(f.raised, f.raised.Message) ||
		emptyHanded().MatchString(f.raised.Message) ||
		toldElsewhere().MatchString(f.raised.String())
}

// hung reports whether the finding is about a call that did not end, or about a wait for one.
func (f *finding) hung() bool {
	return f.Kind == Timeout && (f.raised.Type == "GetTimeoutError" || f.root().raised.Type == "")
}

// actor returns the class of the actor of whose method the finding tells first; "" if it tells of none.
func (f *finding) actor() string {
	if len(f.names) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(plain(f.names[0]), " (") // the actor's own name
	class, _, _ := strings.Cut(name, ".")
	return class
}

// misses reports whether a task found nothing of what another one should have brought, as its name says: "no rates to
// revalue with" and fetch_rates. The driver may have given it something else instead.
func (f *finding) misses(other *finding) bool {
	m := hasNone().FindStringSubmatch(f.raised.Message)
	return m != nil && f.Kind == TaskFailed && other.Kind == TaskFailed && len(other.names) > 0 &&
		slices.Contains(strings.FieldsFunc(other.names[0], func(r rune) bool { return r == '_' || r == '.' }), m[1])
}

// replicaIn reports whether the finding is about a replica of Serve, and a text names its deployment in the way of
// Serve's controller.
func (f *finding) replicaIn(text string) bool {
	return slices.ContainsFunc(f.names, func(name string) bool {
		class, is := strings.CutPrefix(name, "actor "+replicaClass)
		app, deployment, _ := strings.Cut(class, ":")
		deployment, _, _ = strings.Cut(deployment, " ")
		return is && (strings.Contains(text, "Deployment '"+deployment+"' in application '"+app+"'") ||
			strings.Contains(text, "Deployment(name='"+deployment+"', app='"+app+"')"))
	})
}

// linkCauses links a failed job to what made it fail: to findings with the exception that its driver raised. If there
// are none, it links the job to findings about what the driver's log names.
func (b *builder) linkCauses(f *finding, j *job, text string) {
	mine := func(other *finding) bool {
		return other != f && !other.jobEnd && other.unrecovered > 0 && (j.is(other.job) || other.job.Nil()) &&
			!j.beganAfter(other)
	}
	for _, other := range b.all {
		switch {
		case !mine(other):
		case f.raised.Same(other.raised):
			f.causedBy(other)
		case other.cutIn(text):
			f.causedBy(other)
			other.Title = strings.Replace(other.Title, other.raised.String(), f.raised.String(), 1)
			other.raised = f.raised
			b.linkException(other, text) // what the cut message did not tell
		}
	}
	if len(f.because) > 0 {
		return
	}
	for _, other := range b.all {
		if slices.Contains(other.names, supervisor+j.SubmissionID) {
			f.causedBy(other) // the actor that starts the driver failed
		}
	}
	if b.linkException(f, text); len(f.because) > 0 {
		return
	}
	for _, other := range b.all {
		if !mine(other) || other.intended {
			continue
		}
		if other.raised.Message == "" && ownBugs[f.raised.Type] {
			continue // only the code in the traceback's frames names it
		}
		for _, name := range other.names {
			if len(name) > 3 && mentions(text, name) && strings.Contains(text, other.raised.Message) {
				f.causedBy(other)
			}
		}
	}
}

// cutIn reports whether Ray kept only the end of the finding's message, and a text contains that end. Then the text has
// more of the message.
func (f *finding) cutIn(text string) bool {
	const end = 200
	if f.raised.Type == "" && f.raised.Message == "" || len(f.Evidence) == 0 || len(f.Evidence[0].Text) < 2*end {
		return false
	}
	shown := f.Evidence[0].Text
	if f.raised.Type != "" && !output.LacksCause(shown) {
		return false
	}
	return strings.Contains(text, shown[len(shown)-end:])
}

// general holds exceptions that programs raise to say that they cannot go on, whatever the reason is, or that nothing
// came out of a queue or no more went into it.
var general = lazyregexp.New(`^(?:|RuntimeError|AssertionError|Exception|SystemExit|Empty|Full|\w*(?:Fail|Abort|Retr(?:y|ies)|Incomplete)\w*)$`)

// ownBugs holds exceptions that a program raises because of a mistake of its own. A driver that raised one of them did
// not end because tasks had failed.
var ownBugs = map[string]bool{
	"KeyError": true, "IndexError": true, "TypeError": true, "AttributeError": true, "NameError": true,
	"UnboundLocalError": true, "ZeroDivisionError": true,
	"ImportError": true, "ModuleNotFoundError": true, "SyntaxError": true, "IndentationError": true,
	"RecursionError": true, "NotImplementedError": true,
	"FileNotFoundError": true, "PermissionError": true, "IsADirectoryError": true, "NotADirectoryError": true,
	"UnicodeDecodeError": true, "MemoryError": true,
	"KeyboardInterrupt": true, "JSONDecodeError": true, "ConnectionError": true, "ConnectionRefusedError": true,
}

// aboutFailures matches what a program says about the failures of others: a summary, such as "3 of 8 shards failed" or
// "No best trial found". In an exception of a type of its own aboutThings are no such words: "Missing value: lr".
// hasNone matches what says that there is nothing of a kind: "no rates".
var (
	aboutFailures = lazyregexp.New(
		`(?i)\b(?:fail\w*|errors?|errored|unsuccessful|incomplete|aborted|crashed|died|dead|exited|killed|unhealthy|` +
			`not (?:all|enough|complete|placed|ready|available)|none of|no (?:best|trial|result|successful|worker|healthy)\w*|only \d+ (?:of|out of)|\d+ ?(?:of|/|out of) ?\d+|gave up|giving up)\b`)
	hasNone     = lazyregexp.New(`^[Nn]o (\w+)`)
	aboutThings = lazyregexp.New(`(?i)\b(?:lost|missing|broken|could not|couldn't|cannot|unable|(?:ended|returned|exit|status) (?:with |code |status )*-?\d+)\b`)
)

// tellsOfOthers reports whether what a program says as it raises an exception, or ends, is about failures of others.
// Words about an error in an exception that a library raises are about that error, unless they count.
func tellsOfOthers(raised output.Exception, said string) bool {
	if general().MatchString(raised.Type) {
		return aboutFailures().MatchString(said) || aboutThings().MatchString(said)
	}
	return aboutFailures().MatchString(said) && (!raised.Library || outOf().MatchString(said))
}

// linkFailures links a driver that ended with words of its own to what had failed in its job before, and was not
// repaired by a retry: the driver tells only that it could not go on. If what it raised is its own mistake, only the
// failure's evidence is shown.
func (b *builder) linkFailures(f *finding, j *job, e *driverEnd) {
	if ownBugs[e.raised.Type] {
		return
	}
	if j.id.Nil() || e.signal != "" || f.Kind == RuntimeEnv || f.Kind == Entrypoint {
		return
	}
	// words: the exception is one for any reason. summary: what it says is about failures of others. waited: the driver
	// gave up waiting.
	said, words := e.said(), general().MatchString(e.raised.Type)
	summary := tellsOfOthers(e.raised, said) && e.raised.Type != "OutOfMemoryError"
	waited := e.raised.Function == "" && (words || isTimeout(e.raised) || notReady().MatchString(said))
	for _, other := range b.all {
		ofServe := other.Kind == Serve && e.log != nil &&
			(len(b.jobs) == 1 || other.namedIn(output.OwnLines(e.log.text)))
		if other == f || other.jobEnd || other.intended || other.unrecovered == 0 || !j.is(other.job) && !ofServe ||
			other.Kind == Pod {
			continue
		}
		if (other.Kind == Data || other.Kind == Train) && other.raised.Type == "" {
			continue
		}
		// Soon after a failure an end without a reason of its own is its consequence; later only if the driver speaks
		// of failures.
		if summary || other.reportedIn(said) || other.Kind == Unschedulable && waited ||
			words && e.raised.Message == "" &&
				j.End-other.last <= atTheEnd {
			f.causedBy(other)
		}
	}
	// Of several failures those count that the driver's words name, or else those that it did not forgive.
	named := slices.DeleteFunc(slices.Clone(f.because),
		func(c *finding) bool { return !c.toldIn(said) || b.succeededLater(c) })
	if len(named) > 0 {
		f.because = named
		return
	}
	goneOn := func(c *finding) bool { return c.last < b.lastSubmitted(f.job) }
	b.dropForgiven(f, b.succeededLater, goneOn)
	if len(f.because) == 1 && f.Kind == JobFailed && strings.TrimSpace(said) != "" && !outOf().MatchString(said) {
		only := f.because[0]
		repaired := b.succeededLater(only)
		if repaired || only.Kind == TaskFailed && goneOn(only) && !(summary && words) {
			f.because, only.Severity = nil, Warning // what the driver said last counts
		}
		if repaired && summary {
			f.repaired = only
		}
	}
	b.dropForgiven(f, b.succeededNext)
}

// reportedIn reports whether words about a failure name what the finding is about: also a library may say them.
func (f *finding) reportedIn(said string) bool {
	return aboutFailures().MatchString(said) && f.toldIn(said)
}

// toldIn reports whether a text names the deployment that the finding is about, what failed, or what that raised.
func (f *finding) toldIn(text string) bool {
	return f.namedIn(text) || !general().MatchString(f.raised.Type) && mentions(text, f.raised.Type) ||
		slices.ContainsFunc(f.names, func(name string) bool { return len(name) > 3 && mentions(text, name) })
}

// linkTasks links tasks to those that they had started and that failed before: if they raised the same exception, or
// words of their own about it, as drivers do.
func (b *builder) linkTasks() {
	for _, id := range slices.Sorted(maps.Keys(b.failures)) {
		child, parent := b.failures[id].finding, b.failures[b.failures[id].parent].finding
		switch {
		case parent == nil || parent == child:
		case parent.Kind == child.Kind && parent.raised.Same(child.raised),
			slices.Contains(failuresBehind(parent.raised, ""), child.Kind),
			parent.Kind == TaskFailed && child.unrecovered > 0 && !child.intended && !ownBugs[parent.raised.Type] &&
				(general().MatchString(parent.raised.Type) || tellsOfOthers(parent.raised, parent.raised.Message) ||
					child.reportedIn(parent.raised.Message)) &&
				parent.last-child.last <= atTheEnd:
			parent.causedBy(child)
		}
	}
	b.tellLeftByTasks()
}

// linkJobs links jobs whose last words name another submission, which failed while they ran, as they may have started
// it, to the failure of that one.
func (b *builder) linkJobs() {
	for _, f := range b.all {
		if f.Kind != JobFailed || len(f.because) > 0 || !general().MatchString(f.raised.Type) {
			continue
		}
		i := slices.IndexFunc(b.jobs, func(j job) bool { return j.SubmissionID == f.SubmissionID && j.id == f.job })
		if i < 0 {
			continue
		}
		said := strings.TrimPrefix(f.Title, "Job "+f.SubmissionID) + " " + f.printed
		for _, other := range b.all {
			if other.jobEnd && !other.intended && other.SubmissionID != f.SubmissionID && other.last <= f.last &&
				other.last >= b.jobs[i].Start && namesJob(said, other.SubmissionID) {
				f.causedBy(other.root())
			}
		}
	}
}

// namesJob reports whether a text names a submission: an ID without a digit may be any word, and has to be quoted, or
// said to be a job or to have failed.
func namesJob(text, id string) bool {
	names := []string{"job " + id, "Job " + id, "submission " + id, "Submission " + id, "'" + id + "'", `"` + id + `"`,
		id + ": FAILED"}
	if strings.ContainsAny(id, "0123456789") || strings.HasPrefix(id, "raysubmit_") {
		names = []string{id}
	}
	return len(id) > 3 && slices.ContainsFunc(names, func(name string) bool { return mentions(text, name) })
}

// dropForgiven leaves out the causes of a driver's end that did not matter in the end, if there are others. forgiven
// say of a cause whether it did not, one after the other.
func (b *builder) dropForgiven(f *finding, forgiven ...func(*finding) bool) {
	for _, is := range forgiven {
		final := slices.DeleteFunc(slices.Clone(f.because), is)
		if len(final) == 0 {
			continue
		}
		for _, c := range f.because {
			if !slices.Contains(final, c) {
				c.Severity = Warning
			}
		}
		f.because = final
	}
}

// lastSubmitted returns when a driver last submitted a task, a call or an actor, as far as its first maxChildren show,
// Unix ns.
func (b *builder) lastSubmitted(driver rayid.Job) (last int64) {
	if last, known := b.submitted[driver]; known || driver.Nil() || len(b.submitted) >= maxFindings {
		return last
	}
	for _, a := range b.attempts("parent_task_id", strings.Repeat("f", 40)+driver.String(), maxChildren, b.r.At) {
		if a.row.Attempt() == 0 {
			last = max(last, firstState(a.row))
		}
	}
	b.submitted[driver] = last
	return last
}

// succeededLater reports whether a task of a function that had failed was submitted after the last failure and
// succeeded.
func (b *builder) succeededLater(f *finding) bool {
	return slices.ContainsFunc(b.triedAfter(f), attempt.finished)
}

// succeededNext reports whether the first task of the function did that was submitted after the last failure.
func (b *builder) succeededNext(f *finding) bool {
	later := b.triedAfter(f)
	return len(later) > 0 && slices.MinFunc(later, func(x, y attempt) int {
		return cmp.Compare(firstState(x.row), firstState(y.row))
	}).finished()
}

// triedAfter returns the tasks of a function that had failed that were submitted after the last failure.
func (b *builder) triedAfter(f *finding) (later []attempt) {
	if f.Kind != TaskFailed && f.Kind != WorkerDied {
		return nil
	}
	for _, name := range f.names {
		for _, a := range b.attempts("name", name, maxChildren, b.r.At) {
			if callerOf(a.row) == f.job && firstState(a.row) > f.last {
				later = append(later, a)
			}
		}
	}
	return later
}

func (a attempt) finished() bool { return a.state == tasktable.StateFinished }

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

// processFailed matches exceptions that only say that a process failed, and toldAbove messages that say so. The process
// may have written the reason to the same log.
const (
	processFailed = `^(?:CalledProcessError|ChildFailedError|ProcessExitedException|BrokenProcessPool)\b`
	toldAbove     = `(?i)\bsee\b[^.\n]{0,40}\b(?:above|root cause)\b`
)

var (
	ofProcesses = lazyregexp.New(processFailed)
	seeAbove    = lazyregexp.New(toldAbove)
)

// toldElsewhere matches what programs say of a failure that was told before, or of which another process told, as that
// one is gone: its connection was closed, or a collective operation came to no end. Of a column that Ray Data pickled,
// as its values are of several types, the worker that made it said so.
var toldElsewhere = lazyregexp.New(processFailed + `|` + toldAbove + `|\babove\b[^.\n]{0,20}\broot cause\b|\bpreviously failed\b|` +
	`broken ?pipe|(?:closed|reset) by (?:remote )?peer|ncclRemoteError|gloo/transport|Dist(?:Backend|Network|Store)Error|` +
	`collective operation timeout|timed out waiting|ArrowPythonObject|` +
	`\b(?:sub)?(?:process(?:es)?|worker|child)\b[^.\n]{0,30}\b(?:exited|died|ended|terminated|crashed)\b`)
