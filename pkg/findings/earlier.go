package findings

import (
	"cmp"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// beforeThat is between how a job ended, in a title, and what had failed in it before.
const beforeThat = "; before that "

// addEarlierFailures adds to the title of what ended a job what had failed in the job before and was not repaired. A
// program that waited in vain, or lacked something, often lacked what the earlier failure had left out. Nothing stored
// says so for sure, so the title tells both.
func (b *builder) addEarlierFailures() {
	for _, end := range b.findings {
		root := end.rootCause()
		if end.ended == nil || end.intended || end.Kind == RuntimeEnv || strings.Contains(root.Title, beforeThat) {
			continue
		}
		// each says, for the title of the root, what came before it; "" if it knows of nothing. end is the finding
		// about the job's end, root the one where its causes begin
		sources := []func(end, root *finding) string{b.requestCut, b.earlierFailure, b.tooFewReplicas}
		switch {
		case end.Kind == Entrypoint: // nothing ran yet that could have failed, but what should have brought the script
			sources = []func(end, root *finding) string{func(end, _ *finding) string { return end.earlierError }}
		case root.mayFollowOthers(end):
			sources = append([]func(end, root *finding) string{b.saidInNamedLog}, sources...)
			sources = append(sources, b.requestFailed, b.applicationDeleted, b.notMade, b.printedInJob,
				b.failureElsewhere, b.cancelledUnseen)
		case connection().MatchString(root.raised.String()), lateAnswer().MatchString(root.raised.String()):
			// who was at the other end may have said why
			sources = append(sources, b.printedInJob)
		case isGeneric(root.raised) && root.raised.Type != "" && (root.Kind == TaskFailed || root.Kind == ActorDied):
			sources = append(sources, b.printedByItself)
		}
		for _, before := range append(sources, b.warnedBefore) {
			if said := before(end, root); said != "" {
				root.tellEarlier(said)
				break
			}
		}
	}
}

// printedByItself returns what printedInJob does, if the function or actor of the root printed it: it may have logged
// an exception, and then raised another one that does not say why.
func (b *builder) printedByItself(end, root *finding) string {
	said := b.printedInJob(end, root)
	who, _, _ := strings.Cut(said, " printed: ")
	if who != root.actorClass() && !slices.Contains(root.names, who) {
		return ""
	}
	return said
}

var (
	// filePath matches a path with a folder; if it is relative, only in quotes: "input/output error". A date such as
	// 2026/11/22 is none.
	filePath = lazyregexp.New(`\B'[^\s'][^'\n]*/[^'\n]+'|(?:\b\w+:/|~|\B)(?:/[\w.=@%+-]+){2,}`)
	// didNotCome matches what programs say of a file that is not there (yet).
	didNotCome = lazyregexp.New(`(?i)(?:\bnot?|n't|never) (?:yet )?(?:there|found|exist|appear|ready|available|come|` +
		`arrive|such)|\bmissing\b`)
	// inFile matches where something is not that should be in a file: the file is there.
	inFile = lazyregexp.New(`\b(?:in|of|from) (?:\w+ )?'?[^\s']*/[^\s']*\.\w+`)
)

// maxMakers is how many jobs' logs are asked for a file that a job lacked.
const maxMakers = 20

// notMade returns, for the title of root, which other job had failed before that knew of the file that root lacks, as
// that job's own log names it or its folder; "" if none had. Who lacked the same file should not have made it, and a
// file's short name may be in any log.
func (b *builder) notMade(end, root *finding) string {
	said := root.raised.Message
	file := strings.Trim(filePath().FindString(said), "'")
	if file == "" || root.raised.Type != "FileNotFoundError" &&
		(!didNotCome().MatchString(said) || inFile().MatchString(said)) {
		return ""
	}
	folder, asked := folderOf(file), 0
	for _, other := range slices.Backward(b.findings) {
		said := other.rootCause().raised.Message
		lacksItToo := strings.Contains(said, folder) && !ofMachine().MatchString(said)
		if other.ended == nil || other.ended == end.ended || other.intended || other.last >= root.last || lacksItToo {
			continue
		}
		if asked++; asked > maxMakers {
			break
		}
		own := b.driverLog(other.ended).ownLines()
		if strings.Contains(own, folder) && (namesFile(own, file) || alsoNames(root.raised, own)) {
			return fmt.Sprintf("job %s, which names it, failed: %s", other.ended.name(), other.rootCause().Title)
		}
	}
	return ""
}

// warnedBefore returns what Python had warned of in a job's log that explains the exception of the root of the job's
// end, such as a driver of GPUs that is too old; "" if nothing did.
func (b *builder) warnedBefore(end, root *finding) string {
	if root.raised.Type == "" {
		return ""
	}
	return encloseIfAny("Python warned: ", output.WarningAbout(b.driverLog(end.ended).text, root.raised), "")
}

// tellEarlier adds to a title, behind beforeThat, what had failed before; nothing for "".
func (f *finding) tellEarlier(earlier string) {
	if earlier == "" {
		return
	}
	earlier = beforeThat + output.Clip(earlier, output.MaxTitle)
	f.Title = output.Clip(f.Title, 2*output.MaxTitle-len(earlier))
	f.appendTitle(earlier)
}

// earlierFailure returns the title of a failure in a job that came before the root of the job's end and is neither its
// cause nor its consequence, and adds its first evidence to the root; "" if there is none. Failures that have to do
// with the root are preferred, then those after which the driver submitted nothing more, then the others; of each kind
// the first. If the root explains itself (see mayFollowOthers), only failures that have to do with it count.
func (b *builder) earlierFailure(end, root *finding) string {
	j := b.jobOfID(end.job)
	if j == nil {
		return ""
	}
	calledByRoot := map[*finding]bool{} // failures of tasks that a task of the root had called
	for _, failed := range b.failures {
		if b.failures[failed.parent].finding == root {
			calledByRoot[failed.finding] = true
		}
	}
	isRelated := func(f *finding) bool {
		sameActorClass := root.actorClass() != "" && f.actorClass() == root.actorClass()
		return calledByRoot[f] || sameActorClass || root.speaksOf(f) || root.lostPeer(f) ||
			end.handled.Same(f.raised)
	}
	const related, driverStopped, driverWentOn = 0, 1, 2 // ranks, the preferred first
	rank := func(f *finding) int {
		switch {
		case isRelated(f):
			return related
		case b.driverWentOnAfter(f, end.job):
			return driverWentOn
		}
		return driverStopped
	}
	mayFollow := root.mayFollowOthers(end)
	var candidates []*finding
	cameBefore := func(f *finding) bool { return b.failedBefore(j, f, end, root) }
	for _, f := range b.findings {
		if cameBefore(f) && (mayFollow || isRelated(f)) {
			candidates = append(candidates, f)
		}
	}
	slices.SortStableFunc(candidates, func(x, y *finding) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.first, y.first))
	})
	for _, f := range candidates {
		// What succeeded later is repaired, unless the driver's exception is about it.
		if f == end.repaired || f.lostState(root) || !b.succeededLater(f) {
			before := b.beginOfCallChain(f, cameBefore).rootCause()
			for _, e := range before.Evidence[:min(len(before.Evidence), 1)] {
				root.addEvidence(e)
			}
			return before.Title
		}
	}
	return ""
}

