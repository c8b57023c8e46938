package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// readUnended finds the jobs that had not ended when the session did, and what each was doing or waiting for then. Of
// jobs that run it finds only the latter, for their summaries.
func (b *builder) readUnended() {
	for i := range b.jobs {
		j := &b.jobs[i]
		switch {
		case jobstatus.Ended(j.Status) || b.endFinding(j) != nil:
		case b.isOpen():
			j.undone = b.undoneOf(j, &logText{}, cmp.Or(b.moment.At, b.session.End))
			if env := j.undone.env; env != nil {
				env.Severity = Warning
			}
		default:
			b.jobUnended(j, b.driverLog(j))
		}
	}
}

// undone is what a job had not done when its session ended.
type undone struct {
	waits      []*finding // about what could not be scheduled or started
	broken     []*finding // about its processes that had died
	env        *finding   // about its runtime environment, which was still being made; or nil
	running    []attempt  // calls that ran, the longest first; constructors if nothing else is known
	pending    []attempt  // tasks that had not been scheduled when their driver ended
	queued     []attempt  // these, and all that had not been scheduled when the session ended
	unanswered []attempt  // calls that had been sent to their processes, and of which no answer came
}

// undoneOf returns what a job had not done when it or its session ended, at the time until (Unix ns). log is what its
// driver printed.
func (b *builder) undoneOf(j *job, log *logText, until int64) (u undone) {
	b.readSent()
	isCall := func(a attempt) bool { return !a.isConstructor() }
	u.running = innermostCalls(b.unendedOf(j, tasktable.StateRunning, isCall))
	u.pending = b.unendedOf(j, notScheduledYet, func(a attempt) bool { return a.abandoned && a.isTask() })
	u.queued = b.unendedOf(j, notScheduledYet, func(a attempt) bool { return !a.abandoned || a.isTask() })
	u.unanswered = b.unendedOf(j, sentToWorker, func(attempt) bool { return true })
	busy := len(u.running) > 0
	u.waits = b.waitsOf(j, log, busy)
	for _, w := range u.waits {
		for _, lacked := range u.waits {
			// A constructor waited for what was submitted after it began and found no resources.
			if w.Kind == ActorStart && (lacked.Kind == Starved || lacked.Kind == Unschedulable) &&
				lacked.first >= w.first {
				w.causedBy(lacked)
			}
		}
	}
	u.env = b.envMaking(j, log, until)
	if names := namesOf(u.queued); u.env != nil && len(names) > 0 {
		u.env.appendTitle("; it is what " + listNames(names) + " waited for")
	}
	idle := len(u.waits) == 0 && !busy && u.env == nil
	u.broken = b.brokenAtEnd(j, until, idle && !b.maybeServes(j, log)) // drivers of Serve stay and do nothing
	if idle && len(u.broken) == 0 {
		u.running = b.unendedOf(j, tasktable.StateRunning, attempt.isConstructor)
	}
	return u
}

// unfinished returns the calls that the job had not finished: those that ran, or without such calls those that had not
// been scheduled, or without these those that got no answer.
func (u *undone) unfinished() []attempt {
	if len(u.running) > 0 {
		return u.running
	}
	if len(u.pending) > 0 {
		return u.pending
	}
	return u.unanswered
}

// now says what a job that runs waits for; "" if that is not known.
func (b *builder) now(j *job) string {
	causes, calls := j.undone.causes(), j.undone.running
	if len(causes) > 0 {
		return causes[0].rootCause().Title
	}
	if len(calls) == 0 {
		calls = j.undone.unanswered
	}
	if len(calls) == 0 {
		return ""
	}
	inside := j.undone.startedByThese(calls, ", and in it for ")
	for _, f := range b.findings {
		if f.Kind == Starved && j.hasDriver(f.job) && len(f.names) > 0 && strings.HasSuffix(inside, " "+f.names[0]) {
			inside = "; in it " + f.Title
		}
	}
	return fmt.Sprintf("it has waited for %s since %s%s", listNames(namesOf(calls)), b.clock(calls[0].since), inside)
}

