package findings

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// finding is a Finding while the report is computed.
type finding struct {
	Finding
	key          string             // its kind, and what the failures that it counts have in common
	first, last  int64              // Unix ns; 0 if not known
	raised       output.Exception   // empty if no exception was
	job          rayid.Job          // nil if the finding is about no job or about several
	jobs         map[rayid.Job]bool // all that the finding is about
	unrecovered  int                // occurrences after which no retry succeeded
	recovered    int                // occurrences after which a retry succeeded
	because      []*finding
	repaired     *finding         // a failure that the driver may mean, though a later call succeeded; nil if none
	memory       string           // how much was used where memory ran out; "" if that is not known
	handled      output.Exception // what a driver handled when it raised the exception of its end; empty if nothing
	earlierError string           // what the entrypoint had printed of an error before that of its end; "" if nothing
	demand       string           // the resources that were asked for; "" if the finding is not about resources
	names        []string         // of functions, actors and nodes that failed, in the order they were seen
	actors       []string         // the names that people gave to the actors that failed
	shownTexts   map[string]bool  // the texts of the evidence, without what differs between occurrences
	places       []place
	helpName     string // the name in help.json of what is said instead of its kind's help; "": nothing
	raiserShown  bool   // its first evidence is of a task that raised the exception itself
	ended        *job   // the job whose own end the finding is about; nil: it is about something else
	silent       bool   // a job's end of which its program said nothing
	intended     bool   // somebody wanted it
	ignored      bool   // its program said that it may fail
	late         bool   // worker processes were still starting when Ray gave them up, as on a node with too much to do
	ofArgument   bool   // an actor was not created because an argument of its constructor had failed
	keptOut      bool   // it is about pods that did not run, or could not be made
	detached     bool   // it is about an actor that lives longer than its job, so that others may lack it
}

// occurrence is one time that something failed.
type occurrence struct {
	at        int64 // Unix ns; 0 if it is not known
	recovered bool  // a retry succeeded after it
	job       rayid.Job
	node      rayid.Node // where it was, if metrics of the node may help to explain it
	name      string     // of what failed
	entity    Entity
	evidence  []Evidence
}

// add counts an occurrence and adds what it was about.
func (f *finding) add(o occurrence) {
	f.countAttempt(o.at, o.recovered)
	f.addPlace(o.node, o.at)
	f.describe(o)
}

// describe adds the name, job, entity and evidence of an occurrence to the finding. It does not count the occurrence.
func (f *finding) describe(o occurrence) {
	f.addName(o.name)
	f.addJob(o.job)
	f.addEntity(o.entity)
	for _, e := range o.evidence {
		f.addEvidence(e)
	}
}

// count counts one occurrence after which no retry succeeded. at is its time (Unix ns; 0 if it is not known).
func (f *finding) count(at int64) { f.countAttempt(at, false) }

// countAttempt counts one occurrence at a time (Unix ns; 0 if it is not known). recovered says that a retry succeeded
// after it.
func (f *finding) countAttempt(at int64, recovered bool) {
	f.Count++
	if recovered {
		f.recovered++
	} else {
		f.unrecovered++
	}
	if at == 0 {
		return
	}
	if f.first == 0 || at < f.first {
		f.first = at
	}
	f.last = max(f.last, at)
}

// lastUntil has the finding last until a time (Unix ns; 0 if it is not known). However often it is called, the finding
// is counted once: it is about something that goes on.
func (f *finding) lastUntil(at int64) {
	if f.Count == 0 {
		f.count(at)
	}
	if at != 0 {
		f.first, f.last = min(cmp.Or(f.first, at), at), max(f.last, at)
	}
}

// addJob adds a job that the finding is about. f.job is that job as long as it is the only one, and nil from the second
// one on.
func (f *finding) addJob(job rayid.Job) {
	if job.Nil() || f.jobs[job] {
		return
	}
	if f.jobs == nil {
		f.jobs = map[rayid.Job]bool{}
	}
	f.jobs[job] = true
	f.job = job
	if len(f.jobs) > 1 {
		f.job = rayid.Job{}
	}
}

// addEntity adds a thing that the finding is about, unless the finding has it already or has maxEntities of them.
func (f *finding) addEntity(e Entity) {
	if e.Type != "" && len(f.Entities) < maxEntities && !f.isAbout(e.Type, e.ID) {
		f.Entities = append(f.Entities, e)
	}
}

// isAbout reports whether the finding has a thing among its entities, by type and ID.
func (f *finding) isAbout(kind, id string) bool {
	return slices.ContainsFunc(f.Entities, func(e Entity) bool { return e.Type == kind && e.ID == id })
}

// addName adds the name of something that failed.
func (f *finding) addName(name string) {
	if name != "" && len(f.names) < maxEntities && !slices.Contains(f.names, name) {
		f.names = append(f.names, name)
	}
}

// addActor adds the name of an actor that failed, if people gave it one.
func (f *finding) addActor(a *entities.Actor) {
	if a != nil && a.Name != "" && len(f.actors) < maxEntities && !slices.Contains(f.actors, a.Name) {
		f.actors = append(f.actors, a.Name)
	}
}