// beginOfCallChain returns the failure with which a chain of failures that ends with f began. Each failure in the chain
// is of a task that the next one's task had called, came before it, by atTheEnd at most, and is one for which counts
// returns true. The lowest one says most, because a function's own exception mostly hides that of what it called.
func (b *builder) beginOfCallChain(f *finding, counts func(*finding) bool) *finding {
	const maxLayers = 16 // a finding counts failures of many tasks, so findings may call each other in a circle
	for range maxLayers {
		var below *finding
		for _, failed := range b.failures {
			c := failed.finding
			if b.failures[failed.parent].finding == f && c != f && c.Kind == TaskFailed && counts(c) &&
				c.first <= f.first && f.first-c.last <= atTheEnd &&
				(below == nil || cmp.Or(cmp.Compare(c.first, below.first), cmp.Compare(c.key, below.key)) < 0) {
				below = c
			}
		}
		if below == nil {
			return f
		}
		f = below
	}
	return f
}

// failedBefore reports whether f is a failure in a job, other than the job's end and its root, that began before the
// root was over, and that no title tells yet.
func (b *builder) failedBefore(j *job, f, end, root *finding) bool {
	// until is the time (Unix ns) before which f must have begun
	ofJob, until := j.hasDriver(f.job), root.last
	named := (ofJob || f.Kind == Serve) && root.speaksOf(f)
	if f.Kind == Serve { // an application belongs to no job, and its controller notices ends only by health checks
		until = root.last + atTheEnd
		mayServe := func() bool { return end.Kind != Unended || f.servesJob(j, b.driverLog(j), len(b.jobs) == 1) }
		ofJob = j.Start > 0 && f.first >= j.Start && f.first < until && !b.ofEarlierJob(f, j) &&
			(named || serverError().MatchString(root.raised.Message) || root == end && mayServe()) &&
			!b.deployedAfter(f, root.last)
	} else if named { // the clock of its node may be ahead
		until = root.last + nodeNoticedLate
	}
	switch {
	case !ofJob || f.first >= until || !b.isUnrepaired(f) && !(named && f.Kind == Cancelled) && !f.lostState(root):
		return false
	case f == root || end.dependsOn(f) || f.dependsOn(root) || f.raised.Same(root.raised):
		return false // it is told already
	case f.Kind == Timeout && f.raised.Type == "" || f.Kind == ActorStart || f.Kind == Data || f.Kind == Train:
		return false // it did not come to an end, or only repeats what its tasks raised
	case !named && root.last-f.last > longBroken && b.driverWentOnAfter(f, end.job):
		return root.isSymptom() || root.raised.Type == "AssertionError" // what explains itself does not go back far
	}
	return true
}

