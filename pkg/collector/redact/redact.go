// Package redact overwrites what matches given expressions before it leaves the collector. Each byte of a match becomes
// a `*`, so lengths and offsets stay.
//
// # What an expression sees
//
// An expression sees one line of text at a time, without its end. In JSON it sees each name and each string by itself,
// decoded and line by line, and JSON stays valid. A string that holds JSON is read in both ways: as the text that it is
// and as JSON. A line of a log that is one JSON object is, too. If an expression has groups, only what they match is
// overwritten.
//
// # How it is fast
//
// Go's regexp reads some 50 MB/s. So the literals are found that every match of an expression contains one of
// (requiredLiterals). One pass over the data looks for all of them (finder.go), and an expression only reads the lines
// that have one of its own. Expressions without such a literal read each line.
package redact

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/literals"
	"github.com/rayhistory/historyserver/internal/settings"
)

const (
	// maxRules is the maximum number of expressions and names together.
	maxRules = 64
	// maxExpression bounds the bytes of one expression, maxProgram its instructions: a repetition of few bytes can have
	// millions of them.
	maxExpression = 2 << 10
	maxProgram    = 10_000
	// maxLine is the maximum length of a line that expressions read. Longer lines are overwritten as a whole.
	maxLine = 64 << 10
	// maxRead bounds how much an expression reads of a line, in bytes: for each match it may read the line to its end,
	// to see whether an alternative that begins as early matches more (a|BEGIN.*END). So the longer a line is, the
	// fewer matches are looked for; what follows the last of them is overwritten as a whole.
	maxRead = 16 << 20
)

// Settings say what to redact.
type Settings struct {
	// Expressions are in Go's syntax (regexp/syntax).
	Expressions []string
	// File has further expressions, one a line. Empty lines and lines that begin with # are skipped. "": none.
	File string
	// Names are those of environment variables and JSON members whose values are redacted. A * stands for any letters,
	// digits and underscores.
	Names []string
}

// Redactor overwrites what matches. A nil Redactor changes nothing.
type Redactor struct {
	*rules
	matches prometheus.Counter
}

// rules are what all redactors of a process share.
type rules struct {
	list   []rule
	names  *regexp.Regexp // matches the names of members whose values are redacted; nil: there are none
	finder *finder        // nil: no rule has a literal
	always uint64         // rules that have none, a bit for each by its place in list
	// assigned are the rules that find names and their values in text.
	assigned uint64
	byPart   *prometheus.CounterVec
}

type rule struct {
	expression *regexp.Regexp
	groups     bool
}

// New compiles the settings. Without anything to redact it returns nil, which is a Redactor that changes nothing. The
// error names each mistake.
func New(s Settings) (*Redactor, error) {
	expressions, err := s.expressions()
	mistakes := []error{err}
	r := &rules{byPart: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rayhistory_collector_redacted_total",
		Help: "Matches that were overwritten by --redact and --redact-env, by part: events, logs, snapshots, metrics " +
			"or metadata. What is sent again counts again.",
	}, []string{"part"})}
	if n := len(expressions) + len(s.Names); n > maxRules {
		mistakes = append(mistakes, fmt.Errorf("--redact, --redact-file and --redact-env: %d expressions and names, "+
			"want %d at most: join some with |", n, maxRules))
	}
	literals := make(map[string]uint64) // for each literal the set of rules that need it: rule i has bit i
	for i, expression := range expressions {
		if err := r.addRule(expression, literals); err != nil {
			mistakes = append(mistakes, fmt.Errorf("expression %d of --redact and --redact-file: %w", i+1, err))
		}
	}
	var names []string
	for _, name := range s.Names {
		pattern, err := namePattern(name)
		if err == nil {
			r.assigned |= 1 << (len(r.list) % maxRules) // as addRule does
			err = r.addRule(fmt.Sprintf(assignment, pattern), literals)
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("--redact-env=%q: %w", name, err))
		}
		names = append(names, pattern)
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	if len(r.list) == 0 {
		return nil, nil
	}
	if len(names) > 0 {
		r.names = regexp.MustCompile("^(?:" + strings.Join(names, "|") + ")$")
	}
	if len(literals) > 0 {
		r.finder = newFinder(literals)
	}
	return &Redactor{rules: r}, nil
}

