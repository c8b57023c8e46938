package findings

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// finding is a Finding while the report is computed.
type finding struct {
	Finding
	key          string           // its kind, and what the failures that it counts have in common
	first, last  int64            // Unix ns; 0 if not known
	raised       output.Exception // empty if no exception was
	job          rayid.Job        // nil if the finding is about no job or about several
	jobs         []rayid.Job      // all that the finding is about
	unrecovered  int              // occurrences after which no retry succeeded
	recovered    int              // occurrences after which a retry succeeded
	because      []*finding
	repaired     *finding         // a failure that the driver may mean, though a later call succeeded; nil if none
	memory       string           // how much was used where memory ran out; "" if that is not known
	handled      output.Exception // what a driver handled when it raised the exception of its end; empty if nothing
	earlierError string           // what the entrypoint had printed of an error before that of its end; "" if nothing
	demand       string           // the resources that were asked for; "" if the finding is not about resources
	names        []string         // of functions, actors and nodes that failed, in the order they were seen
	actors       []string         // the names that people gave to the actors that failed
	seen         map[string]bool  // the entities, by type and ID
	shown        map[string]bool  // the texts of the evidence, without what differs between occurrences
	places       []place
	advised      string // the name in help.json of what is said instead of its kind's help; "": nothing
	rooted       bool   // its first evidence is of a task that raised the exception itself
	jobEnd       bool   // the finding is about a job's own end
	silent       bool   // a job's end of which its program said nothing
	intended     bool   // somebody wanted it
	ignored      bool   // its program said that it may fail
	late         bool   // worker processes were still starting when Ray gave them up, as on a node with too much to do
	ofArgument   bool   // an actor was not created because an argument of its constructor had failed
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

// add counts an occurrence and describes it.
func (f *finding) add(o occurrence) {
	f.countAttempt(o.at, o.recovered)
	f.addPlace(o.node, o.at)
	f.describe(o)
}

// describe adds what an occurrence was about. It does not count it.
func (f *finding) describe(o occurrence) {
	f.addName(o.name)
	f.addJob(o.job)
	f.addEntity(o.entity)
	for _, e := range o.evidence {
		f.addEvidence(e)
	}
}

// count counts one occurrence, after which no retry succeeded, at a time (Unix ns; 0 if it is not known).
func (f *finding) count(at int64) { f.countAttempt(at, false) }

// countAttempt counts one occurrence at a time. recovered says that a retry succeeded after it.
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

// extend counts one occurrence that goes on, and extends it to a time (Unix ns); 0: the time is not known.
func (f *finding) extend(at int64) {
	if f.Count == 0 {
		f.count(at)
	}
	if at != 0 {
		f.first, f.last = min(cmp.Or(f.first, at), at), max(f.last, at)
	}
}

// addJob adds a job that the finding is about.
func (f *finding) addJob(job rayid.Job) {
	if job.Nil() || slices.Contains(f.jobs, job) {
		return
	}
	f.jobs = append(f.jobs, job)
	f.job = job
	if len(f.jobs) > 1 {
		f.job = rayid.Job{}
	}
}

// addEntity adds a thing that the finding is about, once.
func (f *finding) addEntity(e Entity) {
	key := e.Type + e.ID
	if key == "" || f.seen[key] || len(f.Entities) >= maxEntities {
		return
	}
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	f.seen[key] = true
	f.Entities = append(f.Entities, e)
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

// addRaiser adds the name of an actor of which a call raised the exception itself.
func (f *finding) addRaiser(a *entities.Actor, call string) {
	if cmp.Or(f.raised.Function, call) == call {
		f.addActor(a)
	}
}

// nameActors puts the names of all actors that failed into the title, where it has that of one.
func (f *finding) nameActors() {
	for _, name := range f.actors {
		if one := "(" + name + ")"; strings.Contains(f.Title, one) {
			f.Title = strings.Replace(f.Title, one, "("+quoted(slices.Sorted(slices.Values(f.actors)))+")", 1)
			return
		}
	}
}

// addEvidence adds a text that shows the finding, unless it only differs in numbers from one that is there.
func (f *finding) addEvidence(e Evidence) {
	e.Text = output.Excerpt(e.Text)
	if e.Text == "" || len(f.Evidence) >= maxEvidence {
		return
	}
	common := e.Source + string(appendCommon(nil, []byte(e.Text)))
	if f.shown[common] {
		return
	}
	if f.shown == nil {
		f.shown = map[string]bool{}
	}
	f.shown[common] = true
	f.Evidence = append(f.Evidence, e)
}

// causedBy links a finding to its cause. It does nothing if the cause is itself a consequence of the finding, or began
// after the finding was over.
func (f *finding) causedBy(cause *finding) {
	if cause == nil || cause == f || cause.dependsOn(f, 0) || f.endedBefore(cause) {
		return
	}
	if !slices.Contains(f.because, cause) {
		f.because = append(f.because, cause)
	}
}

// endedBefore reports whether a finding was over before another one began. Then the other one is not its cause. Some
// delay is allowed: the head notices only after a while that a node is lost, and demands are reported only every few
// seconds.
func (f *finding) endedBefore(cause *finding) bool {
	late := int64(5e9)
	if cause.Kind == NodeDied {
		late = 60e9
	}
	return f.last != 0 && cause.first > f.last+late
}

// takeException takes an exception that something else tells of, if this finding's own texts contain only a wrapper.
func (f *finding) takeException(raised output.Exception) {
	if wrappers[f.raised.Type] && raised.Type != "" && !wrappers[raised.Type] {
		f.Title = strings.Replace(f.Title, f.raised.String(), raised.String(), 1)
		f.raised = raised
	}
}

// dependsOn reports whether a finding was caused by another one, directly or through others.
func (f *finding) dependsOn(other *finding, depth int) bool {
	return slices.ContainsFunc(f.because, func(c *finding) bool {
		return c == other || depth < maxFindings &&
			c.dependsOn(other, depth+1)
	})
}

// failedIn counts one failed attempt of a task. An exception that the task only passed on is not another failure.
func (f *finding) failedIn(task string, at int64, recovered bool) {
	f.countAttempt(at, recovered)
	if f.raised.Function != "" && f.raised.Function != task {
		f.Count--
	}
}

// showRaiser puts the first task that raised the exception itself, and what Ray tells of it, before those that passed
// it on.
func (f *finding) showRaiser(task string, e Entity, evident Evidence) {
	if f.rooted || f.raised.Function != task {
		return
	}
	f.rooted = true
	evident.Text = output.Excerpt(evident.Text)
	others := slices.DeleteFunc(f.Evidence, func(shown Evidence) bool { return shown.Text == evident.Text })
	f.Evidence = append([]Evidence{evident}, others[:min(len(others), maxEvidence-1)]...)
	f.addEntity(e)
	if i := slices.IndexFunc(f.Entities, func(other Entity) bool { return other.ID == e.ID }); i > 0 {
		f.Entities = slices.Concat([]Entity{e}, f.Entities[:i], f.Entities[i+1:])
	}
}

// goOn adds to a title what goes on behind its sentence.
func (f *finding) goOn(text string) { f.Title = strings.TrimSuffix(f.Title, ".") + text }

// unrepaired reports whether the finding is about a failure that nobody wanted and after which no retry succeeded, and
// not about a job's own end.
func (f *finding) unrepaired() bool { return !f.jobEnd && !f.intended && f.unrecovered > 0 }

// root returns the first cause of a finding that has no cause; the finding itself if it has none.
func (f *finding) root() *finding {
	for len(f.because) > 0 {
		f = f.because[0]
	}
	return f
}

// hung reports whether the finding is about a call that did not end, or about a wait for one.
func (f *finding) hung() bool {
	return f.Kind == Timeout && (f.raised.Type == "GetTimeoutError" || f.root().raised.Type == "")
}

// actor returns the class of the actor of whose method the finding tells first; "" if it tells of none.
func (f *finding) actor() string {
	if len(f.names) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(plain(f.names[0]), " (") // the actor's own name
	class, _, _ := strings.Cut(name, ".")
	return class
}
