package findings

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

var (
	// taskInText matches how Ray's messages name a task: by its ID alone.
	taskInText = lazyregexp.New(`(?:[Tt]ask: )?TaskID\(([0-9a-f]{48})\)`)
	// objectInText matches how they name an object that is lost: its ID begins with that of the task that made it.
	objectInText = lazyregexp.New(`\bobject ([0-9a-f]{48})[0-9a-f]{8}\b`)
	// ownerInText matches what they say of an actor whose owner ended.
	ownerInText = lazyregexp.New(`its owner has died\. Owner Id: ([0-9a-f]{56})(?: Owner Ip address: \S*)?(?: Owner worker exit type: \w+ Worker exit detail:)? ?`)
)

// withNames replaces the IDs of tasks, objects and owners in a finding's title by names. An ID of which nothing is
// known stays.
func (b *builder) withNames(f *finding) string {
	title := replaced(f.Title, "TaskID(", taskInText, func(id string) string {
		return around("task ", b.taskNamed("task_id", id), "")
	})
	title = replaced(title, "its owner has died.", ownerInText, func(id string) string {
		return around("its owner, ", b.processName(id), ", has died. ")
	})
	return replaced(title, " object ", objectInText, func(id string) string {
		name := around("an object of ", b.taskNamed("task_id", id), "")
		if f.raised.Type != "OwnerDiedError" {
			return name
		}
		for _, e := range f.Evidence {
			if m := ownerWorker().FindStringSubmatch(e.Text); m != nil {
				return around(cmp.Or(name, "an object")+" whose owner, ", b.processName(m[1]), ", had ended"+b.wantedEnd(m[1]))
			}
		}
		return name
	})
}

// wantedEnd returns why an actor had ended that ran in a worker, if somebody wanted its end, of which no finding tells.
// It returns "" if it is no such actor.
func (b *builder) wantedEnd(id string) string {
	worker, err := rayid.Parse[rayid.Worker](id)
	if err != nil {
		return ""
	}
	a := b.actorIn(worker)
	if a == nil {
		return ""
	}
	state, _ := moment.ActorAt(a, b.r.At)
	why, told := strings.CutPrefix(deathSentence(state.Cause().Text), deadBecause)
	if !told || !intended(state.Cause()) {
		return ""
	}
	return ", because" + strings.TrimSuffix(why, ".")
}

// around returns a name with what comes before and after it; "" without a name.
func around(before, name, after string) string {
	if name == "" {
		return ""
	}
	return before + name + after
}

// replaced replaces what an expression matches in a text by the name for its group; what has no name stays. Only a text
// with sign can match.
func replaced(text, sign string, expression func() *regexp.Regexp, named func(id string) string) string {
	if !strings.Contains(text, sign) {
		return text
	}
	return expression().ReplaceAllStringFunc(text, func(match string) string {
		return cmp.Or(named(expression().FindStringSubmatch(match)[1]), match)
	})
}

// taskNamed returns the name of the first task that has an ID in a field; "" if none is known.
func (b *builder) taskNamed(field, id string) string {
	for _, a := range b.attempts(field, id, 1, b.r.At) {
		return a.name()
	}
	return ""
}

const maxNamed = 20 // processes that one report looks for

// processName says what a worker's process was: a driver, an actor or what ran tasks of a function; "" if that is not
// known.
func (b *builder) processName(id string) string {
	name, known := b.processes[id]
	if worker, err := rayid.Parse[rayid.Worker](id); err == nil && !known && len(b.processes) < maxNamed {
		name = b.findProcess(worker)
		b.processes[id] = name
	}
	return name
}

// findProcess returns what ran in a worker.
func (b *builder) findProcess(worker rayid.Worker) string {
	id := worker.String()
	for i := range b.jobs {
		if j := &b.jobs[i]; id == moment.DriverWorker(j.id) {
			return "the driver of job " + j.name()
		}
	}
	if a := b.actorIn(worker); a != nil {
		return "actor " + actorName(a)
	}
	return around("a worker that ran ", b.taskNamed("worker_id", id), "")
}

// actorIn returns the actor that runs or ran in a worker process; nil if there is none.
func (b *builder) actorIn(worker rayid.Worker) *entities.Actor {
	for i := range b.s.Actors {
		state, existed := moment.ActorAt(&b.s.Actors[i], b.r.At)
		if existed && (state.Worker == worker || slices.ContainsFunc(state.FormerProcesses,
			func(p moment.ActorProcess) bool { return p.Worker == worker })) {
			return &b.s.Actors[i]
		}
	}
	return nil
}
