package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

const (
	maxWaits    = 20 // failed attempts whose own tasks one report searches
	maxChildren = 1000
)

// wait is an attempt that failed because it had waited too long, or with words of its own.
type wait struct {
	finding *finding
	row     tasktable.Row
	at      int64 // when it failed, Unix ns
}

// readWaits finds for what attempts had waited that waited too long: for tasks of their own that were running at that
// time.
func (b *builder) readWaits() {
	for _, w := range b.waits {
		if w.finding.Kind != Timeout {
			continue
		}
		if b.linkException(w.finding, w.finding.raised.String()); len(w.finding.because) == 0 {
			b.addHung(w.finding,
				fmt.Sprintf("%s stopped waiting for it (%s)", w.row.GivenName(), w.finding.raised.Type),
				b.leftBy(w), w.at)
		}
	}
}

// leftBy returns the calls of an attempt that were running when it failed.
func (b *builder) leftBy(w wait) (running []attempt) {
	for _, id := range parentIDs(w.row) {
		for _, n := range b.children()[id] {
			a := attemptOf(b.s.Tasks.Row(n, w.at))
			if a.state == tasktable.StateRunning && startedBy(a.row, w.row) {
				running = append(running, a)
			}
		}
	}
	b.fail(b.s.Tasks.Err())
	return running
}

// readChildren returns the rows of the calls that the waits had made, by their parents: in one pass for all of them.
func (b *builder) readChildren() map[string][]int {
	var parents []string
	for _, w := range b.waits {
		parents = append(parents, parentIDs(w.row)...)
	}
	children, err := b.s.Tasks.Children(parents, maxChildren, b.stopped)
	b.fail(err)
	return children
}

// tellLeftByTasks adds to a title which calls a task had left that failed with words of its own, as tellLeft does for
// drivers: these are often about what it still waited for, also while that had not begun yet.
func (b *builder) tellLeftByTasks() {
	for _, w := range b.waits {
		if w.finding.Kind != TaskFailed || len(w.finding.because) > 0 || strings.Contains(w.finding.Title, hadLeft) {
			continue
		}
		left := b.withoutRaysOwn(lowest(b.leftBy(w)))
		if len(left) > 0 && w.at-firstState(left[0].row) >= longWait {
			w.finding.goOn("; when it failed, it" + hadLeft + waitedFor(left, w.at))
		}
	}
}

// hadLeft is between what ended and the calls that it did not wait for any longer.
const hadLeft = " had left "

// minHung is how long a task must have run to be what something waited for.
const minHung = int64(time.Second)

// addHung adds a finding about each function of tasks that were running or pending when something stopped waiting (Unix
// ns), and links what waited to it. Of tasks that waited for each other, only those at the end of the chain count.
// gaveUp says who stopped waiting, and how.
func (b *builder) addHung(waiting *finding, gaveUp string, unended []attempt, at int64) {
	pending := false
	for _, a := range lowest(unended) {
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
		f := b.find(Timeout, key+callerOf(a.row).String()+a.name())
		f.Title = cmp.Or(f.Title, fmt.Sprintf("%s %s for %s when %s", a.name(), how,
			time.Duration(at-a.since).Round(time.Second), gaveUp))
		f.add(occurrence{at: a.since, job: callerOf(a.row), name: a.name(), entity: b.attemptEntity(a),
			evidence: []Evidence{shown}})
		f.last = max(f.last, at)
		waiting.causedBy(f)
	}
	for _, c := range waiting.because {
		if !pending && len(waiting.Evidence) > 0 {
			c.addEvidence(waiting.Evidence[0])
		}
	}
}

// unanswered returns the calls of a job that were sent to their actors, and of which no answer came.
func (b *builder) unanswered(j *job) []attempt {
	sent := slices.Concat(b.calls, b.sent())
	return b.withoutRaysOwn(ofJob(sent, j, sentToWorker))
}

