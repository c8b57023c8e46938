package findings

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// beforeThat is between how a job ended, in a title, and what had failed in it before.
const beforeThat = "; before that "

// addEarlierFailures adds to the title of what ended a job what had failed in the job before and was not repaired:
// whoever waited in vain, or lacked something, often lacked what this had left out. Nothing stored says so for sure, so
// the title tells both.
func (b *builder) addEarlierFailures() {
	for _, end := range b.all {
		if !end.jobEnd || end.intended || end.Kind == RuntimeEnv {
			continue
		}
		root := end.root()
		if strings.Contains(root.Title, beforeThat) {
			continue
		}
		if cut := b.requestCut(end, root); cut != "" {
			root.tellEarlier(cut)
			continue
		}
		earlier := ""
		if end.Kind == Entrypoint { // nothing ran yet that could have failed, but what should have brought the script
			earlier = end.earlierError
		} else if before := b.earlierFailure(end, root); before != nil {
			earlier = before.Title
			for _, e := range before.Evidence[:min(len(before.Evidence), 1)] {
				root.addEvidence(e)
			}
		} else if root.mayFollowOthers(end) {
			earlier = cmp.Or(b.applicationDeleted(end, root), b.printedInJob(end, root))
			if earlier == "" {
				earlier = b.lostActor(end, root)
			}
		}
		if earlier != "" {
			root.tellEarlier(earlier)
		}
	}
}

// tellEarlier adds to a title what had failed before.
func (f *finding) tellEarlier(earlier string) {
	earlier = beforeThat + output.Clip(earlier, output.MaxTitle)
	f.Title = output.Clip(f.Title, 2*output.MaxTitle-len(earlier))
	f.goOn(earlier)
}

// earlierFailure returns the first failure in a job before the root of the job's end, of which it is neither a cause
// nor a consequence; nil if there is none. What has to do with the root comes before others, and what failed after the
// driver had submitted its last task before that after which the driver went on. If the root tells why it failed, only
// what has to do with it counts.
func (b *builder) earlierFailure(end, root *finding) *finding {
	j := b.jobOfID(end.job)
	if j == nil {
		return nil
	}
	children := map[*finding]bool{} // of tasks that a task of the root had called
	for _, failed := range b.failures {
		if b.failures[failed.parent].finding == root {
			children[failed.finding] = true
		}
	}
	related := func(f *finding) bool {
		return children[f] || root.actor() != "" && f.actor() == root.actor() || root.misses(f) ||
			end.handled.Same(f.raised)
	}
	rank := func(f *finding) int {
		switch {
		case related(f):
			return 0
		case b.goneOnAfter(f, end.job):
			return 2
		}
		return 1
	}
	mayFollow := root.mayFollowOthers(end)
	var failures []*finding
	before := func(f *finding) bool { return b.failedBefore(j, f, end, root) }
	for _, f := range b.all {
		if before(f) && (mayFollow || related(f)) {
			failures = append(failures, f)
		}
	}
	slices.SortStableFunc(failures, func(x, y *finding) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.first, y.first))
	})
	for _, f := range failures {
		if f == end.repaired || !b.succeededLater(f) {
			return b.lowestBelow(f, before).root()
		}
	}
	return nil
}