// lostState reports whether a finding is about an actor that was restarted, so that it had lost what a failure lacks: a
// call of the same actor did not find it, or a check or a count of the driver.
func (f *finding) lostState(lacks *finding) bool {
	return f.Kind == ActorDied && f.recovered > 0 && (lacks.calls(f) && lacks.isSymptom() ||
		lacks.ended != nil && (lacks.raised.Type == "AssertionError" || lacks.gotTooFew()))
}

// calls reports whether a finding is about calls of an actor that died. The ID of a call ends with that of its actor.
// Of more than a finding names any may be.
func (f *finding) calls(died *finding) bool {
	ofDead := func(call Entity) bool {
		return slices.ContainsFunc(died.Entities, func(a Entity) bool { return strings.HasSuffix(call.ID, a.ID) })
	}
	known := len(f.Entities) > 0 && len(died.Entities) > 0 && max(len(f.Entities), len(died.Entities)) < maxEntities
	return f.actorClass() == died.actorClass() && (!known || slices.ContainsFunc(f.Entities, ofDead))
}

// deployedAfter reports whether a finding is about a deployment of Serve of which all replicas that are stored were
// made after a time (Unix ns).
func (b *builder) deployedAfter(f *finding, at int64) bool {
	known := false
	for i := range b.session.Actors {
		a := &b.session.Actors[i]
		if !slices.Contains(f.names, a.Class) {
			continue
		}
		if _, existed := moment.ActorAt(a, at); existed {
			return false
		}
		known = true
	}
	return known
}

// ofEarlierJob reports whether a finding is about a job that had ended before another one, later, began.
func (b *builder) ofEarlierJob(f *finding, later *job) bool {
	for id := range f.jobs {
		if j := b.jobOfID(id); j != nil && j.End != 0 && j.End <= later.Start {
			return true
		}
	}
	return false
}

// mayFollowOthers reports whether the root of a job's end does not explain itself, so that something else that failed
// before may be the reason: the root is only a symptom, or the driver's own end, but no call's exception of a telling
// type.
func (f *finding) mayFollowOthers(end *finding) bool {
	ownEnd := f == end && (f.raised.Function == "" || isGeneric(f.raised)) && !ofMachine().MatchString(f.raised.Message)
	return ownEnd || f.isSymptom()
}

// ofMachine matches what the system says if a machine or a disk has no room, or did not work: ENOMEM, EIO, ENFILE,
// EMFILE, ENOSPC, EROFS, ESTALE, EDQUOT.
var ofMachine = lazyregexp.New(`^\[Errno (?:5|12|23|24|28|30|116|122)\]`)

