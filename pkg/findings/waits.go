package findings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

const (
	maxWaits    = 20 // failed attempts whose own tasks one report searches
	maxChildren = 1000
)

// wait is an attempt that failed because it had waited too long, or that raised an exception in words of its own.
type wait struct {
	finding *finding
	row     tasktable.Row
	at      int64 // when it failed, Unix ns
}

// readWaits finds what the attempts had waited for that failed because they had waited too long: what their exception
// tells of, or else the tasks that they had started and that still ran.
func (b *builder) readWaits() {
	for _, w := range b.waits {
		if w.finding.Kind != Timeout {
			continue
		}
		if b.linkException(w.finding, w.finding.raised.String()); len(w.finding.because) == 0 {
			b.addHung(w.finding,
				fmt.Sprintf("%s stopped waiting for it (%s)", w.row.GivenName(), w.finding.raised.Type),
				b.withCallsBelow(b.leftRunningBy(w), w.at), w.at)
		}
		f, behind := w.finding, b.behind(attempt{row: w.row, since: stateAt(w.row, tasktable.StateRunning)})
		if len(f.because) == 0 && f.raised.Message == "" && !strings.HasSuffix(f.Title, behind) {
			f.appendTitle(behind) // its exception is one such as asyncio.timeout raises
		}
	}
}

// leftRunningBy returns the calls that an attempt had started and that were running when it failed.
func (b *builder) leftRunningBy(w wait) (running []attempt) {
	for _, id := range parentIDs(w.row) {
		for _, n := range b.childRows()[id] {
			a := attemptOf(b.session.Tasks.Row(n, w.at))
			if a.state == tasktable.StateRunning && startedBy(a.row, w.row) {
				running = append(running, a)
			}
		}
	}
	b.stopOn(b.session.Tasks.Err())
	return running
}

// withCallsBelow adds to calls that were running at a time (Unix ns) those that they had started and that ran until
// their driver or the session ended, and so on: each call in a chain waits for the next one.
func (b *builder) withCallsBelow(calls []attempt, at int64) []attempt {
	if len(calls) == 0 {
		return nil
	}
	known := map[rayid.Task]bool{}
	for _, c := range calls {
		known[c.row.ID()] = true
	}
	for before := 0; before < len(calls) && len(calls) < maxChildren; {
		fromThese := startedByAny(calls)
		before = len(calls)
		for _, a := range b.unended {
			id, runs := a.row.ID(), a.state == tasktable.StateRunning && !a.isConstructor() && a.since <= at
			if runs && fromThese(a) && !known[id] {
				known[id] = true
				calls = append(calls, a)
			}
		}
	}
	return calls
}

// readChildren returns the numbers, in the table of tasks, of the calls that the waits had started, by the ID of the
// parent (bytes, see parentIDs). It goes through the table once for all of them.
func (b *builder) readChildren() map[string][]int {
	var parents []string
	for _, w := range b.waits {
		parents = append(parents, parentIDs(w.row)...)
	}
	children, err := b.session.Tasks.Children(parents, maxChildren, b.requestErr)
	b.stopOn(err)
	return children
}

// tellLeftByTasks adds to the title about a task that failed with words of its own which calls it had left: the words
// are often about what it still waited for. It does for tasks what tellLeft does for drivers.
func (b *builder) tellLeftByTasks() {
	for _, w := range b.waits {
		if w.finding.Kind != TaskFailed || len(w.finding.because) > 0 || strings.Contains(w.finding.Title, hadLeft) {
			continue
		}
		left := b.withoutRaysOwn(innermostCalls(b.leftRunningBy(w)))
		if len(left) > 0 && w.at-left[0].row.FirstStateAt() >= longWait {
			w.finding.appendTitle("; when it failed, it" + hadLeft + waitedFor(left, w.at) + b.behind(left[0]))
		}
	}
}

// hadLeft is between what ended and the calls that it did not wait for any longer.
const hadLeft = " had left "

// minHung is how long a task must have run to be what something waited for.
const minHung = int64(time.Second)

// addHung adds a finding for each function of which tasks were running or pending when something stopped waiting for
// them, and makes these findings causes of waiting. unended are the tasks, and at is the time (Unix ns). Of tasks that
// waited for each other, only those at the ends of the chains count. gaveUp says, for the title, who stopped waiting.
func (b *builder) addHung(waiting *finding, gaveUp string, unended []attempt, at int64) {
	pending := false // unended are all running, or all not
	for _, a := range innermostCalls(unended) {
		if at-a.since < minHung {
			continue
		}
		pending = a.state != tasktable.StateRunning
		key, how, shown := "hung ", "did not finish: it had been running", b.attemptEvidence(a)
		switch {
		case a.state == sentToWorker:
			key, how = "unanswered ", "did not answer: its process had had the call"
		case pending:
			key, how = "pending ", "did not start: it had been pending"
		default:
			shown.NodeID = rayid.Hex(idOf[rayid.Node](a.row.Node()))
		}
		f := b.findOrAdd(Timeout, key+b.callerJob(a.row).String()+a.name())
		if f.Title == "" {
			f.Title = fmt.Sprintf("%s %s for %s%s when %s", a.name(), how,
				time.Duration(at-a.since).Round(time.Second), b.behind(a), gaveUp)
		}
		f.add(occurrence{at: a.since, job: b.callerJob(a.row), name: a.name(), entity: b.attemptEntity(a),
			evidence: []Evidence{shown}})
		f.last = max(f.last, at)
		if a.state == sentToWorker {
			b.addFailedCheck(f, a, at)
		}
		waiting.causedBy(f)
	}
	for _, c := range waiting.because {
		if !pending && len(waiting.Evidence) > 0 {
			c.addEvidence(waiting.Evidence[0])
		}
	}
}

