package fleet

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Report adds up the sessions of some days. Ranked tables are cut to the requested number of rows.
type Report struct {
	From string `json:"from"` // the first day, UTC
	To   string `json:"to"`   // the last one
	By   string `json:"by"`   // the figure by which tables are ranked, one of Resources
	// Currency is that of all costs; "": there are no prices, and no costs.
	Currency string `json:"currency,omitempty"`
	// Budget is that of all namespaces for these days; 0: one has none.
	Budget float64 `json:"budget,omitempty"`
	// Total is the total over all sessions. Its runs are sessions.
	Total Total `json:"total"`
	// Before is the total over as many days before; nil: the sessions are too many.
	Before *Before `json:"before,omitempty"`
	// Days are those on which sessions began, the first one first.
	Days []Day `json:"days"`
	// Causes are the failures that came first in a session, the most frequent first.
	Causes []Cause `json:"causes"`
	// Namespaces, Owners and Jobs are ranked by how much of the resource By their nodes offered.
	Namespaces []Usage `json:"namespaces"`
	Owners     []Usage `json:"owners"`
	Jobs       []Usage `json:"jobs"`
	// Users are those that jobs' metadata names. Their runs are jobs.
	Users []Usage `json:"users"`
	// Slower are jobs whose successful runs take longer in the second half of the days than in the first, the greatest
	// ratio first.
	Slower []Slower `json:"slower"`
	// Sessions are the sessions whose nodes offered most of By.
	Sessions []Session `json:"sessions"`
	// LeftOut counts, by table, what the table leaves out: rows beyond the requested number, and things that were not
	// counted one by one.
	LeftOut map[string]int `json:"left_out"`
}

// Counts are numbers of sessions by outcome.
type Counts struct {
	Sessions   int `json:"sessions"`
	Failed     int `json:"failed"`
	Succeeded  int `json:"succeeded"`
	Stopped    int `json:"stopped"`
	Unfinished int `json:"unfinished"`
	Running    int `json:"running"`
	Unknown    int `json:"unknown"`       // ended; nothing of their jobs is stored
	NotYet     int `json:"not_known_yet"` // ended; nobody has found out how
}

// outcomeCount is where the sessions with an outcome are counted.
type outcomeCount struct {
	outcome  string
	sessions *int
}

// byOutcome are the counts in the order in which they are shown.
func (c *Counts) byOutcome() [7]outcomeCount {
	return [...]outcomeCount{
		{catalog.Failed, &c.Failed}, {catalog.Succeeded, &c.Succeeded}, {catalog.Stopped, &c.Stopped},
		{catalog.Unfinished, &c.Unfinished}, {catalog.Running, &c.Running}, {catalog.Unknown, &c.Unknown},
		{catalog.NotKnownYet, &c.NotYet},
	}
}

// Each yields the outcomes in words, such as "not known yet", and the number of sessions of each.
func (c Counts) Each() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, n := range c.byOutcome() {
			if !yield(strings.ReplaceAll(n.outcome, "-", " "), *n.sessions) {
				return
			}
		}
	}
}

// add counts a session by its outcome. An outcome of an ended session that is not one of catalog.Outcomes, such as "",
// counts as not known yet.
func (c *Counts) add(running bool, outcome string) {
	switch {
	case running:
		outcome = catalog.Running
	case !slices.Contains(catalog.Outcomes, outcome):
		outcome = catalog.NotKnownYet
	}
	c.Sessions++
	for _, n := range c.byOutcome() {
		if n.outcome == outcome {
			*n.sessions++
		}
	}
}

// Total is the sum over all sessions.
type Total struct {
	Counts
	// Unpacked sessions have ended, but no pack has their causes, jobs and hours. Unmeasured sessions are those whose
	// hours are not known, including running and unpacked ones.
	Unpacked   int   `json:"unpacked"`
	Unmeasured int   `json:"unmeasured"`
	Hours      Hours `json:"hours"`
}

// Before is the total over the days before those of a report.
type Before struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Total Total  `json:"total"`
}

// Day is a day with the sessions that began on it.
type Day struct {
	Day string `json:"day"` // 2026-11-20, UTC
	Counts
	Cost float64 `json:"cost,omitempty"` // of these sessions, whenever they ran
}

// Cause is a failure that came first in one or more sessions.
type Cause struct {
	Signature string    `json:"signature"`
	Kind      string    `json:"kind"`
	Title     string    `json:"title"` // of the latest session
	Sessions  int       `json:"sessions"`
	First     time.Time `json:"first"` // when the first such session began
	Last      time.Time `json:"last"`
	Latest    Place     `json:"latest"`
}

// Place names a session.
type Place struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Session   string `json:"session"`
}

func placeOf(ref layout.Session) Place { return Place{ref.Namespace, ref.Cluster, ref.Name} }

// Usage is what a namespace, an owner or a job used.
type Usage struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind,omitempty"` // of an owner
	Name      string `json:"name,omitempty"` // of an owner or a job; of a job that nothing names ""
	Runs      int    `json:"runs"`           // sessions; of a job its runs
	Failed    int    `json:"failed"`         // of the runs
	Hours     Hours  `json:"hours"`
	// Budget is what a namespace may cost in these days; 0: nothing says so.
	Budget float64 `json:"budget,omitempty"`
}

// Hours are sums of what nodes offered to Ray and of what was in use, times hours. Memory is in GiB. A session's hours
// are divided among its jobs in proportion to how long each ran.
type Hours struct {
	Node   float64  `json:"node"`
	CPU    Resource `json:"cpu"`
	GPU    Resource `json:"gpu"`
	Memory Resource `json:"memory"`
	Cost   float64  `json:"cost,omitempty"` // by the prices, of what was offered
}

// resources are those of CPUs, GPUs and memory, as in packs.Used.Each.
func (h *Hours) resources() [3]*Resource { return [...]*Resource{&h.CPU, &h.GPU, &h.Memory} }

// Resource is an amount of one resource, in hours.
type Resource struct {
	Offered float64 `json:"offered"`
	// Measured is the part of Offered from sessions whose use is known. Used is what was used of it.
	Measured float64 `json:"measured"`
	Used     float64 `json:"used"`
	// Unused is the share of Measured that was not used, 0 to 1; nil: not known.
	Unused *float64 `json:"unused"`
}

// Slower is a job whose runs take longer than before.
type Slower struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Before    Pace    `json:"before"` // of runs that began in the earlier half of the days
	After     Pace    `json:"after"`
	Ratio     float64 `json:"ratio"` // of the means, above 1
}

// Pace is how long runs took.
type Pace struct {
	Runs int     `json:"runs"`
	Mean float64 `json:"mean_seconds"`
}

// Session is one session with what it used.
type Session struct {
	Place
	Owner   string    `json:"owner"`
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	Outcome string    `json:"outcome,omitempty"`
	Hours   Hours     `json:"hours"`
}

// setUnused sets Unused of each resource, which is computed when all is added up.
func (h *Hours) setUnused() {
	for _, r := range h.resources() {
		if r.Measured > 0 {
			unused := max(0, 1-r.Used/r.Measured)
			r.Unused = &unused
		}
	}
}