// linkUndone links a driver to what its job had not done when it ended: if it waited too long, to what could not be
// scheduled or started, or to the processes that had died again and again. If there is none of that, it links a driver
// that waited, or gave up waiting, to the calls that were running then. A GCS that did not answer any more comes first,
// unless what the driver raised is its own mistake.
func (b *builder) linkUndone(f *finding, j *job, e *driverEnd, waited bool) {
	if !ownBugs[e.raised.Type] && b.linkGCS(f, j) {
		return
	}
	u := b.undoneOf(j, e.log, j.End)
	if waited {
		b.showUndone(f, &u)
		for _, cause := range u.causes() {
			f.causedBy(cause)
		}
		if len(f.because) == 0 && e.at >= 0 {
			raised := output.LastThread(output.OwnLines(e.log.text))
			if raised.Type != "" && !raised.Same(e.raised) {
				f.goOn("; a thread or coroutine of the driver had failed: " + raised.String())
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
	b.addHung(f, gaveUp+u.inside(left, ", and in it "), left, j.End)
}

// tellLeft adds to a title which calls a driver left that ended with words of its own: these are often about what it
// still waited for. Of one that ended without a word all of them are told, however short they had run; of one that did
// not find something in an answer, those that others had made: who answered may have left them.
func (b *builder) tellLeft(f *finding, j *job, e *driverEnd, u *undone) {
	left := u.unfinished()
	switch {
	case general().MatchString(e.raised.Type), e.raised.Own:
	case e.raised.Type == "KeyError" || f.silent || foundNothing(f.raised):
		left = slices.DeleteFunc(slices.Clone(left), func(a attempt) bool { return byDriver(a.row) })
	default:
		return
	}
	if len(left) > 0 && (f.silent || j.End-left[0].since >= longWait) {
		f.goOn("; when the driver ended, it" + hadLeft + waitedFor(left, j.End) +
			u.inside(left, ", and in it "))
		b.showUndone(f, u)
	}
}

// tellLeftBehind is tellLeft for the root of a driver's end, if the driver had gone on after all that failed before.
func (b *builder) tellLeftBehind(f *finding, j *job, e *driverEnd) {
	root := f.root()
	if f.Kind != JobFailed || root.job != f.job ||
		slices.ContainsFunc(f.because, func(c *finding) bool { return !b.goneOnAfter(c, f.job) }) {
		return
	}
	u := b.undoneOf(j, e.log, j.End)
	b.tellLeft(root, j, e, &u)
}

// gaveUp reports whether a driver ended because it had waited too long for calls. If it did not say so, it must have
// counted how many of them are left, or fallen over nothing when nothing of its job had come to an end.
func (b *builder) gaveUp(f *finding, j *job, u *undone, waited bool, said string) bool {
	silent := isTimeout(f.raised) && f.raised.Message == "" // such as asyncio.wait_for raises it
	switch {
	case waited && (f.raised.Type == "" || f.raised.Type == "GetTimeoutError" || silent), notReady().MatchString(said):
		return true
	case emptyHanded().MatchString(f.raised.Message) && f.raised.Function == "":
		return !slices.ContainsFunc(b.attempts("job_id", j.id.String(), maxChildren, b.r.At),
			func(a attempt) bool { return a.state == tasktable.StateFinished })
	}
	m := outOf().FindStringSubmatch(said)
	if m == nil {
		return false
	}
	came, _ := strconv.Atoi(m[1])
	all, _ := strconv.Atoi(m[2])
	return len(u.running) > 0 && all-came == len(u.running)
}

// failure is a failed attempt and the finding about it.
type failure struct {
	finding *finding
	parent  string // the ID of the task that started it
}

// addFailure remembers a failed attempt, for links to the task that started it.
func (b *builder) addFailure(row tasktable.Row, f *finding) {
	for _, id := range parentIDs(row) {
		if _, known := b.failures[id]; !known && len(b.failures) < maxLinked {
			b.failures[id] = failure{f, strings.Clone(string(row.Parent()))}
		}
	}
}

const maxLinked = 10_000 // failed attempts that are linked to those that they started
