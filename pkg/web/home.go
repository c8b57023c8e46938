package web

import (
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Home is the list of clusters and sessions.
type Home struct {
	Frame
	Storage string // where sessions are stored, in a few words
	Query   Query
	Wrong   Wrong // a parameter that cannot be read; there are no rows then
	Pager   Pager
	Rows    []Row

	Groups []Group // instead of rows, if the query has Group
	Runs   []Run   // the newest of the cluster or owner of which all sessions are

	catalog.Totals                   // of the complete list
	Found                  int       // how many sessions or groups the query found
	At                     time.Time // when the store was listed
	Waiting                bool      // the first listing has not ended
	Title, Trouble, Advice string    // why the list is missing or old
	LiveTrouble            string    // why running clusters may be missing
	AccessTrouble          string    // why sessions of other Kubernetes clusters are missing
	Beginning              bool      // older sessions are still missing, because the server has just started

	Namespaces []string // those of all sessions that the caller may see; not more than are offered to choose from
	// KubernetesClusters are those of the namespaces that have one.
	KubernetesClusters []string
	catalog.Tags                // users, labels and kinds of findings that sessions have
	Versions           []string // of the frontend's builds, newest first
	DashboardDir       string
}

func (Home) template() string { return "home.html" }

// Group is the sessions of one cluster or owner.
type Group struct {
	catalog.Group
	Link string // to the list of its sessions
	Runs []Run  // the newest of them
}

// Run is one session in a row of sessions of the same cluster or owner, drawn as a square.
type Run struct {
	catalog.Entry
	Duration time.Duration
	Path     string // of its dashboard, relative to the server's root
}

// runsOf is the data of the template that draws runs.
func runsOf(base string, runs []Run, label string) any {
	return struct {
		Base, Label string
		Runs        []Run
	}{base, label, runs}
}

// State is catalog.Running, the run's outcome, or catalog.NotKnownYet.
func (r Run) State() string {
	switch {
	case r.Running:
		return catalog.Running
	case r.Outcome == "":
		return catalog.NotKnownYet
	}
	return r.Outcome
}

// Sign is the character in the run's square.
func (r Run) Sign() string {
	return map[string]string{catalog.Failed: "✕", catalog.Succeeded: "✓", catalog.Stopped: "■",
		catalog.Unfinished: "!", catalog.Running: "▸"}[r.State()]
}

// Text says how the run ended: "failed after 12m, began 2026-11-20 23:19 UTC: the cause".
func (r Run) Text() string {
	text := strings.ReplaceAll(r.State(), "-", " ")
	if r.Duration > 0 {
		text += " after " + human.Duration(r.Duration)
	}
	text += ", began " + r.Start.UTC().Format("2006-01-02 15:04") + " UTC"
	if r.Cause != "" {
		text += ": " + output.Printable(r.Cause)
	}
	return text
}

// Row is one session of the list.
type Row struct {
	catalog.Entry
	Duration time.Duration
	Path     string // of its dashboard, relative to the server's root
	LivePath string // of the running cluster's own dashboard; "" if it cannot be reached
	Nearest  string // version of the frontend that is shown if none is chosen; "" if there is none
	Load     *Load  // nil: it is not being loaded
	Looking  bool   // its outcome is being read
	// Why is the text in which the search found the session, if the row does not show that text.
	Why string
	// Comparable says that the session is stored, so that it can be compared with another one.
	Comparable bool
	// Label is the text of the link to the session's note: how long the session is kept, such as "expires in 12 days"
	// or "pinned", or "note" if it only has a note. Note is the pin and the note.
	Label string
	Note  notes.Note
	// Warnings about the session; known of sessions in memory only.
	Warnings []string
	// Unfinished is what had not ended when the session did, such as "1 job, 5 actors"; known of sessions in memory
	// only.
	Unfinished string
}

// Owned says whether the list shows owners: a row has one, or the rows are sorted by it.
func (p Home) Owned() bool { return p.Query.Sort == "kind" || slices.ContainsFunc(p.Rows, Row.Owned) }

// Owned says whether the owner is another object than the cluster itself.
func (r Row) Owned() bool { return r.OwnerName != r.Ref.Cluster }

// Load is the progress of a session's load, in bytes of stored events.
type Load struct {
	Queued      bool
	Done, Total int64
}

// maxNamespaceChips is how many namespaces have chips. The form's field offers all of Home.Namespaces.
const maxNamespaceChips = 8

// NamespaceChips are filters by the first namespaces; none if there is only one, or if one is chosen.
func (h Home) NamespaceChips() (chips []Chip) {
	if len(h.Namespaces) < 2 || h.Query.Filter.Has("namespace") {
		return nil
	}
	for _, name := range h.Namespaces[:min(len(h.Namespaces), maxNamespaceChips)] {
		chips = append(chips, h.Query.filterChip("namespace", name))
	}
	return chips
}

// causes are the kinds of findings that have chips, if sessions have them. They are those that people look for; the
// most frequent kinds say little.
var causes = []string{findings.OutOfMemory, findings.NodeDied, findings.WorkerDied, findings.ActorDied,
	findings.Unschedulable}

// CauseChips are filters by the kinds of causes; none if the list is filtered by a kind.
func (h Home) CauseChips() (chips []Chip) {
	for _, kind := range causes {
		if !h.Query.Filter.Has("finding") && slices.Contains(h.Findings, kind) {
			chip := h.Query.filterChip("finding", kind)
			chip.Value = kindText(kind)
			chips = append(chips, chip)
		}
	}
	return chips
}

// FindingKinds are the kinds of findings that the form offers: the known ones, and the chosen one.
func (h Home) FindingKinds() []string {
	chosen := h.Query.Filter.Get("finding")
	if chosen == "" || slices.Contains(h.Findings, chosen) {
		return h.Findings
	}
	return append(slices.Clip(h.Findings), chosen)
}

// maxTagChips is how many users, and how many labels, have chips.
const maxTagChips = 5

// TagChips are filters by the most frequent users and labels.
func (h Home) TagChips() (chips []Chip) {
	for _, tag := range []struct {
		name   string
		values []string
	}{{"user", h.Users}, {"label", h.Labels}} {
		if h.Query.Filter.Has(tag.name) {
			continue
		}
		for _, value := range tag.values[:min(len(tag.values), maxTagChips)] {
			chips = append(chips, h.Query.filterChip(tag.name, value))
		}
	}
	return chips
}

// Place is a namespace as the list shows it: its own name and, with a link to its sessions, its Kubernetes cluster.
type Place struct {
	Namespace string
	Cluster   Chip // Value is "" if the Kubernetes cluster has no name
}

// Place returns a namespace as the list shows it. full is its name with that of its Kubernetes cluster.
func (h Home) Place(full string) Place {
	namespace, cluster := layout.SplitNamespace(full)
	return Place{namespace, h.Query.filterChip("kubernetes_cluster", cluster)}
}

// Pager says which part of the list is shown; rows count from 1.
type Pager struct {
	Page, Pages, From, To int
}

// Numbers are the numbers of the pages to link to: the first, the last and those near the shown one. 0 stands for a
// gap.
func (p Pager) Numbers() []int {
	const near = 2
	var pages []int
	last := 0
	add := func(from, to int) {
		if from > last+1 {
			pages = append(pages, 0)
		}
		for n := max(from, last+1); n <= to; n++ {
			pages, last = append(pages, n), n
		}
	}
	add(1, 1)
	add(max(1, p.Page-near), min(p.Page+near, p.Pages))
	add(p.Pages, p.Pages)
	return pages
}

// Previous is the page before, 0 if there is none.
func (p Pager) Previous() int { return p.Page - 1 }

// Next is the page after, 0 if there is none.
func (p Pager) Next() int {
	if p.Page == p.Pages {
		return 0
	}
	return p.Page + 1
}