// expressions returns the expressions of the settings, and those in the lines of the file that are neither empty nor
// comments.
func (s Settings) expressions() ([]string, error) {
	list := append([]string(nil), s.Expressions...)
	if s.File == "" {
		return list, nil
	}
	text, err := settings.ReadFile(s.File)
	if err != nil {
		return nil, fmt.Errorf("--redact-file: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, lineEnds); strings.TrimSpace(line) != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list, nil
}

// addRule compiles an expression and appends its rule to r.list. It sets the rule's bit at each of its literals, texts
// of which every match contains one; if there are none, it sets the bit in r.always. The error does not show the
// expression: it may be a secret.
func (r *rules) addRule(expression string, literals map[string]uint64) error {
	if len(expression) > maxExpression {
		return fmt.Errorf("it has %d bytes, want %d at most", len(expression), maxExpression)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		if wrong, ok := errors.AsType[*syntax.Error](err); ok {
			return errors.New(string(wrong.Code))
		}
		return err
	}
	parsed = parsed.Simplify()
	program, err := syntax.Compile(parsed)
	if err != nil {
		return err
	}
	if len(program.Inst) > maxProgram {
		return fmt.Errorf("it takes %d instructions, want %d at most: repeat less", len(program.Inst), maxProgram)
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return err
	}
	if compiled.MatchString("") {
		return errors.New("it matches the empty text, and so everywhere: want an expression of at least one character")
	}
	bit := uint64(1) << (len(r.list) % maxRules) // with more rules New fails, after it has looked at all of them
	required := requiredLiterals(parsed)
	r.list = append(r.list, rule{compiled, compiled.NumSubexp() > 0})
	for _, literal := range required {
		literals[literal] |= bit
	}
	if required == nil {
		r.always |= bit
	}
	return nil
}

// nameCharacters are those that names of variables and of JSON's members have, and stars.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-*"

// namePattern is the expression of a name with stars.
func namePattern(name string) (string, error) {
	if strings.Trim(name, "*") == "" || strings.Trim(name, nameCharacters) != "" {
		return "", errors.New("want a name such as API_KEY or *_TOKEN")
	}
	return strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, `[A-Za-z0-9_]*`), nil
}

// assignment finds the value that text gives a name: NAME=value, "NAME": "value", ['NAME'] = 'value'.
const assignment = `(?:^|[^A-Za-z0-9_])%s[\\"'\])]*\s*[:=]\s*\\*(?:"((?:[^"\\]|\\.)*)|'((?:[^'\\]|\\.)*)|` +
	`([^\s"',;&)}\]]+))`

// Register registers the metric of all parts.
func (r *Redactor) Register(registerer prometheus.Registerer) {
	if r != nil {
		registerer.MustRegister(r.byPart)
	}
}

// For returns the redactor of one part of the collector, which counts its matches.
func (r *Redactor) For(part string) *Redactor {
	if r == nil {
		return nil
	}
	return &Redactor{rules: r.rules, matches: r.byPart.WithLabelValues(part)}
}

// Rules returns how many expressions and names there are, and how many of them have no literal, so that they read each
// line.
func (r *Redactor) Rules() (all, slow int) {
	if r == nil {
		return 0, 0
	}
	return len(r.list), bits.OnesCount64(r.always)
}

func (r *Redactor) countMatches(n int) {
	if n > 0 && r.matches != nil {
		r.matches.Add(float64(n))
	}
}

const (
	// maxLiterals bounds the literals of one expression.
	maxLiterals = 64
	// leastLiteral is the shortest literal that is looked for: shorter ones are everywhere.
	leastLiteral = 2
)

// requiredLiterals returns literals of which every match of the expression contains at least one, with ASCII letters in
// lower case; nil if there are none that are long enough. They have no characters that JSON must escape, so they stand
// in JSON as they are, but for escapes that hasEscapes finds. The expression must be simplified.
func requiredLiterals(re *syntax.Regexp) (required []string) {
	const fold = true
	for _, literal := range literals.Of(re, maxLiterals, fold) {
		longest := ""
		// JSON has an escape of its own for these.
		isEscaped := func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }
		for piece := range strings.FieldsFuncSeq(literal, isEscaped) {
			if len(piece) > len(longest) {
				longest = piece
			}
		}
		if len(longest) < leastLiteral {
			return nil
		}
		required = append(required, longest)
	}
	return required
}