// lowestBelow returns the failure with which a chain of failures that count began: each was of a task that the next
// one's had called, and came before it. A function's own exception mostly hides that of what it called.
func (b *builder) lowestBelow(f *finding, counts func(*finding) bool) *finding {
	const maxLayers = 16
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

// failedBefore reports whether a finding is about another failure in the job than the one that ended it, and began
// before that one's root was over.
func (b *builder) failedBefore(j *job, f, end, root *finding) bool {
	ofJob, until := j.is(f.job), root.last
	if f.Kind == Serve { // belongs to no job, and its controller notices ends only by health checks
		ofJob = root == end && j.Start > 0 && f.first >= j.Start && !b.ofEarlierJob(f, j)
		until = root.last + atTheEnd
	}
	switch {
	case !ofJob || f.first >= until || !f.unrepaired():
		return false
	case f == root || end.dependsOn(f, 0) || f.dependsOn(root, 0) || f.raised.Same(root.raised):
		return false // it is told already
	case f.hung() || f.Kind == ActorStart || f.Kind == Data || f.Kind == Train:
		return false // it did not come to an end, or only repeats what its tasks raised
	}
	return true
}

// ofEarlierJob reports whether a finding is about a job that had ended before another one began.
func (b *builder) ofEarlierJob(f *finding, later *job) bool {
	return slices.ContainsFunc(f.jobs, func(id rayid.Job) bool {
		j := b.jobOfID(id)
		return j != nil && j.End != 0 && j.End <= later.Start
	})
}

// mayFollowOthers reports whether the root of a job's end may have failed because of something else that failed before:
// it lacked that, or it is what the driver itself said.
func (f *finding) mayFollowOthers(end *finding) bool { return f == end || f.isSymptom() }

// isSymptom reports whether an exception only says that something was not there, did not come in time, or failed as was
// told before.
func (f *finding) isSymptom() bool {
	raised := f.raised
	notInTime := f.Kind == Timeout || isTimeout(raised) || raised.Type == "Empty" || raised.Type == "Full" ||
		raised.Type == "BrokenBarrierError"
	notThere := ownBugs[raised.Type] || emptyHanded().MatchString(raised.Message) ||
		notLetIn().MatchString(raised.Message)
	toldBefore := general().MatchString(raised.Type) && tellsOfOthers(raised, raised.Message) ||
		wordless(raised) || toldElsewhere().MatchString(raised.String())
	return notInTime || notThere || toldBefore
}

// misses reports whether a task found nothing of what another one should have brought, as its name says: "no rates to
// revalue with" and fetch_rates. The driver may have given it something else instead.
func (f *finding) misses(other *finding) bool {
	m := hasNone().FindStringSubmatch(f.raised.Message)
	return m != nil && f.Kind == TaskFailed && other.Kind == TaskFailed && len(other.names) > 0 &&
		slices.Contains(strings.FieldsFunc(other.names[0], func(r rune) bool { return r == '_' || r == '.' }), m[1])
}

// lostActor returns what had failed elsewhere that a job may have needed whose end nothing in it explains: how a
// detached actor of another job had ended, or an actor or task of its own that somebody killed or cancelled shortly
// before, if the job ended with words of its own; or else, also if it lacked something, what had failed in a job whose
// actors its driver had called; "" if nothing had.
func (b *builder) lostActor(end, root *finding) (how string) {
	ownWords := general().MatchString(end.raised.Type)
	if root != end || !ownWords && !end.isSymptom() {
		return ""
	}
	called := sync.OnceValue(func() map[rayid.Job]bool { return b.calledJobs(end.job) })
	for _, lost := range b.all {
		shared := lost.detached && lost.job != end.job
		killed := lost.intended && (lost.Kind == ActorDied || lost.Kind == Cancelled) && lost.job == end.job &&
			end.last-lost.last <= atTheEnd
		switch {
		case lost.unrecovered == 0 || lost.last >= end.last:
		case ownWords && (shared || killed):
			how = lost.Title
		case how == "" && lost.job != end.job && lost.unrepaired() && b.sharing()[lost.job] && called()[lost.job] &&
			!b.succeededLater(lost):
			how = "in another job " + lost.root().Title
		}
	}
	return how
}

// readSharing returns the jobs that made actors with names: only these can be found from other jobs.
func (b *builder) readSharing() map[rayid.Job]bool {
	sharing := map[rayid.Job]bool{}
	for i := range b.s.Actors {
		if a := &b.s.Actors[i]; a.Name != "" {
			sharing[a.Job] = true
		}
	}
	return sharing
}

// calledJobs returns the other jobs that had made the actors that a driver called.
func (b *builder) calledJobs(driver rayid.Job) map[rayid.Job]bool {
	made := map[rayid.Job]bool{}
	for _, a := range b.submittedBy(driver) {
		if actor := b.s.Actor(actorOf(a.row)); actor != nil && actor.Job != driver {
			made[actor.Job] = true
		}
	}
	return made
}

// printedInJob returns what a job had printed about an error before it ended: the last error of one of its workers,
// with the worker's name, or else of the entrypoint itself, if the job ended for no other reason; "" if there is none
// that the root of the end does not tell. If the root waited, also a worker's line counts that tells of waits. If there
// is none of that, a plain line counts that names a thing that the root names, or, if the root lacked a key, says that
// something was not done; or any if it found nothing, as what gives nothing often says why in words that are no error.
func (b *builder) printedInJob(end, root *finding) string {
	byEntrypoint := ""
	if root == end {
		byEntrypoint = end.earlierError
	}
	j := b.jobOfEnd(end)
	if j == nil {
		return byEntrypoint
	}
	log := b.driverLog(j)
	if log == nil {
		return byEntrypoint
	}
	hasNothing := root.silent || foundNothing(root.raised)
	orElse := []func(line string) bool{
		func(line string) bool {
			waited := notReady().MatchString(root.Title) || strings.HasSuffix(root.Title, "Timeout")
			return waited && output.AboutWaits(line)
		},
		func(line string) bool { return output.Plain(line) && alsoNames(root.raised, line) },
		func(line string) bool {
			lacks := (root.raised.Type == "KeyError" || root.lacksSome()) && notDone().MatchString(line)
			return output.Plain(line) && (lacks || hasNothing || wordless(root.raised))
		},
	}
	isRays := func(class string) bool { return b.isRays(class, j.id) }
	who, said, nth := output.SaidByWorkers(log.text, root.Title, isRays, orElse...)
	said = around(who+" printed: ", said, "")
	ofRay := around("Ray printed: ", output.LastWaitOfRay(log.text), "")
	switch {
	case said != "" && nth == 0:
		return said
	case hasNothing && ofRay != "":
		return ofRay
	case output.OwnLines(log.text) == log.text: // it has no line of a worker, as with log_to_driver=False
		return cmp.Or(b.printedByWorkers(j, root), byEntrypoint, ofRay)
	}
	return cmp.Or(byEntrypoint, said, ofRay)
}

// lacksSome reports whether a failure is that there are fewer of something than expected, in words of the program's
// own: they have two numbers that differ.
func (f *finding) lacksSome() bool {
	said := f.raised.Message
	if f.raised.Type == "" {
		_, said, _ = strings.Cut(f.Title, ": ")
	}
	numbers := number().FindAllString(said, 3)
	return general().MatchString(f.raised.Type) && len(numbers) == 2 && numbers[0] != numbers[1] &&
		!strings.Contains(numbers[0]+numbers[1], ".")
}

var number = lazyregexp.New(`\b\d[\d,]*(?:\.\d+)?\b`)

// notDone matches what says that something was not done, left out or replaced, or was too much.
var notDone = lazyregexp.New(`(?i)\b(?:not?|without|only|instead|left out|f[ae]ll\w*|too|exceed\w*|(?:long|larg|bigg|high)er than)\b|n't\b|\b(?:skip|ignor|dropp|leav|fallback|omit|discard|empty|default)\w*`)

// printedByWorkers returns the error that a worker of a job printed last, as its own log has it; "" if there is none
// that the root does not tell.
func (b *builder) printedByWorkers(j *job, root *finding) string {
	b.sortLogs()
	for _, file := range b.printed[j.id] {
		worker, _ := workerOf(file.Path)
		said := output.LastError(b.readOf(worker, file).text)
		if said == "" || strings.Contains(root.Title, said) {
			continue
		}
		if a := b.actorIn(worker); a == nil || !b.isRays(a.Class, a.Job) {
			return "a worker printed: " + said
		}
	}
	return ""
}