// behind names, for a title, the call that the process of a call had been running since before, and did not end: a
// coroutine that blocks lets none of its actor's others go on. It returns "" if there is none.
func (b *builder) behind(a attempt) string {
	for _, first := range b.unended {
		if first.state == tasktable.StateRunning && !first.isConstructor() && a.ranBehind(first) {
			return " behind " + first.name()
		}
	}
	return ""
}

// checkFailed matches what the GCS logs of a node that did not answer a health check (gcs_health_check_manager.cc).
var checkFailed = lazyregexp.New(`Health check failed for node ([0-9a-f]{56}),`)

// notChecked ends the title of a finding about a call whose actor's node did not answer a health check.
const notChecked = " did not answer health checks"

// addFailedCheck adds to the finding about a call of an actor that got no answer until at (Unix ns) that the actor's
// node did not answer the head's health checks at that time. Such a node may be back before it counts as lost.
func (b *builder) addFailedCheck(f *finding, a attempt, at int64) {
	state, _ := b.actorState(actorIDOf(a.row)) // of the nil node if the actor is not known
	for _, m := range b.logs.about("gcs_server.out", checkFailed(), 1, state.Node.String()) {
		if a.since <= m.at && m.at <= at+atTheEnd {
			if !strings.Contains(f.Title, notChecked) { // of several calls the title tells the first one's node
				f.appendTitle("; its node " + b.nodeName(state.Node) + notChecked)
			}
			f.addEvidence(b.lineEvidence(m))
			return
		}
	}
}

// linkUndone links the finding about a driver's end to what its job had not done then. waited says that the driver had
// waited too long. A GCS that did not answer any more is the first cause, unless what the driver raised is its own
// mistake. Then, if the driver waited, come the things that could not be scheduled or started, and the processes that
// had died again and again. If there is none of that, and the driver gave up waiting, the calls that still ran are the
// causes; otherwise the title names them.
func (b *builder) linkUndone(f *finding, j *job, e *driverEnd, waited bool) {
	if !ownBugs[e.raised.Type] && b.linkGCS(f, j) {
		return
	}
	u := b.undoneOf(j, e.log, j.End)
	if waited || notReady().MatchString(e.message()) && inOwnWords(e.raised) {
		b.showUndone(f, &u)
		for _, cause := range u.causes() {
			f.causedBy(cause)
		}
		if len(f.because) == 0 && e.traceAt >= 0 {
			raised := output.LastThread(output.OwnLines(e.log.text))
			if raised.Type != "" && !raised.Same(e.raised) {
				f.appendTitle("; a thread or coroutine of the driver had failed: " + raised.String())
			}
		}
	}
	if len(f.because) > 0 {
		return
	}
	if !b.gaveUp(f, j, &u, waited, e.message()) {
		b.tellLeft(f, j, e, &u)
		return
	}
	gaveUp := fmt.Sprintf("the driver stopped waiting for it (%s)", f.raised.Type)
	if f.raised.Type == "" && !waited {
		gaveUp = "the driver gave up"
	} else if f.raised.Type == "" {
		_, gaveUp, _ = strings.Cut(f.Title, ": ")
		gaveUp, _, _ = strings.Cut(gaveUp, ": ")
	}
	left := u.unfinished()
	gaveUp += u.startedByThese(left, ", and in it ")
	if len(left) > 0 && left[0].state == notScheduledYet {
		gaveUp += encloseIfAny("; worker processes had printed: ", output.SaidByRaylet(e.log.text), "")
	}
	b.addHung(f, gaveUp, left, j.End)
}

// tellLeft adds to a title which calls a driver left when it ended with words of its own: the words are often about
// what it still waited for. If the driver ended without a word, all calls are told, however short they had run. If it
// did not find something in an answer, only the calls that others had started are told: whoever answered may have left
// them.
func (b *builder) tellLeft(f *finding, j *job, e *driverEnd, u *undone) {
	left := u.unfinished()
	switch {
	case inOwnWords(e.raised):
	case e.raised.Type == "KeyError" || f.silent || foundNothing(f.raised):
		left = slices.DeleteFunc(slices.Clone(left), func(a attempt) bool { return byDriver(a.row) })
	default:
		return
	}
	if len(left) > 0 && (f.silent || j.End-left[0].since >= longWait) {
		f.appendTitle("; when the driver ended, it" + hadLeft + waitedFor(left, j.End) +
			u.startedByThese(left, ", and in it "))
		b.showUndone(f, u)
	}
}