// showUndone adds to a finding the longest calls that ran and some without an answer, with what their workers printed
// last.
func (b *builder) showUndone(f *finding, u *undone) {
	running, unanswered := u.running[:min(len(u.running), maxEvidence/2)], u.unanswered[:min(len(u.unanswered), 2)]
	for _, a := range slices.Concat(running, unanswered) {
		f.addEntity(b.attemptEntity(a))
		f.addEvidence(b.attemptEvidence(a))
		b.showPrinted(f, idOf[rayid.Worker](a.row.Worker()))
	}
}

// causes returns the findings that say why the job had not ended; of several kinds those of the surest.
func (u *undone) causes() []*finding {
	switch {
	case len(u.waits) > 0:
		return u.waits
	case len(u.broken) > 0:
		return u.broken
	case u.env != nil:
		return []*finding{u.env}
	}
	return nil
}

// stateForTitle returns what the job was doing or waiting for until a time (Unix ns), and how the title goes on with
// the end of the job's log; each is "" if it is not said. The surest that is known counts: the causes, then calls that
// ran, then calls without an answer, and at last what the log says.
func (b *builder) stateForTitle(u *undone, j *job, log *logText, until int64) (doing, ends string) {
	switch {
	case len(u.waits) > 0:
		root := max(0, slices.IndexFunc(u.waits, func(w *finding) bool { return len(w.because) == 0 }))
		doing, _, _ = strings.Cut(u.waits[root].Title, ": ")
		return doing, ""
	case len(u.broken) > 0:
		return listNames(u.broken[0].names) + " had failed", ""
	case u.env != nil:
		return "its runtime environment was still being made", ""
	case len(u.running) > 0:
		longest := u.running[:min(len(u.running), maxEvidence/2)]
		doing = "it was waiting for " + waitedFor(longest, until)
		if longest[0].isConstructor() {
			doing += " (an actor's constructor)"
		}
		return doing + u.startedByThese(longest, ", and in it for "), ""
	case len(u.unanswered) > 0:
		return "it was waiting for " + waitedFor(u.unanswered[:1], until), ""
	case !j.id.Nil():
		return "", lastLineForTitle(log)
	case strings.Contains(log.text, output.Connected):
		return "its driver was connected to Ray, and nothing of it was stored", lastLineForTitle(log)
	case strings.Contains(log.text, entrypointRuns):
		return "its driver had not connected to Ray", lastLineForTitle(log)
	}
	return "its driver had not been started", lastLineForTitle(log)
}

// startedByThese names, behind the given words, the calls that others had started and that got no answer or were not
// scheduled; "" if there are none.
func (u *undone) startedByThese(others []attempt, words string) string {
	byThese := startedByAny(others)
	all := slices.DeleteFunc(slices.Concat(u.unanswered, u.queued), func(a attempt) bool { return !byThese(a) })
	if len(all) == 0 {
		return ""
	}
	return words + listNames(namesOf(all))
}

// jobUnended adds the finding about a job that had not ended when the session did. Its causes are what the job waited
// for, and the end of the head or the GCS. log is what the job's driver printed.
func (b *builder) jobUnended(j *job, log *logText) {
	until := b.lastSign(log)
	f := b.jobFinding(Unended, j, "Job %s had not ended when the cluster did", j.name())
	f.first, f.last = until, until
	gcs, lost := b.gcsFinding(), b.lostHead()
	f.causedBy(lost)
	u := b.undoneOf(j, log, until)
	for _, cause := range u.causes() {
		// what had only begun to wait when the head or its GCS was lost would have gone on
		if loss := cmp.Or(lost, gcs); loss == nil || loss.first-cause.first > longBroken {
			f.causedBy(cause)
		}
	}
	for _, held := range b.findings {
		if held.holdsUp(j, until) {
			f.causedBy(held)
		}
	}
	doing, ends := b.stateForTitle(&u, j, log, until)
	if doing != "" {
		f.Title += ": " + doing
	}
	f.Title += ends
	if len(f.because) == 0 {
		f.addBarrierToTitle(log) // no cause is known, but the log may tell for whom readers or ranks waited
	}
	if gcs != nil && lost == nil {
		gcs.addName(strings.TrimSuffix(fmt.Sprintf("job %s (%s)", j.name(), doing), " ()"))
		f.causedBy(gcs)
	}
	if deleted := b.clusterDeleted; deleted.Text != "" {
		f.Title += "; what ended the cluster: " + deleted.Text
		f.addEvidence(deleted)
	} else if !b.session.EndStored && lost == nil {
		f.Title += fmt.Sprintf("; the head ended without notice: nothing is stored after %s", b.clock(until))
	}
	if how, shown := b.rayletToldToEnd(b.head()); b.session.EndStored && how != "" {
		f.Title += "; the head's " + how
		f.addEvidence(shown)
	}
	if stoppedRay().MatchString(log.text) {
		f.Title += "; its entrypoint ran ray stop, which ended its own node"
	}
	idle := len(f.because) == 0 && len(u.running) == 0
	if b.session.EndStored && idle && (j.SubmissionID == "" || b.maybeServes(j, log)) {
		f.Severity = Warning // somebody's open shell, or a driver that stays for what it serves
	}
	b.showUndone(f, &u)
	f.addEvidence(b.tailEvidence(log, driverTail))
	f.addEvidence(b.sessionEndEvidence(until))
	b.showStatus(f, j, log)
}

