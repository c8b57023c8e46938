package findings

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// attempt is an attempt of a task that had not ended when its driver, the session or what waited for it did.
type attempt struct {
	row   tasktable.Row
	state string // its last state before that
	since int64  // Unix ns
	// it ended because its driver did; otherwise it had not ended when the session did
	abandoned bool
}

// isTask reports whether the attempt is neither a call of an actor nor the creation of one.
func (a attempt) isTask() bool { return string(a.row.Type()) == eventjson.TypeNormal }

// isConstructor reports whether the attempt is the creation of an actor, which runs the actor's constructor.
func (a attempt) isConstructor() bool { return string(a.row.Type()) == eventjson.TypeActorCreation }

// name returns the name that the attempt's task was given. For a trial of Tune it is "Tune trial" and the name of the
// user's function, if that is known.
func (a attempt) name() string {
	name := string(a.row.GivenName())
	if trial := strings.TrimSuffix(string(a.row.Name()), ".train"); name == trialRun && trial != "ImplicitFunc" {
		return "Tune trial " + trial
	}
	return name
}

func (b *builder) attemptEntity(a attempt) Entity { return b.taskEntity(a.row.ID(), a.name()) }

func (b *builder) attemptEvidence(a attempt) Evidence {
	return Evidence{
		Source: "event", Time: timestamp(a.since), Text: fmt.Sprintf("task %s had been %s since %s", a.name(), a.state,
			timestamp(a.since)),
		Link: b.taskLink(a.row.ID()),
	}
}

// isRunningConstructor reports whether the attempt is an actor's constructor that was running.
func (a attempt) isRunningConstructor() bool {
	return a.isConstructor() && a.state == tasktable.StateRunning
}

// namesOf returns the names of attempts, each once.
func namesOf(all []attempt) (names []string) {
	known := map[string]bool{}
	for _, a := range all {
		if name := a.name(); !known[name] {
			known[name] = true
			names = append(names, name)
		}
	}
	return names
}

// waitedFor names attempts of one state, for a title: "f and 2 more, which had been running for 5s". The time is that
// of the first attempt, until a time (Unix ns); it is left out if it is less than a second. all must not be empty.
func waitedFor(all []attempt, until int64) string {
	took := time.Duration(until - all[0].since).Round(time.Second)
	if took <= 0 {
		return listNames(namesOf(all))
	}
	how := "pending"
	switch all[0].state {
	case tasktable.StateRunning:
		how = "running"
	case sentToWorker:
		how = "without an answer"
	}
	first := namesOf(slices.DeleteFunc(slices.Clone(all), func(a attempt) bool { return a.ranBehind(all[0]) }))
	text := fmt.Sprintf("%s, which had been %s for %s", listNames(first), how, took)
	if later := namesOf(all); len(later) > len(first) {
		later = slices.DeleteFunc(later, func(name string) bool { return slices.Contains(first, name) })
		text += ", and " + listNames(later) + " after it"
	}
	return text
}

// ranBehind reports whether a call began after another one in the same worker process, so that it may have waited for
// that call.
func (a attempt) ranBehind(first attempt) bool {
	return len(a.row.Worker()) > 0 && string(a.row.Worker()) == string(first.row.Worker()) && a.since > first.since
}

// sentToWorker is the state of a call that was sent to its process, of which Ray has heard nothing since.
const sentToWorker = "SUBMITTED_TO_WORKER"

// unendedOf returns the unended attempts of a job in a state for which is returns true, without calls of Ray's own
// actors, the longest in their state first.
func (b *builder) unendedOf(j *job, state string, is func(a attempt) bool) (all []attempt) {
	for _, a := range b.unendedIn(j) {
		if a.state == state && is(a) {
			all = append(all, a)
		}
	}
	return b.withoutRaysOwn(all)
}

