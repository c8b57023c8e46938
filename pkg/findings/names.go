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

// withNames returns a finding's title with names in place of the IDs of tasks, objects and owners. An ID of which
// nothing is known stays.
func (b *builder) withNames(f *finding) string {
	title := replaceIDs(f.Title, "TaskID(", taskInText, func(id string) string {
		return encloseIfAny("task ", b.taskNamed("task_id", id), "")
	})
	title = replaceIDs(title, "its owner has died.", ownerInText, func(id string) string {
		return encloseIfAny("its owner, ", b.processName(id), ", has died. ")
	})
	return replaceIDs(title, " object ", objectInText, func(id string) string {
		name := encloseIfAny("an object of ", b.taskNamed("task_id", id), "")
		if f.raised.Type != "OwnerDiedError" {
			return name
		}
		for _, e := range f.Evidence {
			if m := ownerWorker().FindStringSubmatch(e.Text); m != nil {
				owner := b.processName(m[1])
				return encloseIfAny(cmp.Or(name, "an object")+" whose owner, ", owner, ", had ended"+b.wantedEnd(m[1]))
			}
		}
		return name
	})
}

// wantedEnd returns why the actor that ran in a worker (its ID in hex) had ended, as the end of a title: ", because …".
// It is "" if no actor ran there, or if nobody wanted its end: then a finding tells of it.
func (b *builder) wantedEnd(id string) string {
	worker, err := rayid.Parse[rayid.Worker](id)
	if err != nil {
		return ""
	}
	a := b.actorIn(worker)
	if a == nil {
		return ""
	}
	state, _ := moment.ActorAt(a, b.moment.At)
	why, told := strings.CutPrefix(deathSentence(state.Cause().Text), deadBecause)
	if !told || !wasIntendedDeath(state.Cause()) {
		return ""
	}
	return ", because" + strings.TrimSuffix(why, ".")
}

// onlyName returns the first group of all matches, if it is the same in all of them; "" otherwise.
func onlyName(matches [][]string) (name string) {
	for _, m := range matches {
		if name != "" && name != m[1] {
			return ""
		}
		name = m[1]
	}
	return name
}

// encloseIfAny returns a text with what comes before and after it; "" if the text is empty.
func encloseIfAny(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + text + after
}

// replaceIDs replaces each match of an expression in a text by the name that named returns for the match's first group;
// a match without a name stays. sign is in each match, and is quicker to search for than the expression.
func replaceIDs(text, sign string, expression func() *regexp.Regexp, named func(id string) string) string {
	if !strings.Contains(text, sign) {
		return text
	}
	return expression().ReplaceAllStringFunc(text, func(match string) string {
		return cmp.Or(named(expression().FindStringSubmatch(match)[1]), match)
	})
}

// taskNamed returns the name of the first attempt for which a field of the table of tasks is id; "" if there is none.
func (b *builder) taskNamed(field, id string) string {
	for _, a := range b.selectAttempts(field, id, 1) {
		return a.name()
	}
	return ""
}

const maxNamed = 20 // processes that one report looks for

// processName says what ran in a worker's process (its ID in hex): a driver, an actor, or tasks of a function. It is ""
// if that is not known, or if maxNamed processes were looked for already.
func (b *builder) processName(id string) string {
	name, known := b.processNames[id]
	worker, err := rayid.Parse[rayid.Worker](id)
	if err != nil || known || len(b.processNames) >= maxNamed {
		return name
	}
	isDriver := func(j job) bool { return id == moment.DriverWorker(j.id) }
	if i := slices.IndexFunc(b.jobs, isDriver); i >= 0 {
		name = "the driver of job " + b.jobs[i].name()
	} else if a := b.actorIn(worker); a != nil {
		name = "actor " + actorName(a)
	} else {
		name = encloseIfAny("a worker that ran ", b.taskNamed("worker_id", id), "")
	}
	b.processNames[id] = name
	return name
}

// actorIn returns the actor that runs or ran in a worker's process; nil if there is none.
func (b *builder) actorIn(worker rayid.Worker) *entities.Actor {
	for i := range b.session.Actors {
		state, existed := moment.ActorAt(&b.session.Actors[i], b.moment.At)
		if existed && (state.Worker == worker || slices.ContainsFunc(state.FormerProcesses,
			func(p moment.ActorProcess) bool { return p.Worker == worker })) {
			return &b.session.Actors[i]
		}
	}
	return nil
}
