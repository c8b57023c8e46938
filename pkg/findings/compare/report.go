package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/rayhistory/historyserver/pkg/findings"
)

// Report is a comparison. Differences are Session's values minus With's.
type Report struct {
	Session *Side `json:"session"`
	With    *Side `json:"with"`

	Settings         []Setting  `json:"settings"` // those that differ
	SettingsLeftOut  int        `json:"settings_left_out"`
	Functions        []Function `json:"functions"` // those whose total times differ most first
	FunctionsLeftOut int        `json:"functions_left_out"`
	Findings         []Finding  `json:"findings"` // those of one side only first
	FindingsLeftOut  int        `json:"findings_left_out"`
	Nodes            []NodeType `json:"nodes"` // heads first
	NodesLeftOut     int        `json:"nodes_left_out"`
}

// Function is a function of both sides, or of one side; then all figures of the other side are 0.
type Function struct {
	Name       string  `json:"function"`
	Session    Runs    `json:"session"`
	With       Runs    `json:"with"`
	Difference float64 `json:"difference_seconds"` // of the totals
}

// Finding is what failed on one side or on both.
type Finding struct {
	Kind     string   `json:"kind"`
	Severity string   `json:"severity"` // the worse one
	Title    string   `json:"title"`    // of Session, else of With
	In       string   `json:"in"`       // session, with or both
	Session  *Failure `json:"session"`  // nil: it did not happen there
	With     *Failure `json:"with"`
}

// Failure says how often something failed on one side.
type Failure struct {
	Count int    `json:"count"`
	ID    string `json:"id"` // of the first such finding, the anchor on the page of findings
}

// Sides on which something failed.
const (
	InSession = "session"
	InWith    = "with"
	InBoth    = "both"
)

// NodeType stands for all nodes of one type.
type NodeType struct {
	Type        string  `json:"type"` // head, or the worker group's name, and the machine's type where it is known
	CPU         float64 `json:"cpu"`
	GPU         float64 `json:"gpu"`
	MemoryBytes float64 `json:"memory_bytes"` // for tasks and actors, the most that one of them has
	Session     Nodes   `json:"session"`
	With        Nodes   `json:"with"`
}

// Bounds of a report.
const (
	DefaultTop = 20  // functions
	MaxTop     = 200 // the maximum that a request may ask for
	maxRows    = 50  // of settings, findings, and types of nodes
)

// newReport makes the report of two sides, with at most top functions.
func newReport(session, with *Side, top int) *Report {
	r := &Report{Session: session, With: with}
	r.Settings, r.SettingsLeftOut = firstElements(differences(session, with), maxRows)
	r.Functions, r.FunctionsLeftOut = firstElements(functions(session, with), top)
	r.Findings, r.FindingsLeftOut = firstElements(failures(session, with), maxRows)
	r.Nodes, r.NodesLeftOut = firstElements(nodeTypes(session, with), maxRows)
	return r
}

// firstElements returns the first n elements of a list, and how many are left out.
func firstElements[T any](list []T, n int) ([]T, int) {
	n = min(n, len(list))
	return list[:n:n], len(list) - n
}

// valueOrZero returns a value, or a zero value for nil.
func valueOrZero[T any](v *T) (zero T) {
	if v == nil {
		return zero
	}
	return *v
}

// keysOfBoth returns the keys that at least one of two maps has.
func keysOfBoth[K comparable, V any](a, b map[K]V) map[K]bool {
	all := make(map[K]bool, len(a))
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return all
}

// functions returns the functions of both sides, those first whose total times differ most.
func functions(session, with *Side) []Function {
	list := []Function{}
	for name := range keysOfBoth(session.functions, with.functions) {
		inSession, inOther := valueOrZero(session.functions[name]), valueOrZero(with.functions[name])
		f := Function{Name: name, Session: inSession, With: inOther}
		f.Difference = round(f.Session.Total - f.With.Total)
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Function) int {
		return cmp.Or(
			cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)),
			cmp.Compare(b.Session.Attempts+b.With.Attempts, a.Session.Attempts+a.With.Attempts),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return list
}

// failures returns the findings of both sides: first those that only the session has, then those that only the other
// side has, then those of both, each in the order of their reports. Findings with the same signature are the same
// failure: if one side has several, their counts are added up, and the first one's ID is given.
func failures(session, with *Side) []Finding {
	known := map[string]*Finding{}
	var order []*Finding
	add := func(found []*findings.Finding, side func(*Finding) **Failure) { // side: its field in a Finding
		for _, f := range found {
			signature := f.Signature()
			row := known[signature]
			if row == nil {
				row = &Finding{Kind: f.Kind, Severity: f.Severity, Title: f.Title}
				known[signature] = row
				order = append(order, row)
			}
			if slices.Index(findings.Severities, f.Severity) < slices.Index(findings.Severities, row.Severity) {
				row.Severity = f.Severity
			}
			if failure := side(row); *failure == nil {
				*failure = &Failure{Count: f.Count, ID: f.ID}
			} else {
				(*failure).Count += f.Count
			}
		}
	}
	add(session.findings, func(f *Finding) **Failure { return &f.Session })
	add(with.findings, func(f *Finding) **Failure { return &f.With })
	list := []Finding{}
	for _, f := range order {
		f.In = InBoth
		if f.With == nil {
			f.In = InSession
		} else if f.Session == nil {
			f.In = InWith
		}
		list = append(list, *f)
	}
	sides := []string{InSession, InWith, InBoth}
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Compare(slices.Index(sides, a.In), slices.Index(sides, b.In))
	})
	return list
}

// nodeTypes returns the types of nodes that at least one side has, by their names and sizes.
func nodeTypes(session, with *Side) []NodeType {
	list := []NodeType{}
	for t := range keysOfBoth(session.nodes, with.nodes) {
		a, b := valueOrZero(session.nodes[t]), valueOrZero(with.nodes[t])
		list = append(list, NodeType{Type: t.name, CPU: t.cpu, GPU: t.gpu, MemoryBytes: max(a.memory, b.memory),
			Session: a.Nodes, With: b.Nodes})
	}
	slices.SortFunc(list, func(a, b NodeType) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.GPU, b.GPU))
	})
	return list
}