// unendedIn returns the unended attempts of a job. They are sorted by job once, because each of many jobs has some.
func (b *builder) unendedIn(j *job) []attempt {
	for ; b.sortedUnended < len(b.unended); b.sortedUnended++ {
		a := b.unended[b.sortedUnended]
		if id := b.callerJob(a.row); !id.Nil() {
			b.unendedByJob[id] = append(b.unendedByJob[id], a)
		}
	}
	all := b.unendedByJob[j.id]
	for _, d := range j.Earlier {
		if d.ID != j.id {
			all = slices.Concat(all, b.unendedByJob[d.ID])
		}
	}
	return all
}

// addUnended adds to unended the attempts that were in a state when the session ended, at most maxPending.
func (b *builder) addUnended(state string) {
	for _, a := range b.selectAttempts(b.moment.At, "state", state, maxPending) {
		if a.state == state { // else its worker said that it had ended
			b.unended = append(b.unended, a)
		}
	}
}

// innermostCalls returns the attempts that started none of the others: the ends of the chains of calls. It filters all
// in place.
func innermostCalls(all []attempt) []attempt {
	last := map[string]tasktable.Row{} // the one that each parent started last
	for _, a := range all {
		parent := string(a.row.Parent())
		if before, known := last[parent]; !known || a.row.FirstStateAt() >= before.FirstStateAt() {
			last[parent] = a.row
		}
	}
	return slices.DeleteFunc(all, func(a attempt) bool {
		return slices.ContainsFunc(parentIDs(a.row), func(id string) bool {
			row, known := last[id]
			return known && startedBy(row, a.row)
		})
	})
}

// parentIDs returns the IDs, as bytes, by which Ray names an attempt as the parent of the tasks that it starts: the ID
// of its task, and for a method of an actor also the ID of the actor's creation, because Ray names that one for
// coroutines. The latter is 8 bytes of ones and the actor's ID.
func parentIDs(row tasktable.Row) []string {
	id := row.ID()
	ids := []string{string(id[:])}
	if string(row.Type()) == eventjson.TypeActor {
		ids = append(ids, strings.Repeat("\xff", 8)+string(row.Actor()))
	}
	return ids
}

// byDriver reports whether a driver itself started an attempt. Ray's ID of the parent is then 20 bytes of ones and the
// ID of the job.
func byDriver(row tasktable.Row) bool {
	return strings.HasPrefix(string(row.Parent()), strings.Repeat("\xff", 20))
}

// startedByAny returns a function that reports whether an attempt was started by one of these, as startedBy does.
func startedByAny(parents []attempt) func(a attempt) bool {
	since := map[string]int64{} // by the parents' IDs: how old an attempt may be at most that they started
	for _, p := range parents {
		for i, id := range parentIDs(p.row) {
			at := int64(math.MinInt64)
			if i > 0 {
				at = p.row.FirstStateAt()
			}
			if before, known := since[id]; !known || at < before {
				since[id] = at
			}
		}
	}
	return func(a attempt) bool {
		at, known := since[string(a.row.Parent())]
		return known && a.row.FirstStateAt() >= at
	}
}

// startedBy reports whether an attempt was started by another one, the parent. If Ray names only the creation of the
// parent's actor, the attempt must not be older than the parent.
func startedBy(row, parent tasktable.Row) bool {
	at := slices.Index(parentIDs(parent), string(row.Parent()))
	return at == 0 || at > 0 && row.FirstStateAt() >= parent.FirstStateAt()
}

// finished reports whether the attempt succeeded.
func (a attempt) finished() bool { return a.state == tasktable.StateFinished }

// driverOwned matches Ray's message about an actor whose owner ended, if the owner was a driver: its ID is that of its
// job, filled up.
var driverOwned = lazyregexp.New(`its owner has died\. Owner Id: [0-9a-f]{8}f{48}\b`)

// isJobEnd reports whether Ray's message about a failed attempt says that it ended because its driver had. The types of
// exit (WorkerExitType in common.proto) are those that Ray or the program intended: INTENDED_SYSTEM_EXIT is 1,
// INTENDED_USER_EXIT 3.
func isJobEnd(text []byte) bool {
	s := string(text[:min(len(text), 600)])
	return strings.HasPrefix(s, "Job finishes (") || strings.Contains(s, "because its job has finished") ||
		strings.Contains(s, "died with exit_type: 1 ") || strings.Contains(s, "died with exit_type: 3 ") ||
		driverOwned().MatchString(s)
}

