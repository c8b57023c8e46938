package findings

import (
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
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
// finding's kind and its title, without what differs between runs: numbers, addresses, IDs, the job's own name, and the
// names of what failed with a node.
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

// FirstError returns the first error, which counts as the cause of the session's end; nil if there is none.
func (r *Report) FirstError() *Finding {
	for _, f := range r.Findings {
		if f.Severity == Error {
			return f
		}
	}
	return nil
}

// Errors returns how many findings have the severity Error.
func (r *Report) Errors() int { return r.count(Error) }

// count returns how many findings have a severity.
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