// addRaiser adds the name of an actor, if people gave it one, unless its call only passed on the exception of another
// function.
func (f *finding) addRaiser(a *entities.Actor, call string) {
	if cmp.Or(f.raised.Function, call) == call {
		f.addActor(a)
	}
}

// nameActors replaces the name of one actor in parentheses in the title by the names of all actors that failed.
func (f *finding) nameActors() {
	for _, name := range f.actors {
		if one := "(" + name + ")"; strings.Contains(f.Title, one) {
			f.Title = strings.Replace(f.Title, one, "("+listNames(slices.Sorted(slices.Values(f.actors)))+")", 1)
			return
		}
	}
}

// addEvidence adds a text that shows the finding. It leaves out a text that differs from an earlier one only in words
// with digits, and all texts beyond maxEvidence.
func (f *finding) addEvidence(e Evidence) {
	e.Text = output.Excerpt(e.Text)
	if e.Text == "" || len(f.Evidence) >= maxEvidence {
		return
	}
	common := e.Source + string(appendCommon(nil, []byte(e.Text)))
	if f.shownTexts[common] {
		return
	}
	if f.shownTexts == nil {
		f.shownTexts = map[string]bool{}
	}
	f.shownTexts[common] = true
	f.Evidence = append(f.Evidence, e)
}

// causedBy links a finding to its cause. It does nothing if there is no cause, if the cause is itself a consequence of
// the finding, or if it began after the finding was over.
func (f *finding) causedBy(cause *finding) {
	if cause == nil || cause == f || slices.Contains(f.because, cause) || cause.dependsOn(f) || f.endedBefore(cause) {
		return
	}
	f.because = append(f.because, cause)
}

// noticedLate is how long after a consequence Ray may notice its cause, and nodeNoticedLate so for a node that is lost,
// by the head or by Serve's controller.
const (
	noticedLate     = int64(5 * time.Second)
	nodeNoticedLate = int64(60 * time.Second)
)

// endedBefore reports whether a finding was over before another one began, which is then not its cause. The other one
// may begin a little later: the head notices only after a while that a node is lost, and demands are reported only
// every few seconds.
func (f *finding) endedBefore(cause *finding) bool {
	late := noticedLate
	if cause.Kind == NodeDied {
		late = nodeNoticedLate
	}
	return f.last != 0 && cause.first > f.last+late
}

// takeException replaces the finding's exception, also in the title, by a more telling one: raised must not be a
// wrapper, and the finding's own must be one.
func (f *finding) takeException(raised output.Exception) {
	if wrappers[f.raised.Type] && raised.Type != "" && !wrappers[raised.Type] {
		f.Title = strings.Replace(f.Title, f.raised.String(), raised.String(), 1)
		f.raised = raised
	}
}

// dependsOn reports whether a finding was caused by another one, directly or through others. Causes form no circle,
// because causedBy adds none that would close one, but there may be very many ways to the same cause.
func (f *finding) dependsOn(other *finding) bool {
	return slices.Contains(withCauses(f.because), other)
}

// countTaskAttempt counts one failed attempt of a task at a time (Unix ns). If the exception was raised by another
// function, and the task only passed it on, the attempt does not raise the finding's Count.
func (f *finding) countTaskAttempt(task string, at int64, recovered bool) {
	f.countAttempt(at, recovered)
	if f.raised.Function != "" && f.raised.Function != task {
		f.Count--
	}
}

// showRaiser puts the first task that raised the exception itself before those that passed it on: its evidence before
// their evidence, and its entity before their entities.
func (f *finding) showRaiser(task string, e Entity, evident Evidence) {
	if f.raiserShown || f.raised.Function != task {
		return
	}
	f.raiserShown = true
	evident.Text = output.Excerpt(evident.Text)
	others := slices.DeleteFunc(f.Evidence, func(shown Evidence) bool { return shown.Text == evident.Text })
	f.Evidence = append([]Evidence{evident}, others[:min(len(others), maxEvidence-1)]...)
	f.addEntity(e)
	if i := slices.IndexFunc(f.Entities, func(other Entity) bool { return other.ID == e.ID }); i > 0 {
		f.Entities = slices.Concat([]Entity{e}, f.Entities[:i], f.Entities[i+1:])
	}
}

// appendTitle adds words to a title, in place of a full stop at its end.
func (f *finding) appendTitle(text string) { f.Title = strings.TrimSuffix(f.Title, ".") + text }

// unrepaired reports whether the finding is about a failure that nobody wanted and after which no retry succeeded, and
// not about a job's own end.
func (f *finding) unrepaired() bool { return f.ended == nil && !f.intended && f.unrecovered > 0 }

// rootCause returns the finding at the end of the chain of first causes; the finding itself if it has no cause.
func (f *finding) rootCause() *finding {
	for len(f.because) > 0 {
		f = f.because[0]
	}
	return f
}

// actorClass returns the class of the actor whose method is the first of the finding's names; "" if it has no names.
func (f *finding) actorClass() string {
	if len(f.names) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(withPlainNames(f.names[0]), " (") // the actor's own name
	class, _, _ := strings.Cut(name, ".")
	return class
}
