package retention

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/strictyaml"
	"github.com/rayhistory/historyserver/pkg/catalog"
)

// Rules say how long sessions are kept after their end. The first rule that holds for a session decides.
type Rules []Rule

// Rule is for the sessions that all of its patterns fit; no pattern fits all.
type Rule struct {
	Namespaces settings.Patterns `yaml:"namespaces"`
	Clusters   settings.Patterns `yaml:"clusters"` // of the cluster's or its owner's name
	Outcomes   []string          `yaml:"outcomes"` // of catalog.Outcomes
	// Keep is the time since the end, such as 90d, or forever.
	Keep string `yaml:"keep"`

	keep time.Duration // 0: forever
}

// maxRules bounds a file of rules.
const maxRules = 1000

// ReadRules reads rules from a YAML file.
func ReadRules(name string) (Rules, error) {
	text, err := settings.ReadFile(name)
	if err != nil {
		return nil, err
	}
	rules, err := ParseRules(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rules, nil
}

// ParseRules reads rules from YAML: {rules: [{namespaces, clusters, outcomes, keep}, …]}.
func ParseRules(text []byte) (Rules, error) {
	var file struct {
		Rules Rules `yaml:"rules"`
	}
	// Nothing in the file is skipped: it could be a rule that keeps sessions.
	if err := strictyaml.Decode(text, &file, "rules"); err != nil {
		return nil, err
	}
	if len(file.Rules) == 0 || len(file.Rules) > maxRules {
		return nil, fmt.Errorf("%d rules: want `rules:` with 1 to %d, such as `- {outcomes: [failed], keep: 90d}`",
			len(file.Rules), maxRules)
	}
	for i := range file.Rules {
		if err := file.Rules[i].check(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return file.Rules, nil
}

// check returns what is wrong with a rule of the settings file, and sets keep from Keep.
func (r *Rule) check() error {
	if err := slices.Concat(r.Namespaces, r.Clusters).Check(); err != nil {
		return fmt.Errorf("pattern %w", err)
	}
	for _, o := range r.Outcomes {
		if !slices.Contains(catalog.Outcomes, o) {
			return fmt.Errorf("outcome %q: want %s", o, human.Or(catalog.Outcomes))
		}
	}
	switch r.Keep {
	case "forever":
		return nil
	case "":
		return errors.New("keep is missing: set a time, such as keep: 90d, or keep: forever")
	}
	if err := (*settings.Duration)(&r.keep).Set(r.Keep); err != nil {
		return fmt.Errorf("keep %q: %w, or forever", r.Keep, err)
	}
	if r.keep < time.Hour {
		return fmt.Errorf("keep %q: want at least 1h", r.Keep)
	}
	return nil
}

// isFor says whether the rule is for a session, whatever its outcome.
func (r *Rule) isFor(e catalog.Entry) bool {
	return r.Namespaces.Match(e.Ref.Namespace) && (r.Clusters.Match(e.Ref.Cluster) || r.Clusters.Match(e.OwnerName))
}

// Term is how long a session is kept after its end, and why.
type Term struct {
	Keep time.Duration // 0: forever
	Why  string        // such as "rule 2 keeps 90d"
}

// Of returns the term of a session: that of the first rule for it, or rest if there is none. If the outcome is not
// known (""), rules with outcomes may or may not be for it. Then the longest term counts among these rules, up to and
// with the first one that holds for any outcome; if no rule does, rest is compared too.
func (rules Rules) Of(e catalog.Entry, outcome string, rest Term) Term {
	var longest *Rule
	number := 0
	for i := range rules {
		r := &rules[i]
		if !r.isFor(e) || outcome != "" && len(r.Outcomes) > 0 && !slices.Contains(r.Outcomes, outcome) {
			continue
		}
		if longest == nil || longest.keep != 0 && (r.keep == 0 || r.keep > longest.keep) {
			longest, number = r, i+1
		}
		if holds := outcome != "" || len(r.Outcomes) == 0; holds { // later rules do not count
			return longest.term(number, r != longest)
		}
	}
	if longest != nil && rest.Keep != 0 && (longest.keep == 0 || longest.keep > rest.Keep) {
		const unsure = true
		return longest.term(number, unsure)
	}
	if longest != nil {
		rest.Why += ", the longest that may hold: the outcome is not known"
	}
	return rest
}

// term returns the term of the rule, whose number in the file is number, from 1. unsure says that another rule may
// decide when the outcome is known.
func (r *Rule) term(number int, unsure bool) Term {
	why := fmt.Sprintf("rule %d keeps %s", number, r.Keep)
	if unsure {
		why += ", the longest that may hold: the outcome is not known"
	}
	return Term{Keep: r.keep, Why: why}
}