// sessionEndEvidence returns what is stored of the end of the session, at the time until (Unix ns).
func (b *builder) sessionEndEvidence(until int64) Evidence {
	ended := "no end of the session is stored: nothing was stored after " + timestamp(until) +
		", so its pods or machines ended without notice"
	if b.session.EndStored {
		ended = "the head's collector stored the end of the session: the head was ended in order, or its raylet had " +
			"ended; the last event is of " + timestamp(b.session.End)
	}
	return Evidence{Source: "event", Time: timestamp(until), Text: ended}
}

// stoppedRay matches a record of ray stop in the output of an entrypoint that ran it.
var stoppedRay = lazyregexp.New(`(?m)^\S+ \S+\tV?[A-Z]+ scripts\.py:\d+ -- \S*(?:Killed|Stopped all) `)

// brokenAtEnd returns the findings about a job's processes or tasks that had failed, and for which the job may have
// waited at its end (until, Unix ns).
//
// A process counts if it died shortly before. If the driver ended by itself, the process must have died repeatedly:
// only that makes a driver give up. A task counts, whenever it failed, if the job was still open and idle: it did
// nothing and waited for nothing of Ray's. It does not count if the driver was a person's shell that went on after the
// failure.
func (b *builder) brokenAtEnd(j *job, until int64, idle bool) (broken []*finding) {
	gaveUp := jobstatus.Ended(j.Status)
	for _, f := range b.findings {
		if !f.unrepaired() || !j.hasDriver(f.job) || len(f.names) == 0 {
			continue
		}
		died := f.Kind == OutOfMemory || f.Kind == WorkerDied || f.Kind == ActorDied
		if died && until-f.last <= longBroken && (!gaveUp || f.Count >= crashLoop) ||
			f.Kind == TaskFailed && idle && !gaveUp && (j.SubmissionID != "" || !b.isHarmlessTo(j, f)) {
			broken = append(broken, f)
		}
	}
	return broken
}

// crashLoop is how often a process must have died to count as the reason why a driver gave up.
const crashLoop = 3

const longBroken = int64(time.Minute) // how long a job may have tried in vain to go on after a process had died

// sessionEnd returns when the session ended (Unix ns): the latest time in its events and its record in the store.
func (b *builder) sessionEnd() int64 {
	if b.session.Ended() {
		return max(b.session.End, b.session.Life.End.UnixNano())
	}
	return b.session.End
}

// lastSign returns when the session ended (Unix ns), as sessionEnd does, or else the later time at the end of a log, or
// of the head's logs if no end is stored.
func (b *builder) lastSign(log *logText) int64 {
	last, _, _ := b.lastTime(log)
	if head := b.head(); !b.session.EndStored && !head.Nil() {
		logged, _ := b.lastLogged(head)
		last = max(last, logged)
	}
	return max(b.sessionEnd(), last)
}