// endedWithDriver reports whether a failed attempt only ended with its driver: its process was told to end, it was
// killed or cancelled, or nothing is known of its end, at about the time of the driver's end. kind and text are the
// type and the message of Ray's error, and at is when the attempt failed (Unix ns).
func (b *builder) endedWithDriver(row tasktable.Row, kind string, text []byte, at int64) bool {
	worker := idOf[rayid.Worker](row.Worker())
	j := b.jobOfID(b.callerJob(row))
	death, dead := b.deaths[worker]
	atEnd := j != nil && j.End != 0 && at-j.End <= atTheEnd && j.End-at <= atTheEnd
	if dead && kind == "WORKER_DIED" && strings.Contains(death.detail, "SIGTERM") {
		driver := b.session.Job(b.callerJob(row))
		if driver == nil {
			return false
		}
		state, _ := moment.DriverAt(driver, b.moment.At)
		return state.Ended != 0 && at >= state.Ended-withDriver && at-state.Ended <= atTheEnd
	}
	if kind == "ACTOR_DIED" && strings.Contains(string(text), "killed by `ray.kill`") {
		return atEnd // a driver that gives up kills what still runs
	}
	return atEnd && !dead && (kind == "WORKER_DIED" && len(text) == 0 ||
		kind == taskCancelled && worker.Nil()) // or cancels what still waits
}

// withDriver is how long before the end of its driver a worker may have ended that was told to end because of it (ns).
const withDriver = 5e8

// addAbandoned adds to unended an attempt that ended because its driver did, with the state that it was in until then.
// It leaves out one whose function had returned, or that waited for its arguments, and all beyond maxPending.
func (b *builder) addAbandoned(row tasktable.Row) {
	end, _ := unreportedEnd(row)
	if end != 0 || len(b.unended) >= maxPending {
		return
	}
	var buf [8]tasktable.StateTime
	a := attempt{row: row, abandoned: true}
	for _, s := range row.States(buf[:0]) {
		if s.State != tasktable.StateFailed {
			a.state, a.since = s.State, s.Time
		}
	}
	if a.state == tasktable.StateRunning || a.state == sentToWorker || a.state == notScheduledYet {
		b.unended = append(b.unended, a)
	}
}

// execution is the name of the profile event of an attempt's run. If the attempt raised an exception, the event has its
// whole traceback (ProfileEvent in profile_event.pxi of _raylet), unless the attempt streamed its results.
const execution = "task:execute"

// executionEnd returns when the function of an attempt had ended, as its worker says (Unix ns; 0 if that is not
// stored), and the traceback of the exception that it raised; "" if it raised none.
func executionEnd(row tasktable.Row) (end int64, trace string) {
	var profile tasktable.Profile
	row.Profile(&profile)
	for _, e := range profile.Events {
		if string(e.Name) != execution {
			continue
		}
		extra, _ := pyjson.ParseObject(e.Extra)
		end, trace = e.End, strings.TrimRight(extra.String("traceback"), "\n")
		if !strings.HasPrefix(trace, output.TracebackStart) {
			trace = ""
		}
	}
	return end, trace
}

// interrupted is the exception that a call raises when somebody cancels it.
const interrupted = "KeyboardInterrupt"

// unreportedEnd returns what executionEnd does, for an attempt of whose end its caller said nothing, because the caller
// ended just then. It returns 0 and "" if the function was ended from outside: workers that are told to exit and tasks
// that are cancelled raise an exception, too.
func unreportedEnd(row tasktable.Row) (end int64, trace string) {
	end, trace = executionEnd(row)
	switch output.ExceptionOf(trace).Type {
	case "SystemExit", interrupted:
		return 0, ""
	}
	return end, trace
}