// isSymptom reports whether an exception only says that something did not come in time, was not there, or had failed as
// was told before.
func (f *finding) isSymptom() bool {
	raised := f.raised
	notInTime := f.Kind == Timeout || isTimeout(raised) || raised.Type == "Empty" || raised.Type == "Full" ||
		raised.Type == "BrokenBarrierError"
	notThere := ownBugs[raised.Type] || foundNothing(raised) ||
		notLetIn().MatchString(raised.Message)
	toldBefore := inOwnWords(raised) && tellsOfOthers(raised, raised.Message) ||
		wordless(raised) || toldElsewhere().MatchString(raised.String()) || output.OnlyFailed(raised.Message)
	ofPeer := raised.Type == "" && strings.Contains(f.Title, output.CollectiveTimeout) // another process did not come
	return notInTime || notThere || toldBefore || ofPeer
}

// lostPeer reports whether a failure is that a connection was refused or lost, and a process that had died in the
// minute before may have been at its other end.
func (f *finding) lostPeer(died *finding) bool {
	return (died.Kind == ActorDied || died.Kind == WorkerDied || died.Kind == OutOfMemory) &&
		f.last-died.last <= longBroken && connection().MatchString(f.raised.String())
}

// speaksOf reports whether a failure's own words name what another finding is about, or the thing that it should have
// brought. A mistake in code names types and variables.
func (f *finding) speaksOf(other *finding) bool {
	said := f.raised.Message
	return f != other && !ownBugs[f.raised.Type] && other.isNamedIn(said) || f.missesResultOf(other)
}

// missesResultOf reports whether a task found nothing of what another one should have brought, as the other one's name
// says: "no rates to revalue with" and fetch_rates. Then the other one may be the reason, even if the driver passed on
// something else in its place.
func (f *finding) missesResultOf(other *finding) bool {
	m := hasNone().FindStringSubmatch(f.raised.Message)
	return m != nil && f.Kind == TaskFailed && other.Kind == TaskFailed && len(other.names) > 0 &&
		slices.Contains(strings.FieldsFunc(other.names[0], func(r rune) bool { return r == '_' || r == '.' }), m[1])
}

// failureElsewhere returns the title of a failure outside of a job's own tasks that the job may have missed; "" if
// there is none. It is asked if nothing in the job explains the job's end, which is in words of the program's own or a
// symptom. The last of these counts: the end of a detached actor of another job, if the job's exception may have any
// reason, and of words of its own an actor or task that somebody killed or cancelled shortly before. Without them, the
// first failure of another job whose actors the driver had called.
func (b *builder) failureElsewhere(end, root *finding) (how string) {
	anyReason, ownWords := isGeneric(end.raised), inOwnWords(end.raised)
	if root != end || !ownWords && !end.isSymptom() {
		return ""
	}
	called := sync.OnceValue(func() []*entities.Actor { return b.actorsOfOthers(end.job, root) })
	for _, lost := range b.findings {
		shared := lost.detached && lost.job != end.job && !end.ended.beganAfter(lost)
		killed := lost.intended && (lost.Kind == ActorDied || lost.Kind == Cancelled) && lost.job == end.job &&
			end.last-lost.last <= atTheEnd
		switch {
		case lost.unrecovered == 0 || lost.last >= end.last:
		case anyReason && shared, ownWords && killed:
			how = lost.Title
		case how == "" && lost.job != end.job && lost.unrepaired() && b.jobsWithNamedActors()[lost.job] &&
			slices.ContainsFunc(called(), func(a *entities.Actor) bool { return a.Job == lost.job }) &&
			!b.succeededLater(lost):
			how = "in another job " + lost.rootCause().Title
		}
	}
	return how
}

// cancelledUnseen says which call of a driver was cancelled shortly before the driver ended with words of its own, as
// only the call's worker tells; "" if none was. To Ray a call that ray.cancel interrupted has finished, and the driver
// did not show the exception that it got.
func (b *builder) cancelledUnseen(end, root *finding) string {
	if root != end || !inOwnWords(end.raised) {
		return ""
	}
	for _, a := range b.submittedBy(end.job) {
		ended, trace := executionEnd(a.row)
		if a.finished() && end.last-ended <= atTheEnd && output.ExceptionOf(trace).Type == interrupted {
			end.addEntity(b.attemptEntity(a))
			return a.name() + " was cancelled"
		}
	}
	return ""
}

