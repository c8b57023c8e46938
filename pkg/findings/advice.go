package findings

import (
	_ "embed"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

const docsRoot = "https://docs.ray.io/en/latest/"

// help says what to do about a finding. Docs is the address of Ray's page about it, below docsRoot.
type help struct{ Advice, Docs string }

// saying is help about failures that say a certain thing, whatever kind of finding they are.
type saying struct {
	help
	Types   []string // the exceptions that it is about; nil: any
	Says    string   // an expression for what the finding's title says; "": anything
	GPUFull bool     // the expression is gpuFull
	says    func() *regexp.Regexp
}

// helpTable is what to do: about each kind, about what says a certain thing (the first that fits is given), and what is
// said of some findings instead, by a name.
type helpTable struct {
	Kinds, Instead map[string]help
	Said           []saying
}

//go:embed help.json
var helpJSON []byte

var helps = sync.OnceValue(func() (all helpTable) {
	if err := json.Unmarshal(helpJSON, &all); err != nil {
		panic("help.json: " + err.Error())
	}
	for i := range all.Said {
		if all.Said[i].says = lazyregexp.New(all.Said[i].Says); all.Said[i].GPUFull {
			all.Said[i].says = gpuFull
		}
	}
	return all
})

// Names in help.json of what is said instead of the help of a kind.
const (
	withItsNode      = "with its node"
	withItsActor     = "with its actor"
	actorWithItsNode = "actor with its node"
	consequence      = "consequence"
	userCode         = "user code"
)

// Kinds returns all kinds of findings, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(helps().Kinds)) }

// CheckKind returns an error if a filter asks for a kind of findings that does not exist.
func CheckKind(f catalog.Filter) error {
	kinds := Kinds()
	if f.Finding == "" || slices.Contains(kinds, f.Finding) {
		return nil
	}
	return &param.Error{Name: "finding", Value: f.Finding,
		Want: "a kind of findings, such as node_died or out_of_memory" + human.Suggest(f.Finding, kinds)}
}

// ofKind holds kinds whose own advice fits whatever else their titles say.
var ofKind = map[string]bool{NodeDied: true, GCSDied: true, OutOfMemory: true, Pod: true, Starved: true,
	Cancelled: true, JobStopped: true, Unended: true}

// help returns what to do about a finding. The first of these that there is counts: what its helpName stands for; that
// its cause has help, for a job's end; what fits its exception or title, unless its kind's own help always fits; that
// the user's code raised the exception; the help of its kind.
func (f *finding) help() help {
	if f.helpName != "" {
		return helps().Instead[f.helpName]
	}
	if f.ended != nil && len(f.because) > 0 { // what the job failed of has its own help
		return helps().Instead[consequence]
	}
	for _, s := range helps().Said {
		// a code of gRPC is about the connection, whatever words stand beside it
		if ofKind[f.Kind] || strings.Contains(f.Title, "rpc_code") {
			break
		}
		if (s.Types == nil || slices.Contains(s.Types, f.raised.Type)) && s.says().MatchString(f.Title) {
			return s.help
		}
	}
	if f.Kind == JobFailed && f.raised.Type != "" && !strings.Contains(f.Title, "exit code") {
		return helps().Instead[userCode]
	}
	return helps().Kinds[f.Kind]
}

// isDocs reports whether an address is that of a page to which some help refers.
func isDocs(address string) bool {
	refers := func(h help) bool { return address == docsRoot+h.Docs }
	all := helps()
	return slices.ContainsFunc(all.Said, func(s saying) bool { return refers(s.help) }) ||
		slices.ContainsFunc(slices.Collect(maps.Values(all.Kinds)), refers) ||
		slices.ContainsFunc(slices.Collect(maps.Values(all.Instead)), refers)
}
