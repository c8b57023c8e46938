package findings

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Severities of a finding.
const (
	Error   = "error"   // it made a job fail, or nothing shows that the job continued
	Warning = "warning" // something failed, but the job did not
	Info    = "info"    // somebody wanted it
)

// Severities are all severities, the worst first.
var Severities = []string{Error, Warning, Info}

// Kinds of findings. docs/findings.md says which data each kind uses.
const (
	OutOfMemory   = "out_of_memory"
	NodeDied      = "node_died"
	GCSDied       = "gcs_died"
	Pod           = "pod"
	WorkerDied    = "worker_died"
	WorkerStart   = "worker_start"
	ActorDied     = "actor_died"
	ActorStart    = "actor_start"
	TaskFailed    = "task_failed"
	RuntimeEnv    = "runtime_env"
	Entrypoint    = "entrypoint"
	JobFailed     = "job_failed"
	DriverKilled  = "driver_killed"
	Unschedulable = "unschedulable"
	Starved       = "starved"
	ObjectStore   = "object_store"
	ObjectLost    = "object_lost"
	Serve         = "serve"
	Data          = "data"
	Train         = "train"
	Timeout       = "timeout"
	Unended       = "unfinished"
	Cancelled     = "cancelled"
	JobStopped    = "stopped"
)

// Report says why a session ended as it did, or what had failed at a moment, as far as that is known.
type Report struct {
	Session    string     `json:"session"`
	At         string     `json:"at,omitempty"` // the requested moment, RFC 3339; "" is the session's end
	Outcome    string     `json:"outcome"`      // one of catalog.Outcomes, or catalog.Running
	Summary    string     `json:"summary"`      // one sentence
	Findings   []*Finding `json:"findings"`
	Jobs       []Job      `json:"jobs"` // the failed ones first
	Unfinished Counts     `json:"unfinished"`
	Missing    []string   `json:"missing"` // sentences about what is known to be lost

	// Partial reports whether something could not be read, because of the store or a limit of queries, and may be
	// readable at another time. Such a report is not kept, neither here nor by clients.
	Partial bool `json:"-"`
}

// Counts says how many of each had not ended when the session ended.
type Counts struct {
	Jobs            int `json:"jobs"`
	Tasks           int `json:"tasks"` // attempts
	Actors          int `json:"actors"`
	PlacementGroups int `json:"placement_groups"`
}

// Finding is one thing that went wrong, and how often it happened. In a report, causes come before their consequences.
type Finding struct {
	ID           string     `json:"id"`
	Kind         string     `json:"kind"`
	Severity     string     `json:"severity"`
	Title        string     `json:"title"`
	Count        int        `json:"count"`
	First        string     `json:"first,omitempty"` // RFC 3339
	Last         string     `json:"last,omitempty"`
	JobID        string     `json:"job_id,omitempty"`
	SubmissionID string     `json:"submission_id,omitempty"`
	Because      []string   `json:"because"` // IDs of the findings that caused this one
	Entities     []Entity   `json:"entities"`
	Evidence     []Evidence `json:"evidence"`
	Advice       string     `json:"advice"`
	Docs         string     `json:"docs"`
}

// Signature returns a text that is the same for findings about the same failure in two sessions or two jobs. It is the
// kind and the title without what differs between runs: numbers, addresses, IDs, the job's own name, and what failed
// with a node.
func (f *Finding) Signature() string {
	title, _, _ := strings.Cut(f.Title, failedWith)
	for _, name := range []string{f.SubmissionID, f.JobID} {
		if name != "" {
			title = strings.ReplaceAll(title, "ob "+name+" ", "ob # ")
		}
	}
	// A node without a known address is named by the beginning of its ID.
	title = shortID().ReplaceAllStringFunc(title, func(word string) string {
		if strings.ContainsAny(word, "0123456789") {
			return "#"
		}
		return word
	})
	title = strings.Replace(output.Normalised(title), " # times", "", 1)
	return f.Kind + " " + strings.Join(strings.Fields(title), " ")
}

// shortID matches UUIDs, the beginnings of Ray's IDs, and words that look like them.
var shortID = lazyregexp.New(`\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b|\b[0-9a-fA-F]{8,15}\b`)

// Entity is a thing of the cluster that a finding is about.
type Entity struct {
	// task, actor, node, job, placement_group, deployment, pod or another kind of object of Kubernetes
	Type string `json:"type"`
	ID   string `json:"id"`
	Name string `json:"name"`
	Link string `json:"link,omitempty"` // path in the history server
}