// actorsOfOthers returns the actors of other jobs that a driver called, or the tasks that a finding is about.
func (b *builder) actorsOfOthers(driver rayid.Job, f *finding) (called []*entities.Actor) {
	calls := b.submittedBy(driver)
	for _, e := range f.Entities {
		if e.Type == "task" {
			calls = append(calls, b.selectAttempts(b.moment.At, "parent_task_id", e.ID, maxChildren)...)
		}
	}
	for _, a := range calls {
		actor := b.session.Actor(actorIDOf(a.row))
		if actor != nil && actor.Job != driver && !b.runsForRay(actor.Class, actor.Job) &&
			!slices.Contains(called, actor) {
			called = append(called, actor)
		}
	}
	return called
}

// printedInJob returns what a job printed about another error before it ended, with the name of who printed it; "" if
// it printed nothing that the title of the root of its end does not tell. If the root explains itself (see
// mayFollowOthers), no error counts after which its worker went on. These count, the best first: if the root
// waited, a line of a worker that says why it could not begin; the last error of one of its workers; if the root found
// nothing, that of another job's actor that the driver had called, and what Ray printed about a wait; the entrypoint's
// own earlier error, if the driver's end is the root; and a line of a worker that is no error but may be about what the
// root lacked: one about a wait if the root waited, a plain one that names a thing that the root names, or a plain one
// that says that something was left out.
func (b *builder) printedInJob(end, root *finding) string {
	byEntrypoint := ""
	if root == end {
		byEntrypoint = end.earlierError
	}
	j := end.ended
	log := b.driverLog(j)
	trace, _ := output.LastTraceback(log.text)
	// Ray stores no events of the calls of Serve's handles, so only what a replica printed tells what it did.
	ofHandle := root == end && root.Kind == Timeout && strings.Contains(trace, "/ray/serve/handle.py")
	hasNothing := root.silent || foundNothing(root.raised) || ofHandle
	waited := notReady().MatchString(root.Title) || strings.HasSuffix(root.Title, "Timeout")
	saysWhyNotBegun := func(line string) bool { // "bind: address already in use"
		waits := waited || root.Kind == Timeout || toldElsewhere().MatchString(root.raised.String())
		return waits && output.NotBegun(line)
	}
	saysThatItWaits := func(line string) bool { return waited && output.AboutWaits(line) } // "waiting for rank 3"
	namesTheSame := func(line string) bool { return output.Plain(line) && alsoNames(root.raised, line) }
	saysWhatIsLeftOut := func(line string) bool { // "skipped 3 empty files"
		lacks := (root.raised.Type == "KeyError" || root.gotTooFew()) && notDone().MatchString(line)
		return output.Plain(line) && (lacks || hasNothing || wordless(root.raised))
	}
	printsForRay := func(class string) bool { return b.printsForRay(class, j.id) }
	who, said := "", ""
	isSure := false // an error, a warning of one, or a line for which one of the first two returns true
	for text := range b.linesOfWorkers(j, log) {
		whoElse, also, nth := output.SaidByWorkers(text, root.Title, printsForRay, !root.mayFollowOthers(end),
			saysWhyNotBegun, saysThatItWaits, namesTheSame, saysWhatIsLeftOut)
		isSure = also != "" && nth <= 1
		if isSure || said == "" {
			who, said = whoElse, also
		}
		if isSure {
			break
		}
	}
	byWorker := encloseIfAny(who+" printed: ", said, "")
	byOther := ""
	if !isSure && (hasNothing || root.raised.Type == "KeyError") {
		byOther = b.printedByOther(root, j.id)
	}
	// The autoscaler prints what another job asks for into the logs of all drivers.
	askedByOther := slices.ContainsFunc(b.findings, func(f *finding) bool {
		return f.Kind == Unschedulable && !f.job.Nil() && !j.hasDriver(f.job)
	})
	byRay := encloseIfAny("Ray printed: ", output.LastWaitOfRay(log.text, !askedByOther), "")
	switch {
	case byWorker != "" && isSure:
		return byWorker
	case byOther != "":
		return byOther
	case hasNothing && byRay != "":
		return byRay
	}
	return cmp.Or(byEntrypoint, byWorker, byRay)
}