// tellLeftBehind does tellLeft for the root of a driver's end, if the driver had gone on after each of the causes.
func (b *builder) tellLeftBehind(f *finding, j *job, e *driverEnd) {
	root := f.rootCause()
	if f.Kind != JobFailed || root.job != f.job ||
		slices.ContainsFunc(f.because, func(c *finding) bool { return !b.driverWentOnAfter(c, f.job) }) {
		return
	}
	u := b.undoneOf(j, e.log, j.End)
	b.tellLeft(root, j, e, &u)
}

// gaveUp reports whether a driver ended because it had waited too long for calls, as said, its last words, tells. If
// they do not say so, they must count as many missing results as calls still ran, or the driver must have taken
// something out of an empty list when nothing of its job had come to an end.
func (b *builder) gaveUp(f *finding, j *job, u *undone, waited bool, said string) bool {
	withoutMessage := isTimeout(f.raised) && f.raised.Message == "" // such as asyncio.wait_for raises it
	switch {
	case waited && (f.raised.Type == "" || f.raised.Type == "GetTimeoutError" || withoutMessage),
		notReady().MatchString(said):
		return true
	case emptyHanded().MatchString(f.raised.Message) && f.raised.Function == "":
		return !slices.ContainsFunc(b.selectAttempts(b.moment.At, "job_id", j.id.String(), maxChildren),
			func(a attempt) bool { return a.state == tasktable.StateFinished })
	}
	counted := howManyOf().FindStringSubmatch(said) // "6 of 8"
	if counted == nil {
		return false
	}
	came, _ := strconv.Atoi(counted[1]) // the expression matched at most six digits
	all, _ := strconv.Atoi(counted[2])
	lacks := all - came
	if stillLacks().MatchString(said) { // "2 of 8 are not done"
		lacks = came
	}
	return len(u.running) > 0 && (lacks == len(u.running) || all-came == len(u.running))
}

// stillLacks matches words that what was counted has not come.
var stillLacks = lazyregexp.New(`(?i)\b(?:not|missing|late|left|lost|unfinished|remain\w*|outstanding|open)\b|n't\b`)

// failure is a failed attempt and the finding about it.
type failure struct {
	finding *finding
	parent  string // the ID of the task that started it
}

// addFailure remembers a failed attempt and its finding, so that the failure can be linked to the task that started it.
func (b *builder) addFailure(row tasktable.Row, f *finding) {
	for _, id := range parentIDs(row) {
		if _, known := b.failures[id]; !known && len(b.failures) < maxLinked {
			b.failures[id] = failure{f, strings.Clone(string(row.Parent()))}
		}
	}
}

const maxLinked = 10_000 // failed attempts that are linked to those that they started

// barrier matches what Data's and Train's own actors log while they wait for some of those that must come together: the
// readers of a dataset that was split (stream_split_iterator.py), the ranks of a run (sync_actor.py).
var barrier = lazyregexp.New(`\((SplitCoordinator|SynchronizationActor)( pid=\d+)[^)\n]{0,60}\)(?:\x1b\[0m)? ` +
	`(StreamSplitDataIterator\([^)\n]{1,60}\) blocked waiting on other clients\b[^.\n]{0,40}|` +
	`The workers have been waiting for [^\n]{1,40} for the following ranks to join the [^\n]{1,100}: \[[\d, ]{1,200}\])`)

// addBarrierToTitle adds to the title about a wait which readers or ranks had not come to where the others waited, as
// the job's log tells last. It adds nothing else.
func (f *finding) addBarrierToTitle(log *logText) {
	if who, said := waitsAtBarrier(log.text); who != "" && (f.Kind == Timeout || f.Kind == Unended) {
		f.appendTitle("; " + who + " printed: " + output.Clip(said, output.MaxMessage))
	}
}

// waitsAtBarrier returns which of Ray's actors was the last in a driver's log to say for whom it waited, and what it
// said; both are "" if none did, or if the log shows that the wait was over.
func waitsAtBarrier(log string) (who, said string) {
	all := barrier().FindAllStringSubmatchIndex(log, -1)
	if all == nil {
		return "", ""
	}
	last := all[len(all)-1]
	actor, after := log[last[2]:last[5]], log[last[1]:]
	switch who = log[last[2]:last[3]]; {
	case who == "SplitCoordinator" && strings.Contains(after, "("+actor),
		strings.Contains(after, "Reporting training result"):
		return "", ""
	}
	return who, log[last[6]:last[7]]
}