// Evidence is a stored text that shows a finding.
type Evidence struct {
	Source string `json:"source"` // log, event, snapshot or metric
	NodeID string `json:"node_id,omitempty"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"` // from 1; 0 if it is not known
	Time   string `json:"time,omitempty"` // RFC 3339
	Text   string `json:"text"`
	Link   string `json:"link,omitempty"`
}

// Errors counts the findings of severity error.
func (r *Report) Errors() int { return r.count(Error) }

// count counts the findings of a severity.
func (r *Report) count(severity string) (n int) {
	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// Limits of a report.
const (
	maxFindings = 200
	maxEntities = 20 // of one finding; its Count includes all
	maxEvidence = 8  // of one finding
)

// finding is a Finding while the report is computed.
type finding struct {
	Finding
	key         string           // its kind, and what the failures that it counts have in common
	first, last int64            // Unix ns; 0 if not known
	raised      output.Exception // empty if no exception was
	job         rayid.Job        // nil if the finding is about no job or about several
	jobs        []rayid.Job      // all that the finding is about
	unrecovered int              // occurrences after which no retry succeeded
	recovered   int              // occurrences after which a retry succeeded
	because     []*finding
	repaired    *finding         // a failure that the driver may mean, though a later call succeeded; nil if none
	memory      string           // how much was used where memory ran out; "" if that is not known
	handled     output.Exception // what a driver handled when it raised the exception of its end; empty if nothing
	printed     string           // what the entrypoint had printed of an error before that of its end; "" if nothing
	demand      string           // the resources that were asked for; "" if the finding is not about resources
	names       []string         // of functions, actors and nodes that failed, in the order they were seen
	actors      []string         // the names that people gave to the actors that failed
	seen        map[string]bool  // the entities, by type and ID
	shown       map[string]bool  // the texts of the evidence, without what differs between occurrences
	places      []place
	advised     string // the name in help.json of what is said instead of its kind's help; "": nothing
	rooted      bool   // its first evidence is of a task that raised the exception itself
	jobEnd      bool   // the finding is about a job's own end
	silent      bool   // a job's end of which its program said nothing
	intended    bool   // somebody wanted it
	ofArgument  bool   // an actor was not created because an argument of its constructor had failed
	detached    bool   // it is about an actor that lives longer than its job, so that others may lack it
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
	f.count(o.at, o.recovered)
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

// count counts one occurrence at a time (Unix ns; 0 if it is not known). recovered says that a retry succeeded after
// it.
func (f *finding) count(at int64, recovered bool) {
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

// lasted counts what goes on as one occurrence, which was still so at a time.
func (f *finding) lasted(at int64) {
	if f.Count == 0 {
		f.count(at, false) // no retry
	}
	f.last = max(f.last, at)
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

// wrappers holds exceptions that only say that another exception was raised. Ray's events do not contain the other
// exception.
var wrappers = map[string]bool{"UserCodeException": true, "WorkerGroupError": true, "TrainingFailedError": true,
	"ControllerError": true}

// takeException takes the exception from a consequence of this finding, if this finding's own texts contain only a
// wrapper.
func (f *finding) takeException(consequence *finding) {
	if wrappers[f.raised.Type] && consequence.raised.Type != "" && !wrappers[consequence.raised.Type] {
		f.Title = strings.Replace(f.Title, f.raised.String(), consequence.raised.String(), 1)
		f.raised = consequence.raised
	}
}

// takeWhole takes an exception of whose message Ray kept only the end from the line of a log that has all of it.
func (f *finding) takeWhole(log string) {
	if f.raised.Type != "" || len(f.Evidence) == 0 {
		return
	}
	_, kept, _ := strings.Cut(f.Evidence[0].Text, "User exception:\n")
	kept, _, _ = strings.Cut(kept, "\n")
	at := strings.Index(log, kept)
	if at < 0 || len(kept) < minKept {
		return
	}
	line := log[strings.LastIndexByte(log[:at], '\n')+1 : at+len(kept)]
	if raised := output.ExceptionOf(line); raised.Type != "" {
		f.Title = strings.Replace(f.Title, f.raised.String(), raised.String(), 1)
		f.raised = raised
	}
}

const minKept = 20 // bytes of a message that are enough to find it in a log

// dependsOn reports whether a finding was caused by another one, directly or through others.
func (f *finding) dependsOn(other *finding, depth int) bool {
	return slices.ContainsFunc(f.because, func(c *finding) bool {
		return c == other || depth < maxFindings &&
			c.dependsOn(other, depth+1)
	})
}

// failedIn counts one failed attempt of a task. An exception that the task only passed on is not another failure.
func (f *finding) failedIn(task string, at int64, recovered bool) {
	f.count(at, recovered)
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
