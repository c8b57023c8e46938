package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// maxStart is how long after the last worker that did not start something may have waited for it (ns). The raylet logs
// such a worker, and starts another one, when it has not registered for a minute.
const maxStart = 60e9 + atTheEnd

// linkException links a finding whose exception tells of another failure to the findings about that failure. text is
// the exception's traceback.
func (b *builder) linkException(f *finding, text string) {
	kinds := failuresBehind(f.raised, text)
	if kinds == nil {
		return
	}
	if m := actorID().FindStringSubmatch(text); m != nil {
		if id, err := rayid.Parse[rayid.Actor](m[1]); err == nil && b.actors[id] != nil {
			f.causedBy(b.actors[id])
			return
		}
	}
	j, ownerNode := b.jobOfID(f.job), "" // ownerNode: where the process was that owned a lost object
	if m := ownerWorker().FindStringSubmatch(text); m != nil {
		owner, _ := rayid.Parse[rayid.Worker](m[1]) // the expression matched 56 hexadecimal digits
		ownerNode = m[2]
		f.addEvidence(b.deaths[owner].evident)
		if f.raised.Type == "OwnerDiedError" && b.linkOwner(f, owner) {
			return
		}
	}
	for _, kind := range kinds { // the first kind counts of which there is a finding
		for _, other := range b.findings {
			overBefore := ownerNode == "" && j.beganAfter(other)
			if other != f && other.Kind == kind && !overBefore && f.mayTellOfFailure(other, text, ownerNode) {
				f.causedBy(other)
			}
		}
		if len(f.because) > 0 {
			return
		}
	}
}

// mayTellOfFailure reports whether the finding's exception may be about the failure of another finding, whose kind
// fits. text is the exception's traceback, and ownerNode is the ID of the node that it names as that of an object's
// owner; "" if it names none.
func (f *finding) mayTellOfFailure(other *finding, text, ownerNode string) bool {
	switch {
	case other.Kind == NodeDied:
		// a node belongs to no job, even if its finding names one; whom somebody ended, no node took along
		wanted := slices.ContainsFunc(wantedEnds, func(said string) bool { return strings.Contains(text, said) })
		return !wanted && ownerNode == "" || ownerNode != "" && other.isAbout("node", ownerNode)
	case other.Kind == WorkerStart && f.last-other.last > maxStart:
		return false
	case other.aboutOther(text), f.raised.Type == "RayServeException" && !other.namedIn(text):
		return false // it is about another deployment
	}
	return other.job == f.job || other.job.Nil() || f.job.Nil()
}

// linkOwner links a finding about a lost object to the end of the process that owned the object, and reports whether it
// could.
func (b *builder) linkOwner(f *finding, owner rayid.Worker) bool {
	if owner.Nil() {
		return false
	}
	if a := b.actorIn(owner); a != nil && b.actors[a.ID] != nil {
		f.causedBy(b.actors[a.ID])
		return len(f.because) > 0
	}
	d, known := b.deaths[owner]
	if !known || d.wasIntended() || d.driver {
		return false
	}
	who := cmp.Or(b.processName(owner.String()), "a worker")
	died := b.processDied(WorkerDied, "owner "+d.job.String(),
		"The process that owned objects, "+who+", died", owner, d)
	died.add(occurrence{at: d.at, job: f.job, node: d.node, evidence: []Evidence{d.evident}})
	f.causedBy(died)
	return len(f.because) > 0
}

// actorLookUp matches Ray's message about an actor that was asked for by its name and is not there.
var actorLookUp = lazyregexp.New(`Failed to look up actor with name '([^'\n]{1,200})'`)

// showLookedUp adds to the finding about an actor that was not found by its name how the first actor of that name had
// ended. If that actor was there, it adds its namespace, because the driver may have asked in another one.
func (b *builder) showLookedUp(f *finding) {
	m := actorLookUp().FindStringSubmatch(f.raised.Message)
	for i := 0; m != nil && i < len(b.session.Actors); i++ {
		a := &b.session.Actors[i]
		state, existed := moment.ActorAt(a, cmp.Or(f.last, b.moment.At))
		if a.Name != m[1] || !existed {
			continue
		}
		how := state.Cause().Text
		switch {
		case state.State != moment.Dead || a.Job == f.job && isJobEnd([]byte(how)):
			f.appendTitle(fmt.Sprintf("; actor %s was in namespace %q", actorName(a), a.Namespace))
		case how == "":
			f.appendTitle(fmt.Sprintf("; actor %s had ended before", actorName(a)))
		default:
			f.appendTitle(fmt.Sprintf("; actor %s had ended before: %s", actorName(a), deathSentence(how)))
		}
		f.addEntity(b.actorEntity(a))
		return
	}
}

// linkLostNode links a finding about what may have been lost with a node to the node that died and that Ray's message,
// text, names, or else to all nodes that died, without those that were gone before the finding's job began.
func (b *builder) linkLostNode(f *finding, text string) {
	if named := b.lostNodeIn(text); !named.Nil() {
		f.causedBy(b.lostNodes[named])
		return
	}
	j := b.jobOfID(f.job)
	for _, lost := range b.findings {
		if lost.Kind == NodeDied && !j.beganAfter(lost) {
			f.causedBy(lost)
		}
	}
}

// mentions reports whether a text contains a name as a word of its own. The name in a file's name does not count: the
// function train is often in train.py.
func mentions(text, name string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		at += i + len(name)
		if !inWord(text[:at-len(name)], text[at:]) {
			return true
		}
	}
}

// inWord reports whether what stands between two texts is part of a longer word, of a word with hyphens, of a path, or
// of the name of a Python file.
func inWord(before, after string) bool {
	last, size := utf8.DecodeLastRuneInString(before)
	next, length := utf8.DecodeRuneInString(after)
	if last == '-' {
		last, _ = utf8.DecodeLastRuneInString(before[:len(before)-size])
	}
	if next == '-' {
		next, _ = utf8.DecodeRuneInString(after[length:])
	}
	return isLetter(last) || last == '/' || isLetter(next) || next == '/' || strings.HasPrefix(after, ".py")
}

// isLetter reports whether a character may be part of a name in a program.
func isLetter(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