// printedByOther returns the last error that another job's actor printed which a driver, or the root of its end, had
// called, and adds it to the root; "" if there is none. What that actor could not load, it does not have.
func (b *builder) printedByOther(root *finding, driver rayid.Job) string {
	for _, a := range b.actorsOfOthers(driver, root) {
		state, _ := moment.ActorAt(a, b.moment.At)
		for printed := range b.printedBy(state.Process().Worker) {
			if said := output.LastError(printed.text); said != "" {
				root.addEvidence(b.tailEvidence(printed, workerTail))
				return actorName(a) + " printed: " + said
			}
		}
	}
	return ""
}

// namedLog matches a log that a program's words name, and logOf whose log they mean: "rank 1 exited, check its log".
var namedLog = lazyregexp.New(`[\w./-]*[\w-]\.(?:log|err|out|txt)\b`)
var logOf = lazyregexp.New(`\b(rank|worker|shard|process) (\d+)\b.*\blogs?\b`)

// saidInNamedLog returns the last exception or error in a log to which the title of the root of a job's end refers, and
// adds it to the root's evidence; "" if the log is not stored or has none. Programs may keep logs beside Ray's.
func (b *builder) saidInNamedLog(end, root *finding) string {
	name, bare := namedLog().FindString(root.Title), strings.NewReplacer("_", "", "-", "")
	if m := logOf().FindStringSubmatch(root.Title); m != nil && name == "" {
		name = "*" + m[1] + m[2] + ".*" // "lm_rank_1.log"
	}
	if name == "" {
		return ""
	}
	name = bare.Replace(path.Base(name))
	for _, file := range b.logs.files(func(p string) bool {
		named, _ := path.Match(name, bare.Replace(path.Base(p)))
		return named
	}) {
		if file == b.driverLog(end.ended).file {
			continue
		}
		log := b.logs.read(file)
		trace, _ := output.LastTraceback(log.text)
		if said := cmp.Or(output.ExceptionOf(trace).String(), output.LastError(log.text)); said != "" {
			root.addEvidence(b.tailEvidence(log, driverTail))
			return path.Base(file.Path) + " has " + said
		}
	}
	return ""
}

// gotTooFew reports whether a failure is that there are fewer of something than expected: its message is in the
// program's own words and has two whole numbers that differ.
func (f *finding) gotTooFew() bool {
	said := f.raised.Message
	if f.raised.Type == "" {
		_, said, _ = strings.Cut(f.Title, ": ")
	}
	numbers := number().FindAllString(said, 3)
	return isGeneric(f.raised) && len(numbers) == 2 && numbers[0] != numbers[1] &&
		!strings.Contains(numbers[0]+numbers[1], ".")
}

var number = lazyregexp.New(`\b\d[\d,]*(?:\.\d+)?\b`)

// notDone matches what says that something was not done, left out or replaced, or was too much.
var notDone = lazyregexp.New(`(?i)\b(?:not?|without|only|instead|left out|f[ae]ll\w*|too|exceed\w*|` +
	`(?:long|larg|bigg|high)er than)\b|n't\b|\b(?:skip|ignor|dropp|leav|fallback|omit|discard|empty|default)\w*`)

// maxBegin is in how many bytes at a log's beginning Ray names the job: a module may print before.
const maxBegin = 1 << 10

// linesOfWorkers returns texts that have what workers of a job printed, each line behind Ray's mark: the driver's log,
// or, if that has no line of a worker, as with log_to_driver=False, the workers' own logs.
func (b *builder) linesOfWorkers(j *job, log *logText) iter.Seq[string] {
	return func(yield func(string) bool) {
		if output.OwnLines(log.text) != log.text {
			yield(log.text)
			return
		}
		b.groupLogs()
		ofJob, early := b.outputsByJob[j.id], b.outputsByJob[noJob]
		early = early[:min(len(early), maxOfKind)] // one for each CPU: they do not count as workers that were looked at
		for i, file := range slices.Concat(ofJob, early) {
			worker, _ := workerOfLog(file.Path)
			if a := b.actorIn(worker); a != nil && b.printsForRay(a.Class, a.Job) {
				continue
			}
			var printed string
			if i < len(ofJob) {
				printed = b.readWorkerLog(worker, file).text
			} else if printed = b.logs.read(file).text; !strings.Contains("\n"+printed[:min(len(printed), maxBegin)],
				"\n:job_id:"+j.id.String()+"\n") { // Ray's own line
				continue
			}
			if !yield(output.AsCopied(printed, "a worker")) {
				return
			}
		}
	}
}