// waitsOf returns the findings about what a job still waited for, because it could not be scheduled or started. log is
// what the job's driver printed. busy says that some of the job's calls were running: as long as the job
// is open, it is normal then that others wait for their turn, so warnings do not count.
func (b *builder) waitsOf(j *job, log *logText, busy bool) (waits []*finding) {
	busy = busy && !jobstatus.Ended(j.Status)
	for _, f := range b.findings {
		starting := f.isStarting()
		switch {
		case f.ended != nil || f.unrecovered == 0 && !starting || f.Severity == Warning && busy:
		case f.Kind == ActorStart || f.Kind == Starved || f.Kind == Unschedulable || f.Kind == WorkerStart:
			ofJob := j.hasDriver(f.job) && j.End-f.last <= atTheEnd || f.SubmissionID != "" && f.SubmissionID == j.SubmissionID
			if ofJob || f.replicaIn(log.text) || b.driverToldOf(f, j, log) {
				waits = append(waits, f)
			}
		case starting && slices.ContainsFunc(f.Entities,
			func(e Entity) bool { return mentions(log.text, e.Name) }):
			waits = append(waits, f)
		}
	}
	return waits
}

// entrypointRuns is what Ray prints into a job's log before it starts the entrypoint.
const entrypointRuns = "Running entrypoint for job "

// lastLineForTitle returns how a title goes on with the last wait or error that the driver printed, or else with its
// last line; "" if it printed none.
func lastLineForTitle(log *logText) string {
	line, times := output.Repeated(log.text)
	if line == "" {
		line = output.LastErrorOrLine(log.text)
	}
	switch {
	case line == "":
		return ""
	case times > 1:
		return fmt.Sprintf("; its log ends with the same line %d times: %s", times,
			output.Clip(line, output.MaxTitle/2))
	}
	return lastPrinted + output.Clip(line, output.MaxTitle/2)
}

// A constructor that had run for longConstructor when its driver or the session ended gets a finding. While a session
// runs the limit is runningConstructor, because loading a large model takes time.
const (
	longConstructor    = 10 * time.Second
	runningConstructor = time.Minute
)

// readConstructors finds the actors whose constructors had not returned when their driver or the session ended.
func (b *builder) readConstructors() {
	for _, c := range b.unended {
		if a := b.session.Actor(actorIDOf(c.row)); a != nil && c.isRunningConstructor() &&
			!b.runsForRay(a.Class, a.Job) && !b.jobOfID(a.Job).succeededOrStopped() {
			b.addConstructor(a, c)
		}
	}
}

// addConstructor adds the finding about an actor whose constructor, the attempt c, had been running for a long time. It
// adds none if the constructor returned, or if another finding says how the actor ended.
func (b *builder) addConstructor(a *entities.Actor, c attempt) {
	now, existed := moment.ActorAt(a, b.moment.At)
	until, minTime, how := b.sessionEnd(), longConstructor, "had been running for %s when the session ended"
	stillRuns := b.isOpen()
	switch {
	case !existed || now.State == moment.Alive || now.State == moment.Dead &&
		(now.Started != 0 || !wasIntendedDeath(now.Cause())):
		return // the constructor returned, or another finding says how the actor ended
	case now.State == moment.Dead:
		until, how, stillRuns = now.Ended, "had been running for %s when its driver ended", false
	case stillRuns:
		minTime, how = runningConstructor, "has been running for %s"
		until = cmp.Or(b.moment.At, until)
	default:
		until = b.lastSign(&logText{})
	}
	took := time.Duration(until - c.since)
	if took < minTime {
		return
	}
	f := b.findOrAdd(ActorStart, a.Class+a.Job.String())
	f.Title = fmt.Sprintf("Actor %s was not created: its constructor "+how, actorName(a), took.Round(time.Second))
	if stillRuns || now.State == moment.Dead {
		f.Severity = Warning // it becomes an error if the job failed because of it
	}
	entity := b.actorEntity(a)
	said := fmt.Sprintf("task %s was RUNNING from %s on, and actor %s never became ALIVE", c.row.Name(),
		timestamp(c.since), a.ID)
	f.add(occurrence{
		at: c.since, job: a.Job, name: actorName(a), entity: entity,
		evidence: []Evidence{{Source: "event", Time: timestamp(c.since), Text: said, Link: entity.Link}},
	})
	f.last = max(f.last, until)
	b.showPrinted(f, idOf[rayid.Worker](c.row.Worker()))
}

// showPrinted adds the last lines that a worker printed to the evidence.
func (b *builder) showPrinted(f *finding, worker rayid.Worker) {
	for log := range b.printedBy(worker) {
		f.addEvidence(b.tailEvidence(log, workerTail))
	}
}
