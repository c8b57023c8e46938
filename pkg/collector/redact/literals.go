package redact

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxLiterals bounds the literals of one expression, maxClass the characters of a class that are tried one by one.
	maxLiterals = 64
	maxClass    = 8
	// leastLiteral is the shortest literal that is looked for: shorter ones are everywhere.
	leastLiteral = 2
)

// requiredLiterals returns literals of which every match contains one, with ASCII letters in lower case; nil if there
// are no good ones. In JSON, they stand as they are but for escapes that hides finds: they have none of the characters
// that others are for. The expression must be simplified.
func requiredLiterals(re *syntax.Regexp) (literals []string) {
	for _, literal := range analyse(re).best() {
		longest := ""
		for piece := range strings.FieldsFuncSeq(literal, isEscaped) {
			if len(piece) > len(longest) {
				longest = piece
			}
		}
		if len(longest) < leastLiteral {
			return nil
		}
		literals = append(literals, longest)
	}
	return literals
}

// isEscaped says whether JSON has an escape of its own for a character.
func isEscaped(c rune) bool { return c < ' ' || c == '"' || c == '\\' }

// language is what is known about the texts that an expression matches.
type language struct {
	exact    []string // all of them; nil: not known, or too many
	required []string // each contains one of these; nil: not known
}

// best returns the better of both.
func (l language) best() []string { return better(l.exact, l.required) }

func better(a, b []string) []string {
	if x, y := shortest(a), shortest(b); x > y || (x == y && len(a) < len(b)) {
		return a
	}
	return b
}

// shortest returns the length of the shortest text, 0 if there is none.
func shortest(texts []string) int {
	least := 0
	for i, text := range texts {
		if i == 0 || len(text) < least {
			least = len(text)
		}
	}
	return least
}

// analyse says what is known of the texts that an expression matches; of a form without a case here, nothing.
func analyse(re *syntax.Regexp) language {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re)
	case syntax.OpCharClass:
		return class(re)
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return language{exact: []string{""}}
	case syntax.OpCapture:
		return analyse(re.Sub[0])
	case syntax.OpQuest:
		if l := analyse(re.Sub[0]); l.exact != nil && len(l.exact) < maxLiterals {
			return language{exact: append([]string{""}, l.exact...)}
		}
	case syntax.OpPlus:
		return language{required: analyse(re.Sub[0]).best()}
	case syntax.OpConcat:
		return concat(re.Sub)
	case syntax.OpAlternate:
		return alternate(re.Sub)
	}
	return language{}
}

// literal: what ignores case matches other characters, too, some of them beyond ASCII (k and s).
func literal(re *syntax.Regexp) language {
	texts := []string{""}
	for _, c := range re.Rune {
		forms := []string{lower(c)}
		if re.Flags&syntax.FoldCase != 0 {
			for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
				if form := lower(other); form != forms[0] {
					forms = append(forms, form)
				}
			}
		}
		longer := product(texts, forms)
		if longer == nil {
			return language{required: texts}
		}
		texts = longer
	}
	return language{exact: texts}
}

// class is the language of a class of characters: all of them, in lower case; not known if there are too many.
func class(re *syntax.Regexp) language {
	var forms []string
	for i := 0; i < len(re.Rune); i += 2 {
		for c := re.Rune[i]; c <= re.Rune[i+1]; c++ {
			if len(forms) == maxClass {
				return language{}
			}
			forms = append(forms, lower(c))
		}
	}
	return language{exact: forms}
}

// lower is a character as the finder looks for it: ASCII letters, and no others, in lower case.
func lower(c rune) string {
	if c == utf8.RuneError {
		return "" // for expressions any byte that is not UTF-8 is this character, so no text stands for it
	}
	if c < utf8.RuneSelf {
		c = unicode.ToLower(c)
	}
	return string(c)
}

// concat joins neighbours whose texts are all known.
func concat(subs []*syntax.Regexp) language {
	var l language
	run, whole := []string{""}, true
	for _, sub := range subs {
		next := analyse(sub)
		if joined := product(run, next.exact); joined != nil {
			run = joined
			continue
		}
		whole = false
		l.required = better(better(l.required, run), next.best())
		if run = next.exact; run == nil {
			run = []string{""}
		}
	}
	if whole {
		return language{exact: run}
	}
	l.required = better(l.required, run)
	return l
}

// alternate is the language of alternatives, of which a text matches one.
func alternate(subs []*syntax.Regexp) language {
	l := language{exact: []string{}, required: []string{}}
	for _, sub := range subs {
		next := analyse(sub)
		l.exact, l.required = union(l.exact, next.exact), union(l.required, next.best())
	}
	return l
}

// union is nil if either is, or if there are too many.
func union(a, b []string) []string {
	if a == nil || b == nil || len(a)+len(b) > maxLiterals {
		return nil
	}
	return append(a[:len(a):len(a)], b...)
}

// product is each text of a followed by each of b; nil if either is, or if there are too many.
func product(a, b []string) []string {
	if a == nil || b == nil || len(a)*len(b) > maxLiterals {
		return nil
	}
	var texts []string
	for _, x := range a {
		for _, y := range b {
			texts = append(texts, x+y)
		}
	}
	return texts
}
